"""Known traps of elementwise ops, one test each: numerics, ties, NaN, scalars."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag

#: PoCL meets the same values in test_conformance.py, in fewer programs.
pytestmark = pytest.mark.parametrize("device", ["numpy", "opencl"], indirect=True)
NAN, INF = float("nan"), float("inf")


def run(
    op: Callable[..., Any] | str, *values: Any, dtype: str = "float32", **attrs: Any
) -> tuple[list[float], list[list[float] | None]]:
    """Forward values and gradients (of a sum) of an op on lists; numbers stay scalars."""
    nodes = [
        ag.tensor(nc.tensor(np.array(v, dtype)), requires_grad=True) if isinstance(v, list) else v
        for v in values
    ]
    function = getattr(ag, op) if isinstance(op, str) else op
    out = function(*nodes, **attrs)
    out.backward(np.ones(out.shape, dtype))
    grads = [node.grad.to_host().tolist() for node in nodes if hasattr(node, "grad")]
    return out.to_host().tolist(), grads


def same(given: Any, wanted: Any, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(given, wanted, rtol=rtol, atol=1e-30)


def test_nan_propagates(device: Any) -> None:
    same(run("relu", [NAN, -1.0, 2.0])[0], [NAN, 0, 2])
    for op in ("maximum", "minimum"):
        same(run(op, [NAN, 1.0, NAN], [0.0, NAN, NAN])[0], [NAN] * 3)
        same(run(op, [NAN, 1.0], 0.0)[0][0], NAN)
        same(run(op, [0.0], NAN)[0], [NAN])
    same(run("clamp", [NAN, 2.0], min=0, max=1)[0], [NAN, 1])
    same(run("add_relu", [NAN], [1.0])[0], [NAN])


@pytest.mark.parametrize("op", ["elu", "selu", "gelu", "swish", "mish", "softplus"])
def test_the_gradient_at_nan_is_nan(device: Any, op: str) -> None:
    same(run(op, [NAN, 1.0] * 20)[1][0][::2], [NAN] * 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gelu_far_out_has_the_gradients_1_and_0(device: Any, dtype: str) -> None:
    far = [1e3, 1e5, 1e13, 1e19, 3e38]
    for approximate in ("tanh", "none"):
        kind = {"dtype": dtype, "approximate": approximate}
        assert run("gelu", far, **kind)[1] == [[1.0] * 5]
        assert run("gelu", [-x for x in far], **kind)[1] == [[0.0] * 5]


def test_ties_share_the_gradient(device: Any) -> None:
    for op in ("maximum", "minimum"):
        assert run(op, [1.0, 2.0], [1.0, 2.0])[1] == [[0.5, 0.5], [0.5, 0.5]]
        assert run(op, [0.0, 2.0], 0.0)[1][0][0] == 0.5
        assert run(op, 0.0, [0.0])[1] == [[0.5]]


def test_relu_at_zero_has_no_gradient(device: Any) -> None:
    assert run("relu", [0.0, -0.0, 1.0])[1] == [[0, 0, 1]]


def test_pow_of_zero(device: Any) -> None:
    values, grads = run("pow", [0.0, 0.0, 2.0, -2.0], [0.0, 2.0, 0.0, 3.0])
    same(values, [1, 0, 1, -8])
    same(grads[0], [0, 0, 0, 12])
    same(grads[1][:3], [0, 0, np.log(2)])
    same(run("pow", [0.0, 3.0], 0)[1], [[0, 0]])
    same(run("pow", [0.0, 3.0], 2)[1], [[0, 6]])


def test_large_and_small_arguments(device: Any) -> None:
    values, grads = run("softplus", [100.0, -100.0, 1e-3])
    same([values[0], values[2]], [100, 0.69364732])
    assert 0 <= values[1] < 1e-40
    same(grads[0][0], 1)
    same(run("log1p", [1e-8])[0], [1e-8])
    same(run("expm1", [1e-8])[0], [1e-8])
    same(run("elu", [100.0])[1], [[1]])
    for approximate in ("tanh", "none"):
        values, grads = run("gelu", [30.0, -30.0, 100.0, -100.0], approximate=approximate)
        same(values, [30, 0, 100, 0])
        same(grads[0], [1, 0, 1, 0])
    values, grads = run("sigmoid", [200.0, -200.0])
    assert values == [1, 0]
    assert grads == [[0, 0]]
    values, grads = run("mish", [100.0, -100.0])
    same(values, [100, 0], rtol=1e-5)
    values, grads = run("tanh", [100.0, -100.0])
    same(values, [1, -1])
    np.testing.assert_allclose(grads, [[0, 0]], atol=1e-6)


def test_swish_gradient_has_its_sigma_factor(device: Any) -> None:
    same(run("swish", [-3.0])[1], [[-0.0881041]], rtol=1e-5)


def test_where_does_not_touch_what_it_does_not_select(device: Any) -> None:
    condition = nc.tensor(np.array([True, False, False, False]))
    values, grads = run(lambda x: ag.where(condition, x, 0.0), [1.0, NAN, INF, -INF])
    assert values == [1, 0, 0, 0]
    assert grads == [[1, 0, 0, 0]]
    values, grads = run(lambda x: ag.where(condition, 2.0, x), [NAN, 1.0, 2.0, 3.0])
    assert values == [2, 1, 2, 3]
    assert grads == [[0, 1, 1, 1]]


def test_gelu_approximate_is_not_ignored(device: Any) -> None:
    exact, tanh = (run("gelu", [1.0], approximate=word)[0] for word in ("none", "tanh"))
    same(exact, [0.8413447])
    same(tanh, [0.8411920])
    with pytest.raises(nc.errors.AttributeValueError, match="one of 'tanh', 'none'"):
        ag.gelu(nc.Tensor.ones((1,)), approximate="exact")


@pytest.mark.parametrize(
    "scalar",
    [2, -3, 2.5, True, INF, -INF, NAN, 1e300, np.int64(3), np.float32(0.5), np.float64(0.25),
     np.uint8(7), np.bool_(True), np.array(1.5), np.array(2)],
    ids=repr,
)  # fmt: skip
def test_scalars_of_every_kind(device: Any, scalar: Any) -> None:
    x = nc.tensor(np.float32([1, 2, 4]))
    number = np.asarray(scalar).item()
    with np.errstate(all="ignore"):
        array, number32 = np.float32([1, 2, 4]), np.float64(number).astype(np.float32)
        for op, wanted in {"add": array + number32, "mul": array * number32}.items():
            same(getattr(ag, op)(x, scalar).to_host(), wanted)
            same(getattr(ag, op)(scalar, x).to_host(), wanted)
        same(ag.sub(scalar, x).to_host(), number32 - array)
        same(ag.div(scalar, x).to_host(), number32 / array)
        same((x - scalar).to_host(), array - number32)
        same((scalar / x).to_host(), number32 / array)
        assert ag.add(x, scalar).dtype == "float32"


def test_operators_with_scalars_on_either_side(device: Any) -> None:
    cases: list[tuple[Callable[[Any], Any], list[float], list[float]]] = [
        (lambda x: -3 / x, [-3, -1.5], [3, 0.75]),
        (lambda x: x**2, [1, 4], [2, 4]),
        (lambda x: 2**x, [2, 4], [2 * np.log(2), 4 * np.log(2)]),
        (lambda x: x**x, [1, 4], [1, 4 * (np.log(2) + 1)]),
        (lambda x: 1 - x, [0, -1], [-1, -1]),
        (lambda x: ag.clamp(x, 0, 1), [1, 1], [1, 0]),
        (lambda x: ag.clamp(x, min=1.5), [1.5, 2], [0, 1]),
        (lambda x: ag.elu(-x, alpha=2), [-1.2642411, -1.7293294], [-0.7357589, -0.2706706]),
        (lambda x: abs(-x), [1, 2], [1, 1]),
    ]
    for function, values, slopes in cases:
        out, grads = run(function, [1.0, 2.0])
        same(out, values, rtol=1e-5)
        same(grads, [slopes], rtol=1e-5)


def test_new_scalars_build_no_program(device: Any, builds: list[str]) -> None:
    x = nc.Tensor.ones((33,))
    ag.leaky_relu(ag.mul(ag.add(x, 0.5), 2.5), negative_slope=0.5)
    before = len(builds)
    for k in range(500):
        out = ag.leaky_relu(ag.mul(ag.add(x, k / 7), -k - 0.5), negative_slope=k / 3)
    assert len(builds) == before
    same(out.to_host(), np.full(33, (1 + 499 / 7) * -499.5 * (499 / 3)), rtol=1e-5)


def test_empty_arrays(device: Any) -> None:
    x = ag.tensor(nc.tensor(np.zeros((0, 3), np.float32)), requires_grad=True)
    out = ag.exp(ag.add(x, 1.0))
    assert out.shape == (0, 3)
    out.backward(np.zeros((0, 3), np.float32))
    assert x.grad.to_host().shape == (0, 3)


def test_no_warnings(device: Any) -> None:
    if device.backend != "numpy":
        pytest.skip("drivers write build logs, which pyopencl turns into warnings")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = nc.tensor(np.float32([0, -1, INF, NAN, 1e30]))
        for op in ("log", "sqrt", "exp", "reciprocal", "rsqrt", "square", "sin"):
            getattr(ag, op)(x)
        ag.pow(x, 1e300)
        ag.add(nc.tensor(np.int32([2**31 - 1])), nc.tensor(np.array(1, np.int32)))
        assert x.astype("int32").shape == (5,)


def test_arguments_by_name_and_in_pytorchs_order(device: Any) -> None:
    x = nc.tensor(np.float32([-2, 0.5, 2]))
    same(ag.clamp(x, max=1).to_host(), [-2, 0.5, 1])
    same(ag.clip(x, -1, 1).to_host(), [-1, 0.5, 1])
    same(ag.hardtanh(x, -0.5, 0.25).to_host(), [-0.5, 0.25, 0.25])
    same(ag.where(condition=ag.gt(x, 0), x=x, y=0).to_host(), [0, 0.5, 2])
    with pytest.raises(nc.errors.ArgumentError, match=r"clamp: 4 positional arguments"):
        ag.clamp(x, 0, 1, 2)
    with pytest.raises(nc.errors.AttributeValueError, match="'minimum' is unknown"):
        ag.clamp(x, minimum=0)
    with pytest.raises(nc.errors.ArgumentError, match="'min' given twice"):
        ag.clamp(x, 0, min=0)
    with pytest.raises(nc.errors.ArgumentError, match="operand of type str"):
        ag.add(x, "1")
    with pytest.raises(nc.errors.AttributeValueError, match="negative_slope=None"):
        ag.leaky_relu(x, negative_slope=None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floor_divide_has_pytorch_s_signs_of_zero(device: Any, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    some = [0.0, 0.25, 0.5, 1.0, 3.0, 7.25, 6e4, 1e-4, INF]
    every = [*some, *(-each for each in some), NAN]
    pairs = [(x, y) for x in every for y in every]
    columns = [[pair[i] for pair in pairs] for i in (0, 1)]
    given = [nc.tensor(np.array(each)).astype(dtype) for each in columns]
    found = ag.floor_divide(*given).astype("float64").to_host()
    kind = getattr(torch, dtype)
    wanted = torch.floor_divide(*(torch.tensor(each, dtype=kind) for each in columns)).double()
    np.testing.assert_array_equal(found, wanted.numpy())
    zeros = found == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted.numpy()[zeros]))
