"""`detect_anomaly(check_numerics=True)`: gradients against finite differences of the forward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import anomaly_figures as figures
import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import numerics
from netcl_core.errors import AnomalyError
from netcl_core.hardware.device_table import get_device

for plugin in ("elementwise", "tensor", "linalg", "losses"):
    pytest.importorskip(f"netcl_plugin_{plugin}")

#: Inputs of each op here; `python tests/support/anomaly_figures.py` takes 2,000.
INPUTS = 4
DEVICES = usable_devices()
CASES = figures.all_cases()
STRUCTURED = ("amax", "prod", "softmax", "matmul", "linear", "cumsum", "gather")


@pytest.fixture
def every_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numerics are compared for each node, however long that takes."""
    monkeypatch.setattr("netcl_plugin_kit.numerics.checking._MOST", float("inf"))


def leaf(values: Any, dtype: str = "float32", device: Any = None) -> nc.Tensor:
    return nc.Tensor.from_host(np.array(values, dtype), device, requires_grad=True)


def host(tensor: Any) -> Any:
    return tensor.to_host().tolist()


def times(factor: Any, function: Callable[..., Any], *inputs: nc.Tensor) -> Any:
    """An op whose gradients are those of a function times a factor."""

    def backward(grad: nc.Tensor) -> list[Any]:
        copies = [nc.Tensor.from_host(x.to_host(), x.device, requires_grad=True) for x in inputs]
        with ag.enable_grad():
            result = function(*copies)
        found = ag.grad(result, copies, grad)
        return [None if each is None else (ag.mul(each, factor)).value for each in found]

    def forward(*values: nc.Tensor) -> nc.Tensor:
        return function(*values).value

    return ag.apply_op(forward, backward, *inputs, op_name="suspect")


def checked(result: Any, seed: int = 0, *, finite: bool = True) -> None:
    """A backward pass under check_numerics with a random upstream gradient."""
    grad = np.random.default_rng(seed).standard_normal(result.shape).astype(result.dtype)
    mode = ag.detect_anomaly(check_numerics=True)
    if not finite:
        mode._mode = SimpleNamespace(around=lambda nodes: nullcontext(), check=mode._mode.numerics)
    with mode:
        result.backward(grad, retain_graph=True)


# -- wrong gradients --------------------------------------------------------------------


def test_check_numerics_finds_a_gradient_that_is_off() -> None:
    x = leaf([1.0, 2, 3])
    wrong = ag.apply_op(
        lambda v: (v * v).value, lambda g: [(g * x * 1554.0).value], x, op_name="off_by_777"
    )
    with (
        ag.detect_anomaly(check_numerics=True),
        pytest.raises(AnomalyError, match=r"off_by_777: the gradient of input 0 at \(\d,\) is .*"
                                          r"finite difference.*Made at .*test_checking"),
    ):  # fmt: skip
        wrong.backward(np.ones(3, "float32"))


@pytest.mark.parametrize("factor", [1.01, 0.99, -1.0, 0.0, 388.0])
@pytest.mark.parametrize(
    "function", [ag.tanh, lambda x: ag.softmax(x, 1), lambda x: ag.amax(x, 1), ag.square],
    ids=["tanh", "softmax", "amax", "square"],
)  # fmt: skip
def test_a_factor_on_every_gradient_is_seen(function: Callable[..., Any], factor: float) -> None:
    for seed in range(2):
        values = np.random.default_rng(seed).standard_normal((3, 5))
        checked(function(leaf(values)), seed)
        with pytest.raises(AnomalyError, match="suspect"):
            checked(times(factor, function, leaf(values)), seed)


def test_one_wrong_element_among_many_is_named() -> None:
    x = leaf(np.random.default_rng(0).standard_normal((40, 50)))
    off = np.ones((40, 50), "float32")
    off[17, 3] = 1.5
    for function in (ag.exp, lambda x: ag.cumsum(x, 1)):
        with pytest.raises(AnomalyError, match=r"input 0 at \(17, 3\) is"):
            checked(times(nc.tensor(off), function, x))


@pytest.mark.parametrize("function", [ag.sigmoid, lambda x: ag.softmax(x, -1)])
def test_an_infinite_element_whose_result_is_finite_has_no_gradient(
    function: Callable[..., Any],
) -> None:
    """A step cannot move a masked score; its gradient is 0 all the same."""
    values = [[0.5, -np.inf, -1.5, 2.0]]
    checked(function(leaf(values)))

    def off(grad: nc.Tensor) -> list[Any]:
        x = leaf(values)
        with ag.enable_grad():
            result = function(x)
        return [(ag.grad(result, [x], grad)[0] + nc.tensor([[0.0, 0.25, 0.0, 0.0]])).value]

    wrong = ag.apply_op(lambda v: function(v).value, off, leaf(values), op_name="suspect")
    with pytest.raises(AnomalyError, match=r"\(0, 1\)"):
        checked(wrong)


def test_one_of_several_inputs_and_one_tensor_twice() -> None:
    x, y = leaf([[1.0, 2.0], [3.0, 5.0]]), leaf([[0.5, -1.0], [2.0, 4.0]])
    checked(ag.matmul(x, x))
    checked(ag.mul(x, x))

    def wrong(g: nc.Tensor) -> list[Any]:
        return [ag.matmul(g, y, False, True).value, ag.matmul(x, g, True).value * 1.01]

    product = ag.apply_op(lambda a, b: ag.matmul(a, b).value, wrong, x, y, op_name="product")
    with pytest.raises(AnomalyError, match="the gradient of input 1"):
        checked(product)


class Scaled:
    """A call whose gradients are 1 % too large."""

    def __init__(self, call: Any) -> None:
        self.right = call

    @property
    def __class__(self) -> Any:  # it is known by its class how to compute its forward
        return type(self.right)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    def gradients(self, *args: Any) -> list[Any]:
        found = self.right.gradients(*args)
        return [None if each is None else ag.mul(figures.whole(each), 1.01).value for each in found]


def test_results_of_one_region_are_checked_together() -> None:
    both = ag.jit_compile(lambda x: (ag.exp(x) * x, ag.tanh(x)))
    found = both(leaf([0.5, 1.5]))
    checked(found[0] * found[1])
    found = both(leaf([0.5, 1.5]))
    found[0].call = Scaled(found[0].call)
    with pytest.raises(AnomalyError, match=r"fused\(exp, mul, tanh\)"):
        checked(found[0] * found[1])


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_fused_operator_is_checked(device: Any) -> None:
    x = leaf(np.random.default_rng(1).standard_normal((6, 20)), device=device)
    w = leaf(np.random.default_rng(2).standard_normal(20), device=device)
    for function in (
        lambda x, w: ag.sum(ag.relu(x * w), 1) * 2 + 1,
        lambda x, w: ag.softmax(ag.tanh(x) * 3, 1) * w,
        lambda x, w: ag.tanh(ag.amax(x * 2, 1)),
    ):
        result = ag.jit_compile(function)(x, w)
        checked(result)
        result = ag.jit_compile(function)(x, w)
        if not result.op_name.startswith("fused"):
            continue
        result.call = Scaled(result.call)
        with pytest.raises(AnomalyError, match="fused"):
            checked(result)


# -- right gradients --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (ag.tanh, [1e-12, 1e-4, 0.3, 5.0, 9.0, 12.0, 17.0, 30.0, 1e4]),
        (ag.sigmoid, [-100.0, -17.0, -1e-9, 0.0, 4.0, 16.0, 17.5, 90.0]),
        (ag.floor, [-1.0, 0.0, 1.0, 2.9999998, 3.0, 3.0000002, 0.5]),
        (ag.round, [0.5, 1.5, 2.5, 1.0, -0.49999997]),
        (ag.sign, [-0.0, 0.0, 1e-30, -2.0]),
        (ag.abs, [0.0, -0.0, 1e-38, -1e-20, 3.0]),
        (ag.relu, [0.0, 1e-30, -1e-30, 2.0]),
        (ag.reciprocal, [1e-30, -1e-12, 1e-3, 3.0, 0.0, 1e20]),
        (ag.log, [1e-37, 1e-10, 1.0000001, 0.0, 5.0]),
        (ag.sqrt, [0.0, 1e-37, 1e-12, 4.0]),
        (lambda x: ag.clamp(x, 0.1, 0.7), [0.1, 0.7, 0.0999999, 0.4, 1.0]),
        (lambda x: ag.hard_tanh(x, -0.3, 0.3), [-0.3, 0.3, 0.30000004, 0.0, 1.0]),
        (lambda x: ag.amax(x, -1), [[1.0, 1.0, 0.5], [2.0, 1.9999999, 2.0]]),
        (lambda x: ag.max(x, -1).values, [[1.0, 1.0, 0.5], [2.0, 1.9999999, 2.0]]),
        (lambda x: ag.prod(x, -1), [[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [1e-8, 1e8, 2.0]]),
        (lambda x: ag.softmax(x, -1), [[0.0, 0.0, 0.0], [30.0, 1.0, -40.0], [1e-9, 5.0, 5.0]]),
        (lambda x: ag.softmax(x, -1), [[-np.inf, 0.0, 1.0]]),
        (lambda x: ag.layer_norm(x, 3), [[1000.0, 1000.1, 999.9], [2.0, 2.0, 2.0]]),
        (lambda x: ag.sum(x), []),
        (ag.exp, 1.5),
        (lambda x: ag.exp(x) * np.nan, [1.0, 2.0]),
    ],
    ids=lambda each: "" if callable(each) else str(np.shape(each)),
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("device", DEVICES[-1:], ids=str)
@pytest.mark.usefixtures("every_gradient")
def test_kinks_steps_edges_and_mixed_sizes_are_no_anomaly(
    function: Callable[..., Any], values: Any, dtype: str, device: Any
) -> None:
    with np.errstate(all="ignore"):
        x = leaf(values, dtype, device)
    result = function(x)
    for seed in range(3):
        checked(result, seed, finite=False)


def test_an_input_that_was_changed_where_backward_does_not_read_it() -> None:
    x = leaf([[1.0, 2.0, 4.0]])
    result = ag.softmax(x, 1)  # its gradient is computed from the output
    with ag.no_grad():
        x.overwrite(nc.tensor(np.array([[5.0, -2.0, 1.0]], "float32")))
    checked(result)


def test_large_tensors() -> None:
    x = leaf(np.random.default_rng(0).standard_normal((512, 1024)))
    b = leaf(np.zeros(1024))
    checked(ag.tanh(x + b))
    checked(ag.softmax(x, 1))


@pytest.mark.nightly
def test_one_wrong_gradient_of_a_large_tensor_is_named() -> None:
    """It is sought in halves, each of which takes a dozen evaluations of the op."""
    x = leaf(np.random.default_rng(0).standard_normal((64, 1024)))
    with pytest.raises(AnomalyError):
        checked(times(1.01, lambda x: ag.softmax(x, 1), x))


def test_nothing_that_was_saved_is_touched() -> None:
    """The check ran the forward again through the op itself, whose output it kept instead."""
    x = leaf([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]])
    for function in (
        ag.tanh,
        lambda x: ag.amax(x, -1),
        lambda x: ag.max(x, -1).values,
        lambda x: ag.softmax(x, 1),
    ):
        result = function(x)
        seed = np.ones(result.shape, "float32")
        (before,) = ag.grad(result, x, nc.tensor(seed), retain_graph=True)
        with ag.detect_anomaly(check_numerics=True):
            result.backward(seed, retain_graph=True)
        (after,) = ag.grad(result, x, nc.tensor(seed))
        assert before is not None and after is not None
        assert host(before) == host(after)
        x.grad = None


def test_a_function_that_takes_its_own_dtype_only() -> None:
    def doubled(v: nc.Tensor) -> nc.Tensor:
        if v.dtype != "float32":
            raise TypeError("float32 alone")
        return ag.square(v).value

    x = leaf([0.5, 2.0, -3.0])
    checked(ag.apply_op(doubled, lambda g: [(g * x * 2.0).value], x, op_name="own"))
    with pytest.raises(AnomalyError, match="own"):
        checked(ag.apply_op(doubled, lambda g: [(g * x * 2.1).value], x, op_name="own"))


# -- every op ---------------------------------------------------------------------------


def _judge(op: str, dtype: str, device: Any, inputs: int) -> figures.Figures:
    found = figures.figures_of(CASES[op], dtype, inputs, device, every=2)
    assert not found.refused, found.refused[0]
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("op", CASES)
def test_right_gradients_pass_and_wrong_ones_do_not(op: str) -> None:
    """Of 2,000 inputs some pass, at kinks or where 1 % is near rounding; of these none does."""
    found = _judge(op, "float32", get_device("numpy"), INPUTS)
    assert not found.passed, found.examples


@pytest.mark.sample(1)
@pytest.mark.parametrize("op", STRUCTURED)
@pytest.mark.parametrize("device", DEVICES[:1], ids=str)
def test_right_gradients_of_kernels_pass(op: str, device: Any) -> None:
    for dtype in ("bfloat16", "float16", "float32"):
        _judge(op, dtype, device, 4)


def test_wrongs_are_wrong() -> None:
    right = nc.tensor(np.array([1.0, 0.0, 2.0], "float32"))
    found = dict(
        figures.wrongs([right, None], np.random.default_rng(0), np.ones(right.shape, bool))
    )
    assert set(found) == {*figures.FACTORS, figures.ONE}
    assert host(found[-1.0][0]) == [-1, 0, -2]
    assert found[1.01][1] is None


# -- its share of the time ---------------------------------------------------------------


def test_a_training_is_sampled_and_says_so() -> None:
    x, w = leaf(np.ones((8, 8))), leaf(np.eye(8))

    def step() -> float:
        begin = perf_counter()
        for _ in range(20):
            ag.sum(ag.tanh(ag.matmul(x, w))).backward()
        return perf_counter() - begin

    step()
    plain = min(step() for _ in range(3))
    mode = ag.detect_anomaly(check_numerics=True)
    sample = mode._mode.numerics
    with mode as check:
        with pytest.warns(numerics.NumericsSampled, match="from here on a"):
            step()
        checked_steps = min(step() for _ in range(3))
    assert 3 <= sample.compared < sample.seen == 240
    assert str(check) == f"<check_numerics: {sample.compared} of 240 gradients compared>"
    assert checked_steps < 60 * plain  # 20 on a machine that does nothing else


def test_gradients_that_are_differences_of_large_terms_pass() -> None:
    """A softmax near 1 has a gradient of 1 less a number that float32 rounds near 1."""
    random, right = np.random.default_rng(3), np.arange(8) % 6
    for _ in range(4):
        scores = random.normal(size=(8, 6))
        scores[np.arange(8), right] += random.uniform(5, 16, 8)
        for op in (ag.softmax, ag.log_softmax):
            with ag.detect_anomaly(check_numerics=True):
                ag.sum(op(leaf(scores), -1) * random.normal(size=(8, 6))).backward()
        with ag.detect_anomaly(check_numerics=True):
            ag.cross_entropy(leaf(scores), nc.tensor(right)).backward()


def test_results_of_different_sizes_are_compared() -> None:
    nc.manual_seed(1)
    x = nc.randn(5, 3, requires_grad=True)
    with ag.detect_anomaly(check_numerics=True):
        q, r = nc.linalg.qr(x)
        ag.add(q.sum(), ag.square(r).sum()).backward()
