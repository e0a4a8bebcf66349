"""Lowering: the same source every time, right on every path, in every type and vector form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from threads import in_threads, turns

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.expressions import FUNCTIONS
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.errors import DeviceError, DtypeError
from netcl_core.hardware import programs as cache
from netcl_core.hardware.device_table import get_device
from netcl_core.ops.public_function import primitive_function
from netcl_core.tape.computations import run_plan
from netcl_core.tape.region_call import plan_gradients

DEVICES = ["numpy", "opencl:intel", "opencl:portable", "opencl:nvidia"]
#: Below, at and above the vector widths, and an odd prime.
SIZES = (1, 7, 16, 17, 1031)


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each device in turn as the default; skips where it is missing."""
    try:
        scope = nc.use_device(request.param)
    except DeviceError:
        pytest.skip(f"there is no device {request.param}")
    with scope as chosen:
        yield chosen


@pytest.fixture
def opencl() -> Iterator[Any]:
    """The first OpenCL device as the default."""
    try:
        scope = nc.use_device("opencl")
    except DeviceError as error:
        pytest.skip(str(error))
    with scope as chosen:
        yield chosen


def primitive(
    text: str, *gradients: str | None, arity: int = 1, name: str = "p", result: str | None = None
) -> AutogradPrimitive:
    """A primitive of inputs `x0`, `x1`, ... from its expressions."""
    backward = (lambda x, g, a, o: list(gradients)) if gradients else None
    return AutogradPrimitive(name, lambda x, a: text, backward, arity, result=result)


def chain(records: list[AutogradPrimitive], *operands: tuple[Ref, ...], inputs: int) -> Region:
    """A region whose only output is its last step."""
    steps = tuple(
        PrimitiveStep(record, refs) for record, refs in zip(records, operands, strict=True)
    )
    return Region(inputs, 0, steps, (("step", len(steps) - 1),))


def evaluate(region: Region, *arrays: Any) -> tuple[Any, list[Any]]:
    """A region's first output and, for floating outputs, its gradients for a seed of ones."""
    tensors = [nc.tensor(array) for array in arrays]
    signature = Signature(tuple((t.shape, t.dtype) for t in tensors), ())
    made = Plan(region, nc.default_device(), signature)
    (out,) = run_plan(made, tensors, ())
    if not made.differentiable:
        return out.to_host(), []
    needs = tuple(nc.DTYPES[tensor.dtype].floating for tensor in tensors)
    seed = nc.Tensor.ones(out.shape, out.dtype)
    grads = plan_gradients(made, tensors, (), needs, [seed])
    return out.to_host(), [None if g is None else g.to_host() for g in grads]


def apply(record: AutogradPrimitive, *arrays: Any) -> Any:
    """A primitive's values by its public function."""
    return primitive_function(record)(*[nc.tensor(array) for array in arrays]).to_host()


# -- the source -------------------------------------------------------------------------------

_PRINT = """
from netcl_core.codegen.generation import backward_source, forward_source
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import Region, Signature, PrimitiveStep, infer

mul = AutogradPrimitive("mul", lambda x, a: f"{x[0]} * {x[1]}",
                        lambda x, g, a, o: [f"{g} * {x[1]}", f"{g} * {x[0]}"], 2)
act = AutogradPrimitive("act", lambda x, a: f"RELU({x[0]}) + SIGMOID({x[0]})",
                        lambda x, g, a, o: [f"{g} * {o} * {x[0]}"], 1)
steps = (PrimitiveStep(mul, (("in", 0), ("in", 1))), PrimitiveStep(act, (("step", 0),)),
         PrimitiveStep(mul, (("step", 1), ("step", 0))))
region = Region(2, 0, steps, (("step", 2), ("step", 0)))
types, shape = infer(region, Signature((((3, 5), "float32"), ((5,), "float16")), ()))
key = (1, ("full", "rows"))
back = (1, ("full", "rows", "full", "full"))
for style in ("vector16", "aligned4", "numpy"):
    print(forward_source(region, types, style, key).text)
    print(backward_source(region, types, (True, True), (True, True), style, back).text)
"""


def test_the_source_is_the_same_in_every_process(python: Callable[..., str]) -> None:
    first, second = (python(_PRINT, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert first.count("kernel void") == 4
    assert not re.search(r"\d{7}", first)  # no name comes from an id


def test_equal_steps_are_computed_once() -> None:
    record = primitive("exp(x0) * exp(x0)")
    region = chain([record, record], (("in", 0),), (("in", 0),), inputs=1)
    made = Plan(region, get_device("numpy"), Signature((((4,), "float32"),), ()))
    assert made.forward.generated.text.count("np_exp(") == 1


# -- right on every path -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_every_function_in_every_type(device: Any, dtype: str) -> None:
    """All functions in one kernel, in vector and scalar form, against NumPy in float64."""
    if dtype == "int32" and "Portable" in device.platform:
        pytest.skip("slow to build, and much as int64")
    floating = dtype.startswith("float")
    predicates = ("isnan", "isinf", "isfinite")
    records = [
        primitive(
            f"{name}({', '.join(['x0', 'x1', 'x2'][:arity])})",
            arity=arity,
            name=f"call_{name}",
            result=None if floating or name in predicates else "same",
        )
        for name, arity in FUNCTIONS.items()
    ]
    steps = tuple(
        PrimitiveStep(record, tuple(("in", i) for i in range(record.arity or 0)))
        for record in records
    )
    region = Region(3, 0, steps, tuple(("step", k) for k in range(len(steps))))
    x = np.linspace(0.05, 0.95, 37) if floating else np.linspace(1, 5, 37)
    arrays = [(x * factor).astype(dtype) for factor in (1, 0.5, 2)]
    signature = Signature((((37,), dtype),) * 3, ())
    outs = []
    for where in (get_device("numpy"), device):
        made = Plan(region, where, signature)
        tensors = [nc.Tensor.from_host(array, where) for array in arrays]
        outs.append([out.to_host() for out in run_plan(made, tensors, ())])
    for record, ours, numpys in zip(records, outs[1], outs[0], strict=True):
        tolerance = {"float32": 1e-6, "float64": 1e-14}.get(dtype, 0)
        np.testing.assert_allclose(ours, numpys, tolerance, tolerance, err_msg=record.name)
        assert ours.dtype == numpys.dtype


def test_macros_in_a_primitive_of_ones_own(device: Any) -> None:
    record = primitive(
        "MAX(CLAMP(x0, -1, 1), MUL(x1, 0.5))",
        "x0 > -1 && x0 < 1 && CLAMP(x0, -1, 1) >= x1 * 0.5 ? grad : 0",
        "CLAMP(x0, -1, 1) < x1 * 0.5 ? 0.5 * grad : 0",
        arity=2,
    )
    region = chain([record], (("in", 0), ("in", 1)), inputs=2)
    for size in SIZES:
        x = np.linspace(-2, 2, size, dtype=np.float32)
        y = np.linspace(1, -1, size, dtype=np.float32)
        out, (dx, dy) = evaluate(region, x, y)
        clamped = np.clip(x, -1, 1)
        np.testing.assert_allclose(out, np.maximum(clamped, y / 2))
        np.testing.assert_array_equal(dx, (abs(x) < 1) & (clamped >= y / 2))
        np.testing.assert_array_equal(dy, np.where(clamped < y / 2, 0.5, 0))


def test_steps_of_different_types(device: Any) -> None:
    """Masks of 4- and 8-byte operands meet in one kernel, with one uniform input."""
    gt, pick = primitive("x0 > x1", arity=2), primitive("x0 ? x1 : x2", arity=3)
    both = primitive("x0 && x1", arity=2)
    region = chain(
        [gt, gt, both, pick],
        (("in", 0), ("in", 1)),
        (("in", 2), ("in", 1)),
        (("step", 0), ("step", 1)),
        (("step", 2), ("in", 3), ("in", 0)),
        inputs=4,
    )
    x = np.linspace(-3, 3, 2 * 37).reshape(2, 37)
    n = np.arange(37)[None] - 18
    for narrow, wide in (("float32", "float64"), ("int32", "int64"), ("uint8", "float64")):
        a, b, c = x.astype(narrow), n.astype(wide), np.array([[1], [-1]], "float32")
        uniform = np.array(5, wide)
        out, _ = evaluate(region, a, b, c, uniform)
        np.testing.assert_array_equal(out, np.where((a > b) & (c > b), uniform, a))


def test_narrow_values_between_steps_are_as_stored(device: Any) -> None:
    """A fused uint8 sum wraps and a fused bool sum is 0 or 1, as if each had been stored."""
    add, gt = primitive("x0 + x1", arity=2), primitive("x0 > 1", arity=1)
    region = chain([add, gt], (("in", 0), ("in", 1)), (("step", 0),), inputs=2)
    x = np.full(37, 200, np.uint8)
    assert not evaluate(region, x, np.full(37, 57, np.uint8))[0].any()
    assert evaluate(region, x, np.full(37, 58, np.uint8))[0].all()
    ones = np.ones(37, bool)
    assert not evaluate(region, ones, ones)[0].any()


def test_constants_of_every_size(device: Any) -> None:
    x = np.ones(37, np.float32)
    assert np.isposinf(apply(primitive("x0 + 1e300"), x)).all()
    assert np.isneginf(apply(primitive("x0 * -1e300"), x)).all()
    assert np.signbit(apply(primitive("x0 * -0.0"), x)).all()
    np.testing.assert_array_equal(apply(primitive("x0 + 1e300"), np.ones(37)), np.full(37, 1e300))
    lowest = apply(primitive("x0 > 0 ? -2147483648 : 0"), np.ones(37, np.int32))
    assert (lowest == -(2**31)).all()
    lowest = apply(primitive("x0 > 0 ? -9223372036854775808 : 0"), np.ones(37, np.int64))
    assert (lowest == -(2**63)).all()
    assert apply(primitive("x0 > 0.5"), np.ones(37, np.int32)).all()
    with pytest.raises(DtypeError, match="p: the constant 3000000000 in int arithmetic"):
        apply(primitive("x0 + 3000000000"), np.ones(37, np.int32))


def test_a_long_expression(device: Any) -> None:
    """More parentheses within parentheses than compilers take."""
    text = " + ".join(f"cos(x0 * {k}) * {k}" for k in range(200))
    x = np.linspace(0, 0.1, 37)
    wanted = sum(np.cos(x * k) * k for k in range(200))
    np.testing.assert_allclose(apply(primitive(text), x), wanted, 1e-10)


def test_functions_on_special_values(device: Any) -> None:
    """`sign`, `round` and the predicates mean the same on every path."""
    values = [np.nan, -0.0, 0.49999997, -0.5, 2.5, np.inf, -7.0]
    x = np.resize(np.float32(values), 37)
    wanted = {
        "sign(x0)": [0, 0, 1, -1, 1, 1, -1],
        "round(x0)": [np.nan, 0, 0, -1, 3, np.inf, -7],
        "rint(x0)": [np.nan, 0, 0, 0, 2, np.inf, -7],
        "isnan(x0)": [1, 0, 0, 0, 0, 0, 0],
        "isinf(x0)": [0, 0, 0, 0, 0, 1, 0],
        "fmax(x0, 1)": [1, 1, 1, 1, 2.5, np.inf, 1],
    }
    for text, right in wanted.items():
        np.testing.assert_array_equal(apply(primitive(text), x)[:7], right, err_msg=text)


@pytest.mark.parametrize("shapes", [((4, 64), (64,)), ((3, 37), (3, 1)), ((1031,), ())], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "uint8"])
def test_the_kernels_of_gpus(opencl: Any, monkeypatch: Any, shapes: Any, dtype: str) -> None:
    """The vector forms that GPUs get are right on a CPU too, where most of us test."""
    monkeypatch.setattr(opencl, "kind", "gpu")
    record = primitive("x0 * x1 + x0", "grad * x1 + grad", "grad * x0", arity=2)
    x, y = (np.random.default_rng(0).integers(0, 4, shape).astype(dtype) for shape in shapes)
    out, grads = evaluate(chain([record], (("in", 0), ("in", 1)), inputs=2), x, y)
    np.testing.assert_array_equal(out, x * y + x)
    if grads:
        np.testing.assert_array_equal(grads[0], np.broadcast_to(y + 1, x.shape))
        lost = tuple(i for i in range(x.ndim) if np.broadcast_to(y, x.shape).strides[i] == 0)
        wide = np.float64(x).sum(axis=lost).reshape(y.shape)
        np.testing.assert_allclose(
            grads[1], wide, {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
        )


@pytest.mark.parametrize(("dtype", "access"), [("float16", "uint4"), ("float32", "float4")])
def test_gpus_read_16_bytes_at_once(opencl: Any, monkeypatch: Any, dtype: str, access: str) -> None:
    monkeypatch.setattr(opencl, "kind", "gpu")
    region = chain([primitive("x0 * 2", "grad * 2")], (("in", 0),), inputs=1)
    made = Plan(region, opencl, Signature((((64,), dtype),), ()))
    assert f"(__global const {access} *)" in made.forward.launch.source
    assert f"(__global const {access} *)" in made.backward((True,)).launch.source


@pytest.mark.parametrize("length", [16, 33, 333])
def test_rows_of_equal_halves(device: Any, length: int) -> None:
    """The gradient of a float16 sum; PoCL 3.1 crashed where rows do not begin at 32 bytes."""
    x = ag.tensor(nc.tensor(np.ones((9, length), np.float16)), requires_grad=True)
    result = ag.sum(x, 1)
    upstream = np.arange(9, dtype=np.float16)
    result.backward(upstream)
    wanted = np.broadcast_to(upstream[:, None], (9, length))
    np.testing.assert_array_equal(x.grad.to_host(), wanted)


# -- builds ---------------------------------------------------------------------------------


def test_sizes_and_scalars_build_nothing_new(opencl: Any) -> None:
    record = primitive("x0 * x1 + 0.125", "grad * x1", "grad * x0", arity=2, name="flat")
    function = primitive_function(record)

    def step(size: int, scalar: float) -> None:
        x = ag.tensor(nc.Tensor.ones((size,)), requires_grad=True)
        function(x, scalar).backward(np.ones(size, np.float32))

    step(8, 1.5)
    before = len(cache._programs)
    for size in (1, 9, 1031, 64):
        for scalar in (2, -1, 0.25):
            step(size, float(scalar))
    assert len(cache._programs) == before


def test_two_threads_call_one_op(device: Any) -> None:
    """Each thread's kernel has its own arguments."""
    function = primitive_function(primitive("x0 * 3 - x1", "grad * 3", "-grad", arity=2))
    wrong: list[int] = []

    def work(seed: int) -> None:
        for k in range(50):
            x = np.full(33 + k, seed, np.float32)
            node = ag.tensor(nc.tensor(x), requires_grad=True)
            out = function(node, nc.tensor(x + k))
            out.backward(x)
            gradient = node.grad.to_host()
            if not ((out.to_host() == 2 * seed - k).all() and (gradient == 3 * x).all()):
                wrong.append(seed)

    with nc.use_device(device), turns():
        in_threads(work, 6)
    assert wrong == []
