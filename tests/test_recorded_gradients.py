"""ag.grad(create_graph=True): what it records, what it refuses, and what it leaves as it is."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from threads import in_threads, turns

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff
from netcl_core.autograd import Implementation, Operator
from netcl_core.errors import AnomalyError, GradientError, MutationError
from netcl_core.runtime.host_calls import HostCall
from netcl_core.tape.state import thread

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytest.importorskip("netcl_plugin_linalg")

DEVICES = list(dict.fromkeys([*nc.devices()[:1], nc.get_device("numpy")]))
OPENCL = [each for each in nc.devices() if each.backend == "opencl" and not each.simulator]


@pytest.fixture(autouse=True)
def every_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numerics are compared for each node, however long that takes."""
    monkeypatch.setattr("netcl_plugin_kit.numerics.checking._MOST", float("inf"))


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


def leaf(*values: float, dtype: str = "float32") -> Any:
    """A leaf Node."""
    return ag.tensor(nc.Tensor.from_host(np.array(values, dtype)), requires_grad=True)


def close(given: Any, wanted: Any, rtol: float = 1e-5) -> None:
    """Equal within float32's rounding."""
    np.testing.assert_allclose(given.to_host(), wanted, rtol=rtol, atol=1e-6)


# -- what it gives ---------------------------------------------------------------------------


def test_a_polynomial_to_any_order(device: nc.Device) -> None:
    x = leaf(2.0, -1.0)
    found, wanted = ag.sum(x * x * x * x), None
    for coefficient, power in ((4, 3), (12, 2), (24, 1), (24, 0)):
        [found] = ag.grad(ag.sum(found), [x], create_graph=True)
        wanted = coefficient * np.array([2.0, -1.0]) ** power
        close(found, wanted)
    assert x.grad is None


def test_without_it_gradients_are_tensors(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    [dx] = ag.grad(ag.sum(x * x), [x])
    assert type(dx) is nc.Tensor
    assert not dx.requires_grad


def test_backward_goes_through_a_recorded_gradient(device: nc.Device) -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, -1.0)
    [dx] = ag.grad(ag.sum(ag.exp(x) * w * w), [x], create_graph=True)
    ag.sum(ag.square(dx)).backward()
    # dx = exp(x) w^2; d(dx^2)/dx = 2 dx^2, d(dx^2)/dw = 4 dx^2 / w
    value = np.exp([1.0, 2.0]) * np.array([9.0, 1.0])
    close(x.grad, 2 * value**2)
    close(w.grad, 4 * value**2 / [3.0, -1.0])


def test_a_gradient_that_was_not_asked_for_counts_all_the_same(device: nc.Device) -> None:
    """The gradient of x depends on w, though w is no target."""
    x, w = leaf(1.0, 2.0), leaf(3.0, -1.0)
    [dx] = ag.grad(ag.sum(ag.linear(ag.reshape(x, (1, 2)), ag.reshape(w, (1, 2)))), [x],
                   create_graph=True)  # fmt: skip
    [dw] = ag.grad(ag.sum(dx * dx), [w])
    close(dw, [6.0, -2.0])


def test_upstream_gradients_are_differentiated_too(device: nc.Device) -> None:
    x, v = leaf(1.0, 2.0), leaf(5.0, 7.0)
    [dx] = ag.grad(ag.square(x), [x], [v], create_graph=True)
    [dv] = ag.grad(ag.sum(dx), [v])
    close(dv, [2.0, 4.0])


def test_the_gradient_of_a_linear_function_is_a_constant(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    [dx] = ag.grad(ag.sum(x * 3 - x), [x], create_graph=True)
    close(dx, [2.0, 2.0])
    assert not dx.requires_grad
    with pytest.raises(GradientError, match="no gradient flows through"):
        ag.grad(ag.sum(dx), [x])


def test_a_kink_is_flat(device: nc.Device) -> None:
    x = leaf(1.0, -2.0)
    [dx] = ag.grad(ag.sum(ag.relu(x)), [x], create_graph=True)
    [ddx] = ag.grad(ag.sum(dx), [x])
    close(ddx, [0.0, 0.0])


def test_inputs_that_do_not_count_get_none(device: nc.Device) -> None:
    x, other = leaf(1.0), leaf(2.0)
    found = ag.grad(x * x, [x, other], create_graph=True, allow_unused=True)
    assert found[1] is None
    assert ag.grad(found[0], [x, other], allow_unused=True)[1] is None


def test_intermediate_values_are_targets(device: nc.Device) -> None:
    x = leaf(0.5, 1.0)
    y = ag.exp(x)
    z = ag.sum(y * y * y)
    dy, dx = ag.grad(z, [y, x], create_graph=True)
    [ddy] = ag.grad(ag.sum(dy), [y])
    value = np.exp([0.5, 1.0])
    close(dx, 3 * value**3)
    close(ddy, 6 * value)


def test_each_time_again(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    y = ag.sum(ag.tanh(x))
    first = [ag.grad(y, [x], create_graph=True)[0] for _ in range(2)]
    second = [
        ag.grad(ag.sum(each), [x], retain_graph=True)[0].to_host() for each in (*first, *first)
    ]
    for each in second[1:]:
        np.testing.assert_array_equal(each, second[0])


def test_broadcast_inputs(device: nc.Device) -> None:
    x, row, number = leaf(1.0, 2.0, 3.0), leaf(2.0), ag.tensor(nc.tensor(0.5), True)
    wide = ag.reshape(x, (3, 1))
    y = ag.sum(wide * row * number * ag.reshape(x, (1, 3)))
    found = ag.grad(y, [row, number], create_graph=True)
    close(found[0], [18.0])
    [mixed] = ag.grad(ag.sum(found[0]), [number])
    close(mixed, 36.0)


def test_values_used_several_times(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    y = ag.exp(x)
    z = ag.sum(y * y + y * x + y)
    [dx] = ag.grad(z, [x], create_graph=True)
    [ddx] = ag.grad(ag.sum(dx), [x])
    e, v = np.exp([1.0, 2.0]), np.array([1.0, 2.0])
    close(ddx, 4 * e * e + e * (v + 2) + e)


def test_a_result_of_several(device: nc.Device) -> None:
    x = leaf(3.0, 1.0, 2.0)
    values, _ = ag.topk(x * x * x, 2)
    [dx] = ag.grad(ag.sum(values), [x], create_graph=True)
    [ddx] = ag.grad(ag.sum(dx), [x])
    close(ddx, [18.0, 0.0, 12.0])


def test_no_elements(device: nc.Device) -> None:
    x = ag.tensor(nc.Tensor.zeros((0, 3)), requires_grad=True)
    [dx] = ag.grad(ag.sum(ag.exp(x) * x), [x], create_graph=True)
    [ddx] = ag.grad(ag.sum(dx), [x])
    assert ddx.shape == (0, 3)


def test_mixed_dtypes(device: nc.Device) -> None:
    x, w = leaf(1.0, 2.0, dtype="float16"), leaf(3.0, 4.0)
    [dx, dw] = ag.grad(ag.sum(x * x * w), [x, w], create_graph=True)
    assert (dx.dtype, dw.dtype) == ("float16", "float32")
    found = ag.grad(ag.sum(dx) + ag.sum(dw).astype("float16"), [x, w])
    assert [each.dtype for each in found] == ["float16", "float32"]
    close(found[0], [8.0, 12.0])
    close(found[1], [2.0, 4.0])


def test_to_another_device_and_back() -> None:
    x = ag.tensor(nc.Tensor.from_host(np.array([1.0, 2.0], "float32"), "numpy"), True)
    y = ag.exp(x.to(DEVICES[0]))
    [dx] = ag.grad(ag.sum(y), [x], create_graph=True)
    [ddx] = ag.grad(ag.sum(dx), [x])
    assert str(ddx.device) == "numpy"
    close(ddx, np.exp([1.0, 2.0]))


def test_a_recorded_gradient_in_a_leaf(device: nc.Device) -> None:
    """As a manager of gradients may keep it; to what carries a graph, plain ones are added."""
    x = leaf(1.0, 2.0)
    [x.grad] = ag.grad(ag.sum(x * x * x), [x], create_graph=True)
    assert x.grad.requires_grad
    [ddx] = ag.grad(ag.sum(x.grad), [x], retain_graph=True)
    close(ddx, [6.0, 12.0])
    ag.sum(x.grad).backward()
    assert type(x.grad) is nc.Tensor
    close(x.grad, [3.0 + 6.0, 12.0 + 12.0])
    x.grad = ag.add(x.grad, 1)
    assert type(x.grad) is nc.Tensor


def test_it_records_under_no_grad_and_restores_the_mode(device: nc.Device) -> None:
    x = leaf(2.0)
    y = x * x * x
    with ag.no_grad():
        [dx] = ag.grad(y, [x], create_graph=True)
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
    close(ag.grad(dx, [x])[0], [12.0])


def test_an_explicit_tape_records_it(device: nc.Device) -> None:
    x = leaf(2.0)
    with ag.Tape() as tape:
        y = ag.gelu(x)
        [dx] = ag.grad(y, [x], create_graph=True)
    assert [node.op_name for node in tape.nodes] == ["gelu", "gelu_backward"]
    tape.backward(dx)
    assert x.grad is not None


def test_checkpoints(device: nc.Device) -> None:
    x, scale, shift = leaf(0.3, 0.7), leaf(2.0, -1.0), leaf(1.0, 1.0)

    def block(x: Any, scale: Any) -> Any:
        return ag.tanh(x * scale * shift) * ag.exp(x)

    found = []
    for run in (block, lambda *args: autodiff.checkpoint(block, *args)):
        inner = ag.exp(scale)  # of which the other argument is made
        y = run(inner * x, inner)
        first = ag.grad(ag.sum(y), [x, scale, shift], create_graph=True)
        total = sum(ag.sum(ag.square(each)) for each in first)
        found.append([*first, *ag.grad(total, [x, scale, shift], retain_graph=True)])
        [only] = ag.grad(ag.sum(y), [x], create_graph=True)
        found[-1] += ag.grad(ag.sum(only), [shift])
    for plain, again in zip(*found, strict=True):
        close(again, plain.to_host(), 1e-4)


def test_hooks_get_recorded_gradients(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    y = x * x
    seen = []
    handle = y.register_hook(lambda grad: seen.append(grad) or grad * y)
    [dx] = ag.grad(ag.sum(y), [x], create_graph=True)
    assert type(seen[0]) in (ag.Node, nc.Tensor)
    handle.remove()
    close(dx, [2.0, 16.0])  # x^2 * 2x
    close(ag.grad(ag.sum(dx), [x], retain_graph=True)[0], [6.0, 24.0])
    y.register_hook(lambda grad: (grad * y).value)
    close(ag.grad(ag.sum(y), [x], retain_graph=True)[0], [2.0, 16.0])
    with pytest.raises(GradientError, match="a hook has no second derivative"):
        ag.grad(ag.sum(y), [x], create_graph=True)


def test_whoever_waits_for_a_gradient_gets_a_recorded_one(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)

    def doubled(number: int, gradient: Any) -> Any:
        return gradient * 2

    [dx] = ag.grad(ag.sum(x * x * x), [x], create_graph=True, ready=doubled)
    close(ag.grad(ag.sum(dx), [x])[0], [12.0, 24.0])


# -- compiled functions ----------------------------------------------------------------------


@pytest.mark.sample(1)
def test_compiled_functions(device: nc.Device) -> None:
    def plain(x: Any, w: Any, b: Any) -> Any:
        hidden = ag.tanh(ag.linear(ag.exp(x) * 0.3, w, b) + 1.0) * 2
        return ag.sum(ag.softmax(hidden, 1) * hidden)

    random = np.random.default_rng(0)
    leaves = [
        ag.tensor(nc.Tensor.from_host(random.standard_normal(shape).astype("float32")), True)
        for shape in ((4, 5), (3, 5), (3,))
    ]
    found = []
    for function in (plain, ag.jit_compile(plain)):
        first = ag.grad(function(*leaves), leaves, create_graph=True)
        total = sum(ag.sum(ag.square(each)) for each in first)
        second = ag.grad(total, leaves, create_graph=True)
        total = sum(ag.sum(ag.square(each)) for each in second)
        found.append([*second, *ag.grad(total, leaves)])
    for eager, compiled in zip(*found, strict=True):
        wanted = eager.to_host()
        atol = 1e-4 * np.abs(wanted).max()
        np.testing.assert_allclose(compiled.to_host(), wanted, rtol=1e-3, atol=atol)


def test_a_compiled_function_with_an_unused_argument(device: nc.Device) -> None:
    function = ag.jit_compile(lambda x, unused: ag.exp(x) * x)
    x, unused = leaf(1.0, 2.0), leaf(1.0, 1.0)
    dx, du = ag.grad(ag.sum(function(x, unused)), [x, unused], create_graph=True, allow_unused=True)
    assert du is None
    [ddx] = ag.grad(ag.sum(dx), [x])
    close(ddx, np.exp([1.0, 2.0]) * [3.0, 4.0])


# -- composites with implementations ----------------------------------------------------------


def cubed(x: Any, weight: Any = None) -> Any:
    """x to the third times a weight."""
    return x * x * x if weight is None else x * x * x * weight


@pytest.mark.skipif(not OPENCL, reason="an implementation launches on an OpenCL device")
@pytest.mark.parametrize("own", [False, True])
def test_an_implementation_of_a_composite_is_recomputed(own: bool, give: Any) -> None:
    def run(inputs: Any, output: Any) -> None:
        output[...] = inputs[0] ** 3 * inputs[1]

    def backward(saved: Any, grad: Any) -> list[Any]:
        x, weight = saved.inputs
        return [grad * 3 * x * x * weight, grad * x * x * x]

    made = Implementation(
        "cubed", "host", lambda _: HostCall(run), backward=backward if own else None
    )
    give("cubing", ag.composite(cubed, ("x", "weight")), made)
    with nc.use_device(OPENCL[0]):
        x = leaf(1.0, 2.0)
        weight = ag.exp(x)  # one operand comes from the other
        y = ag.cubed(x, weight)
        assert y.op_name == "cubed"
        [dx] = ag.grad(ag.sum(y), [x], create_graph=True)
        [ddx] = ag.grad(ag.sum(dx), [x])
    v = np.array([1.0, 2.0])
    close(dx, np.exp(v) * (v**3 + 3 * v**2))
    close(ddx, np.exp(v) * (v**3 + 6 * v**2 + 6 * v))


# -- what it refuses -------------------------------------------------------------------------


def squared(backward: Any, **fields: Any) -> Operator:
    """The square as a structured op, with a gradient of its own."""
    return Operator(
        "squared",
        bind=lambda x: ((x,), {}),
        infer=lambda x: x,
        reference=fields.pop("reference", lambda x: x * x),
        backward=backward,
        **fields,
    )


def doubled(backward: Any = None) -> Operator:
    """grad * 2 * x, for the gradient of that; without a gradient unless one is given."""
    return Operator(
        "doubled",
        bind=lambda x, grad: ((x, grad), {}),
        infer=lambda x, grad: x,
        reference=lambda x, grad: 2 * x * grad,
        backward=backward,
    )


@pytest.mark.usefixtures("on_numpy")
def test_an_operator_whose_gradient_has_none_is_named() -> None:
    inner = doubled()
    x = leaf(1.0, 2.0)
    y = squared(lambda saved, grad: [inner(saved.inputs[0], grad)])(x)
    close(ag.grad(ag.sum(y), [x], retain_graph=True)[0], [2.0, 4.0])
    with pytest.raises(GradientError, match=r"squared has no second derivative: doubled, which"):
        ag.grad(ag.sum(y), [x], create_graph=True)
    assert thread.differentiated is None
    assert ag.is_grad_enabled()


@pytest.mark.usefixtures("on_numpy")
def test_an_operator_whose_gradient_has_one_is_differentiated() -> None:
    inner = doubled(lambda saved, grad: [grad * 2 * saved.inputs[1], grad * 2 * saved.inputs[0]])
    x = leaf(1.0, 2.0)
    y = squared(lambda saved, grad: [inner(saved.inputs[0], grad)])(x)
    [dx] = ag.grad(ag.sum(y), [x], create_graph=True)
    close(ag.grad(ag.sum(dx), [x])[0], [2.0, 2.0])


@pytest.mark.usefixtures("on_numpy")
def test_a_gradient_that_leaves_the_graph_is_named() -> None:
    def on_host(saved: Any, grad: Any) -> list[Any]:
        return [nc.Tensor.from_host(2 * saved.inputs[0].to_host() * grad.to_host())]

    x = leaf(1.0, 2.0)
    y = squared(on_host)(x)
    close(ag.grad(ag.sum(y), [x], retain_graph=True)[0], [2.0, 4.0])
    with pytest.raises(GradientError, match="squared has no second derivative: its backward"):
        ag.grad(ag.sum(y), [x], create_graph=True)


@pytest.mark.usefixtures("on_numpy")
def test_a_gradient_that_reads_residuals_is_named() -> None:
    record = squared(
        lambda saved, grad: [grad * saved.residuals[0]],
        reference=lambda x: (x * x, 2 * x),
        residuals=lambda x: (x,),
    )
    x = leaf(1.0, 2.0)
    y = record(x)
    close(ag.grad(ag.sum(y), [x], retain_graph=True)[0], [2.0, 4.0])
    with pytest.raises(GradientError, match="squared has no second derivative: its gradient reads"):
        ag.grad(ag.sum(y), [x], create_graph=True)


@pytest.mark.usefixtures("on_numpy")
def test_results_are_read_as_recorded_values() -> None:
    """out * out as exp's gradient: the second derivative goes through the result."""
    record = Operator(
        "power",
        bind=lambda x: ((x,), {}),
        infer=lambda x: x,
        reference=np.exp,
        backward=lambda saved, grad: [grad * saved.output],
        saves=(),
    )
    x = leaf(1.0, 2.0)
    found = record(x)
    for _ in range(3):
        [found] = ag.grad(ag.sum(found), [x], create_graph=True)
        close(found, np.exp([1.0, 2.0]))


@pytest.mark.usefixtures("on_numpy")
def test_functions_of_apply_op() -> None:
    def cube(x: Any, slope: Any) -> Any:
        return ag.apply_op(lambda x: x * x * x, lambda grad: [slope(x, grad)], x, op_name="cube")

    x = leaf(1.0, 2.0)
    [dx] = ag.grad(ag.sum(cube(x, lambda x, grad: grad * 3 * x * x)), [x], create_graph=True)
    close(ag.grad(ag.sum(dx), [x])[0], [6.0, 12.0])
    bare = cube(x, lambda x, grad: (grad * 3 * x * x).value)
    close(ag.grad(ag.sum(bare), [x], retain_graph=True)[0], [3.0, 12.0])
    with pytest.raises(GradientError, match="cube has no second derivative"):
        ag.grad(ag.sum(bare), [x], create_graph=True)


def test_a_change_in_place_is_noticed(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    y = ag.sum(x * x * x)
    [dx] = ag.grad(y, [x], create_graph=True)
    x.overwrite([5.0, 6.0])
    with pytest.raises(MutationError, match="was changed in place"):
        ag.grad(ag.sum(dx), [x])
    with pytest.raises(MutationError, match="was changed in place"):
        ag.grad(y, [x], create_graph=True)


def test_a_changed_result_is_noticed(device: nc.Device) -> None:
    x = leaf(1.0, 2.0)
    y = ag.softmax(x)
    [dx] = ag.grad(y, [x], [[1.0, 0.0]], create_graph=True)
    y.overwrite([1.0, 1.0])
    with pytest.raises(MutationError):
        ag.grad(ag.sum(dx * dx), [x])


def test_anomaly_mode_looks_at_recorded_gradients(device: nc.Device) -> None:
    x = leaf(4.0, 9.0)
    with ag.detect_anomaly(check_numerics=True):
        [dx] = ag.grad(ag.sum(ag.sqrt(x) * x), [x], create_graph=True)
        [ddx] = ag.grad(ag.sum(dx), [x])
    close(ddx, 0.75 / np.sqrt([4.0, 9.0]))
    zero = leaf(0.0)
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match="backward of sqrt: 1 NaN"):
        ag.grad(ag.sqrt(zero), [zero], create_graph=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_reference_counts_alone_free_it(compiled: bool, device: nc.Device) -> None:
    function: Any = lambda x: ag.sum(ag.softmax(ag.exp(x) * x))  # noqa: E731 - one or the other
    function = ag.jit_compile(function) if compiled else function
    x = leaf(1.0, 2.0)
    gc.collect()
    gc.disable()
    try:
        [dx] = ag.grad(function(x), [x], create_graph=True)
        [ddx] = ag.grad(ag.sum(dx * dx), [x], create_graph=True)
        seen = [weakref.ref(each) for each in (dx, ddx, dx.value, *dx.parents)]
        del dx, ddx
        assert [each() for each in seen if each() is not None and each() is not x] == []
    finally:
        gc.enable()


# -- threads, and any function --------------------------------------------------------------


def test_two_threads() -> None:
    barrier = threading.Barrier(4)

    def work(seed: int) -> None:
        x = leaf(1.0 + seed, 2.0)
        barrier.wait(60)
        for _ in range(10):
            [dx] = ag.grad(ag.sum(ag.exp(x) * x), [x], create_graph=True)
            [ddx] = ag.grad(ag.sum(dx), [x])
            v = np.array([1.0 + seed, 2.0])
            close(ddx, np.exp(v) * (v + 2), 1e-4)

    with nc.use_device("numpy"), turns():
        in_threads(work, 4)


UNARY = ("tanh", "sigmoid", "exp", "sin", "gelu", "softplus", "square", "erf")
BINARY = ("add", "sub", "mul")


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=8,
    ),
    st.booleans(),
)
def test_hessians_are_symmetric(steps: list[tuple[str, int, int]], compiled: bool) -> None:
    def function(x: Any) -> Any:
        values = [x, x[::-1] * 0.5]
        for op, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(getattr(ag, op)(a) if op in UNARY else getattr(ag, op)(a, b))
        return ag.sum(ag.tanh(values[-1] * 0.1) * x)

    with nc.use_device("numpy"):
        x = leaf(0.3, -0.7, 0.9, dtype="float64")
        v, w = (nc.Tensor.from_host(np.array(each)) for each in ([1.0, 2.0, -1], [0.5, -1.0, 3]))
        chosen = ag.jit_compile(function) if compiled else function
        [slope] = ag.grad(chosen(x), [x], create_graph=True)
        [hv] = ag.grad(slope, [x], [v], create_graph=True)
        [hw] = ag.grad(slope, [x], [w])
        left, right = ag.sum(hv * w).item(), ag.sum(hw * v).item()
    assert left == pytest.approx(right, rel=1e-9, abs=1e-12)
