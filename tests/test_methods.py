"""Methods and operators of tensors: PyTorch's names, values and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DtypeError,
    MissingNameError,
    ShapeError,
)

torch = pytest.importorskip("torch")
pytest.importorskip("netcl_plugin_tensor")
ARRAY = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4)

#: Expressions of `x`, a tensor of either library, and `t`, the library.
ALIKE = [
    "x.sum()", "x.sum(dim=1)", "x.sum(1, True)", "x.mean()", "x.mean(-1, keepdim=True)",
    "x.exp()", "x.sqrt().log()", "x.view(6, 4)", "x.view(-1)", "x.view((4, 6))",
    "x.reshape(3, 8)", "x.permute(2, 0, 1)", "x.transpose(0, 2)", "x[0].t()", "x[0, 0].t()",
    "x.flatten(1)", "x.unsqueeze(0).squeeze(0)", "x.expand(5, 2, 3, 4)", "x[:, :1].expand_as(x)",
    "x.view_as(x)", "x.add(1).sub(2).mul(3).div(4)", "x.pow(2)", "x.clamp(3, 9)",
    "x.clamp(min=3)", "x.softmax(-1)", "x.log_softmax(dim=0)", "x.tanh()",
    "x.matmul(x.transpose(1, 2))", "x[0] @ x[1].t()", "x.amax(1)", "x.flip(0, 2)", "x.var(1)",
    "x.std()", "x.cumsum(1)", "x.where(x > 5, x * 0)", "x.masked_fill(x > 5, 0.0)",
    "x.float().double().float()", "x.clone()", "x.contiguous()", "x.relu()", "x.sigmoid()",
    "x.gather(2, t.tensor([[[0], [1], [2]], [[3], [0], [1]]]))", "x % 5", "-x % 7", "2 ** x",
    "abs(-x)", "x.prod(2)", "x.logsumexp(1)", "x.to(t.float32)", "x.type_as(x)",
    "x.neg().abs().square().rsqrt()",
]  # fmt: skip
#: The same without gradients.
CONSTANT = [
    "x // 3", "100 % x", "7 // x", "x == 3", "x != 3", "x == x", "x > 3", "(x > 3) & (x < 9)",
    "(x > 3) | (x < 2)", "(x > 3) ^ (x > 9)", "~(x > 3)", "x.int() & 6", "x.int() | 6",
    "x.long() ^ 6", "~x.int()", "x.int() // 5", "-x.int() % 5", "x.argmax()", "x.argmax(1)",
    "x.half().float()", "x.bool()", "x.isnan()", "x.isfinite()", "x.eq(3)", "x.logical_not()",
    "x.new_zeros(2, 3)", "x.new_ones(3)", "x.detach()", "x.data", "x.byte()",
]  # fmt: skip


@pytest.mark.sample(25)
@pytest.mark.parametrize("text", ALIKE)
def test_a_method_is_pytorchs(text: str) -> None:
    found = []
    for t in (torch, nc):
        x = t.tensor(ARRAY / 4, requires_grad=True)
        y = eval(text, {"x": x, "t": t, "abs": abs})
        if y.requires_grad:
            (y * y).sum().backward()
        grad = np.zeros_like(ARRAY) if x.grad is None else x.grad.numpy()
        found.append((y.detach().numpy(), grad))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("text", CONSTANT)
def test_a_method_without_gradient_is_pytorchs(text: str) -> None:
    theirs, ours = (eval(text, {"x": t.tensor(ARRAY)}).numpy() for t in (torch, nc))
    np.testing.assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype


def test_sizes_and_read_outs() -> None:
    x = nc.tensor(ARRAY)
    assert (x.size, x.size(), x.size(1), x.numel(), x.dim()) == (24, (2, 3, 4), 3, 24, 3)
    assert x.element_size() == 4 and x.is_floating_point() and x.is_contiguous()
    assert x.tolist() == ARRAY.tolist()
    assert x.cpu().device is nc.default_device()
    assert x.cpu().to(x).device is x.device


def test_to_takes_devices_dtypes_and_tensors() -> None:
    x = nc.tensor(ARRAY)
    moved = x.to("numpy", dtype="float16")
    assert (str(moved.device), moved.dtype) == ("numpy", "float16")
    assert x.to(x.device) is x and x.to("float32") is x
    assert x.to(moved).dtype == "float16"
    with pytest.raises(ArgumentError, match="to: neither a device nor a dtype"):
        x.to()


def test_a_clone_has_a_buffer_of_its_own() -> None:
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    y = x.clone()
    y += 1
    assert x.numpy().tolist() == [1, 2]
    y.sum().backward()
    assert x.grad.numpy().tolist() == [1, 1]
    whole = nc.tensor([2**40 + 1, -7])
    assert whole.clone().numpy().tolist() == [2**40 + 1, -7]


def test_membership_and_format() -> None:
    x = nc.tensor([1.0, 2.5])
    assert 2.5 in x and 3 not in x
    assert f"{x[1]:.3f}" == "2.500" and f"{x.sum():6.1f}" == "   3.5"
    assert f"{x}" == repr(x) and f"{x[1]}" == "2.5" and f"{x.sum()}" == "3.5"


def test_a_number_is_printed_as_pytorch_prints_it() -> None:
    torch = pytest.importorskip("torch")
    leaf = {lib: lib.tensor(0.1, requires_grad=True) for lib in (nc, torch)}
    for ours, theirs in (
        (leaf[nc], leaf[torch]),
        (leaf[nc] * 2, leaf[torch] * 2),
        (nc.tensor(True), torch.tensor(True)),
        (nc.tensor(3), torch.tensor(3)),
    ):
        assert "{}".format(ours) == f"{ours}" == f"{theirs}"  # noqa: UP032
        assert f"{ours:8.3f} {ours:>6}" == f"{theirs:8.3f} {theirs:>6}"
    one = nc.tensor([0.1])
    assert f"{one}" == str(one) and f"{one:.2f}" == f"{one * 1:.2f}" == "0.10"
    assert f"{nc.nn.Parameter(0.5)}".startswith("Parameter containing")
    with pytest.raises(ShapeError, match="expected one element"):
        f"{nc.zeros(2):.3f}"


def test_values_are_keys_and_compare_with_nothing() -> None:
    x, y = nc.tensor([1.0]), nc.tensor([1.0])
    assert {x: 1, y: 2}[x] == 1 and len({x, y, x}) == 2
    assert (x == None) is False and (x != None) is True  # noqa: E711
    assert (x == "text") is False
    assert np.array_equal((np.array([1.0]) == x).numpy(), [True])


def test_constants_and_results_print_alike() -> None:
    x = nc.tensor([1.0, 2.0], device="numpy")
    shown = "Tensor([1., 2.], shape=(2,), dtype=float32, device=numpy)"
    assert repr(x) == repr(ag.tensor(x)) == shown
    w = nc.tensor([1.0], device="numpy", requires_grad=True)
    assert repr(w).endswith("device=numpy, requires_grad=True)")
    assert repr(w * 2) == "Tensor([2.], shape=(1,), dtype=float32, device=numpy, grad_fn=<mul>)"


def test_what_is_no_method() -> None:
    x = nc.tensor([1.0])
    with pytest.raises(MissingNameError, match=r"no method 'cat'. It is a function"):
        _ = x.cat
    with pytest.raises(AttributeError, match=r"has no 'shap'. Did you mean shape"):
        _ = x.shap
    with pytest.raises(ArgumentError, match="view"):
        x.view("int32")
    assert not hasattr(x, "rand") and hasattr(x, "sum")


def test_dir_shows_methods() -> None:
    shown = dir(nc.tensor([1.0]))
    assert {"sum", "view", "add", "shape", "float", "softmax"} <= set(shown)
    assert not {"cat", "rand", "where_"} & set(shown)


def test_division_of_integers_by_nothing() -> None:
    x = nc.tensor([7, -7])
    with pytest.raises(AttributeValueError, match="integers by 0"):
        x // 0
    with pytest.raises(DtypeError, match="bools or integers"):
        _ = nc.tensor([1.0]) & 1
    assert (x // nc.tensor([0, 2])).numpy().tolist() == [0, -4]


# -- in place -------------------------------------------------------------------------------------


def steps(t: Any) -> list[Any]:
    """What a user does in place, with values and gradients on the way."""
    w = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = w * 2
    y += 1
    y.mul_(3).sub_(t.tensor([1.0, 1.0, 2.0]))
    y /= 2
    y.clamp_(max=1e4)
    y[1] = w[0] * 10
    y -= w
    y.sum().backward()
    with t.no_grad():
        w -= 0.1 * w.grad
        w.clamp_(-100.0, 100.0)
    total = t.zeros(())
    for _ in range(3):
        total += (w * w).sum()
    total.backward()
    seen = t.zeros(2, 3)
    flat = seen.view(-1)
    flat += 5
    seen.add_(1).relu_()
    seen.zero_().fill_(2.5)
    counts = t.tensor([1, 2])
    counts += 1
    counts *= 2
    counts **= 2
    counts %= 7
    return [y.detach(), w.detach(), w.grad, total.detach(), seen, flat, counts]


def test_in_place_forms_do_what_pytorchs_do() -> None:
    for theirs, ours in zip(steps(torch), steps(nc), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5)


def test_a_change_in_place_is_seen_by_a_graph_that_read_the_value() -> None:
    w, x = nc.tensor([1.0, 2.0], requires_grad=True), nc.tensor([3.0, 4.0])
    y = (w * x).sum()
    x.add_(1)
    with pytest.raises(nc.errors.NetclError, match=r"changed|in place|version"):
        y.backward()


def test_a_value_that_ops_have_used_changes_for_all_who_hold_it() -> None:
    w = nc.tensor([1.0, 2.0], requires_grad=True)
    y = w * 3
    z = y * y
    old = y
    y += 1
    assert y is old and old.numpy().tolist() == [4, 7]
    (z.sum() + y.sum()).backward()
    np.testing.assert_allclose(w.grad.numpy(), 18 * np.array([1, 2]) + 3)


def test_what_may_not_change_in_place() -> None:
    w = nc.tensor([1.0, 2.0], requires_grad=True)
    for change in (lambda: w.add_(1), lambda: w.zero_(), lambda: w.__iadd__(1)):
        with pytest.raises(nc.errors.GradientError, match=r"a leaf that needs a gradient.*no_grad"):
            change()
    with pytest.raises(nc.errors.GradientError, match=r"a view of a leaf.*no_grad"):
        w.reshape(2, 1).add_(1)
    with pytest.raises(nc.errors.ArgumentError, match=r"an expanded tensor.*clone"):
        nc.ones(1).expand(2).add_(1)
    held = nc.zeros(2)
    with pytest.raises(nc.errors.ShapeError, match=r"a value of shape \(3, 2\)"):
        held.add_(nc.ones(3, 2))
    with pytest.raises(DtypeError, match="a float32 value into int64"):
        nc.tensor([1, 2]).add_(0.5)
    assert held.numpy().tolist() == [0, 0]


@pytest.mark.parametrize("change", [lambda y: y.relu_(), lambda y: y.view(2).relu_()])
def test_hooks_stay_with_the_value_they_were_given_to(change: Callable[[Any], Any]) -> None:
    """As in PyTorch: a change in place makes another value, which keeps its own gradient."""
    seen: list[Any] = []
    w = nc.tensor([-1.0, 2.0], requires_grad=True)
    y = w * 2
    before = y.register_hook(lambda grad: seen.append(("before", grad.tolist())))
    y.retain_grad()
    change(y)
    y.register_hook(lambda grad: seen.append(("after", grad.tolist())))
    (y * 3).sum().backward(retain_graph=True)
    assert seen == [("after", [3, 3]), ("before", [0, 3])]
    assert y.grad.tolist() == [3, 3] and w.grad.tolist() == [0, 6]
    before.remove()
    (y * 3).sum().backward()
    assert len(seen) == 3


def test_a_tape_lists_the_change_and_what_was_there_before() -> None:
    w = nc.tensor([1.0], requires_grad=True)
    with ag.Tape() as tape:
        y = w * 2
        y += 1
        loss = y.sum()
    assert [node.op_name for node in tape.nodes] == ["mul", "add", "sum"]
    tape.backward(loss)
    assert w.grad.numpy().tolist() == [2]


def test_a_compiled_function_may_change_in_place() -> None:
    @ag.jit_compile
    def step(x: Any) -> Any:
        y = x * 2
        y += 1
        y[0] = 7
        return y * y

    for _ in range(2):
        x = nc.tensor([1.0, 2.0], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it does not fuse them
            found = step(x)
        np.testing.assert_allclose(found.numpy(), [49, 25])
        found.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), [0, 20])
