"""register_hook and retain_grad: what is called with the gradient of a value, and when."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, FusionSkipped, GradientError
from netcl_core.tape import hooks


@pytest.fixture(autouse=True)
def none_left(either: nc.Device) -> Any:
    gc.collect()
    before = len(hooks.hook_rows)
    yield
    gc.collect()
    assert len(hooks.hook_rows) == before


def leaf(*values: float) -> Any:
    return nc.tensor(list(values), requires_grad=True)


def doubled(grad: Any) -> Any:
    return grad * 2


def test_a_hook_sees_the_whole_gradient_once_and_replaces_it() -> None:
    x, seen = leaf(1.0, 2.0), []

    def hook(grad: Any) -> Any:
        seen.append(grad.numpy().tolist())
        return grad * 10

    x.register_hook(hook)
    y = x * 3 + x * x
    for expected in ([50.0, 70.0], [100.0, 140.0]):  # the second is added to the first
        ag.sum(y).backward(retain_graph=True)
        assert x.grad.numpy().tolist() == expected
    assert seen == [[5.0, 7.0]] * 2


def test_a_hook_of_a_result_changes_what_flows_on() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    y.register_hook(doubled)
    y.register_hook(lambda grad: None)
    y.register_hook(lambda grad: grad + 1)
    ag.sum(y * 5).backward()
    assert x.grad.numpy().tolist() == [2 * 11.0, 4 * 11.0]


def test_a_removed_hook_is_not_called() -> None:
    x = leaf(1.0)
    handle, other = x.register_hook(doubled), x.register_hook(doubled)
    handle.remove()
    handle.remove()
    ag.sum(x * 1).backward()
    assert x.grad.item() == 2.0
    other.remove()
    x.grad = None
    ag.sum(x * 1).backward()
    assert x.grad.item() == 1.0


def test_a_result_keeps_its_gradient_after_the_hooks() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    y.retain_grad()
    y.register_hook(doubled)
    z = y * 3
    ag.sum(z).backward(retain_graph=True)
    assert y.grad.numpy().tolist() == [6.0, 6.0] and z.grad is None
    held = y.grad.numpy()
    ag.sum(z).backward()  # the latest pass, not the sum of both
    np.testing.assert_array_equal(y.grad.numpy(), held)
    x.retain_grad()  # of a leaf nothing changes
    assert x.grad.numpy().tolist() == [24.0, 48.0]


def test_each_of_several_results_has_its_own() -> None:
    x = leaf(3.0, 1.0, 2.0)
    values, indices = ag.topk(x, 2)
    values.register_hook(doubled)
    values.retain_grad()
    ag.sum(values).backward()
    assert values.grad.numpy().tolist() == [2.0, 2.0]
    assert x.grad.numpy().tolist() == [2.0, 0.0, 2.0]
    with pytest.raises(GradientError, match="register_hook"):
        indices.register_hook(doubled)


def test_gradients_of_targets_pass_the_hooks_too() -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    y.register_hook(doubled)
    [dx, dy] = ag.grad(ag.sum(y), [x, y])
    assert dx.numpy().tolist() == [4.0, 8.0] and dy.numpy().tolist() == [2.0, 2.0]
    assert x.grad is None


def test_a_kept_gradient_does_not_change_later() -> None:
    x, kept = leaf(1.0, 2.0), []
    x.register_hook(kept.append)
    for _ in range(3):
        ag.sum(x * 1).backward()
    assert [each.numpy().tolist() for each in kept] == [[1.0, 1.0]] * 3
    assert x.grad.numpy().tolist() == [3.0, 3.0]


def test_an_exception_in_a_hook_leaves_no_half_of_a_pass() -> None:
    x, w = leaf(1.0), leaf(2.0)
    handle = x.register_hook(lambda grad: 1 / 0)
    y = ag.sum(x * w)
    with pytest.raises(ZeroDivisionError):
        y.backward(retain_graph=True)
    assert x.grad is None and w.grad is None
    handle.remove()
    y.backward()
    assert (x.grad.item(), w.grad.item()) == (2.0, 1.0)


@pytest.mark.parametrize("given", [3, "text", lambda: nc.tensor([1.0, 2.0, 3.0])])
def test_what_a_hook_returns_is_checked(given: Any) -> None:
    x = leaf(1.0, 2.0)
    x.register_hook(lambda grad: given() if callable(given) else given)
    with pytest.raises(GradientError, match="a hook"):
        ag.sum(x).backward()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: x.register_hook(3), ArgumentError),
        (lambda x: nc.tensor([1.0]).register_hook(print), GradientError),
        (lambda x: nc.tensor([1.0]).retain_grad(), GradientError),
        (lambda x: x.detach().retain_grad(), GradientError),
    ],
)
def test_mistakes_are_refused(call: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(leaf(1.0))


def test_in_a_compiled_function_a_hook_ends_the_trace() -> None:
    seen: list[float] = []

    @ag.jit_compile
    def function(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda grad: seen.append(grad.item()))
        return ag.exp(y)

    x = leaf(1.0)
    with pytest.warns(FusionSkipped, match="register_hook"):
        function(leaf(2.0))
    for count in (1, 2):
        ag.sum(function(x)).backward()
        assert seen == pytest.approx([np.e] * count)


def test_against_pytorch() -> None:
    torch = pytest.importorskip("torch")
    given = np.linspace(-1, 1, 6).reshape(2, 3)

    def run(tensor: Any, total: Any, value: Callable[[Any], Any]) -> list[Any]:
        x = tensor(given)
        y = x * x
        y.register_hook(lambda g: g * 3)
        y.retain_grad()
        z = y * x
        z.register_hook(lambda g: g + 1)
        x.register_hook(lambda g: g * 0.5)
        total(z).backward()
        return [value(x.grad), value(y.grad)]

    ours = run(lambda a: ag.tensor(nc.tensor(a, dtype="float32"), requires_grad=True),
               ag.sum, lambda t: t.numpy())  # fmt: skip
    theirs = run(lambda a: torch.tensor(a, dtype=torch.float32, requires_grad=True),
                 torch.sum, lambda t: t.numpy())  # fmt: skip
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))], ids=str)
def test_hooks_of_several_results_of_one_kernel_stay_with_them(order: Any) -> None:
    """Though each asks for its result by itself, so that others are recorded anew."""

    def function(x: Any) -> Any:
        y = ag.relu(x * 2)
        return y * y, y, ag.tanh(y) * x

    gradients = []
    for call in (function, ag.jit_compile(function)):
        x, seen = nc.tensor([0.5, 2.0], requires_grad=True), list[int]()
        results = call(x)
        for i in order:
            results[i].register_hook(lambda grad, i=i, seen=seen: seen.append(i) or grad * 3)
        ag.sum(sum(results)).backward()
        gradients.append([*x.grad.tolist(), *sorted(seen)])
    assert gradients[0] == pytest.approx(gradients[1])
