"""The one oracle of these tests: an op against PyTorch in float64, forward and gradient.

Where PyTorch is missing, gradients are compared with central differences of the
NumPy path in float64, and forward values with that path itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd.elementwise import plan_gradients
from netcl_core.autograd.kernels import run_plan
from netcl_core.autograd.lowering import plan
from netcl_core.autograd.region import Region, Signature, Step
from netcl_core.registry import registry

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

Array = np.ndarray[Any, Any]

#: The NumPy path, and the OpenCL runtimes that the tests know by a part of their name.
DEVICES = ["cpu", "opencl:intel", "opencl:portable", "opencl:nvidia"]
#: Absolute and relative tolerance per dtype.
TOLERANCE = {"float16": (1e-3, 1e-2), "float32": (1e-6, 1e-5), "float64": (1e-13, 1e-12)}


@dataclass(frozen=True)
class Row:
    """One op with its sample range per input, its attributes and PyTorch's function.

    `torch` is called as `torch(torch_module, *inputs)`; `grads` lists the inputs
    that get a gradient (None: all). `nan_gradient` is False where PyTorch's gradient at
    NaN depends on whether its vector or its scalar code met the element. `mild` leaves
    out special values with which float32 overflows and float64 does not.
    """

    op: str
    ranges: Sequence[tuple[float, float]]
    torch: Callable[..., Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    grads: Sequence[int] | None = None
    nan_gradient: bool = True
    mild: bool = False

    @property
    def id(self) -> str:
        return "-".join([self.op, *(f"{k}={v}" for k, v in self.attrs.items())])

    @property
    def needs(self) -> tuple[bool, ...]:
        wanted = range(len(self.ranges)) if self.grads is None else self.grads
        return tuple(i in wanted for i in range(len(self.ranges)))


def samples(row: Row, shapes: Sequence[tuple[int, ...]], dtype: str) -> list[Array]:
    """An array per input within the row's ranges; the values are exact in the dtype."""
    random = np.random.default_rng(len(row.id) + sum(map(sum, shapes)))
    return [
        np.asarray(random.uniform(low, high, shape)).astype(dtype)
        for (low, high), shape in zip(row.ranges, shapes, strict=True)
    ]


def upstream(shape: tuple[int, ...], dtype: str) -> Array:
    """A gradient of the output: no two neighbours equal, exact in every dtype."""
    return (np.arange(np.prod(shape, dtype=int)) % 7 / 4 + 0.5).reshape(shape).astype(dtype)


def expected(row: Row, arrays: Sequence[Array]) -> tuple[Array, list[Array | None]]:
    """Forward value and gradients in float64."""
    if torch is None:
        return _differences(row, arrays)
    pairs = zip(arrays, row.needs, strict=True)
    inputs = [torch.tensor(np.float64(array)).requires_grad_(need) for array, need in pairs]
    out = row.torch(torch, *inputs)
    if not any(row.needs):
        return out.numpy(), [None] * len(inputs)
    out.backward(torch.tensor(upstream(tuple(out.shape), "float64")))
    return out.detach().numpy(), [x.grad.numpy() if x.grad is not None else None for x in inputs]


def _differences(row: Row, arrays: Sequence[Array]) -> tuple[Array, list[Array | None]]:
    """Slopes from both sides; NaN, which `assert_close` passes over, where these differ."""
    step = 1e-5

    def forward(*values: Array) -> Array:
        with nc.use_device("cpu"), ag.no_grad():
            tensors = [nc.tensor(np.float64(value)) for value in values]
            result: Array = getattr(ag, row.op)(*tensors, **row.attrs).to_host()
            return result

    def shifted(i: int, by: float) -> Array:
        return np.float64(forward(*arrays[:i], np.float64(arrays[i]) + by, *arrays[i + 1 :]))

    out = forward(*arrays)
    grads: list[Array | None] = []
    for i, (array, need) in enumerate(zip(arrays, row.needs, strict=True)):
        if not need:
            grads.append(None)
            continue
        above, below = shifted(i, step) - out, out - shifted(i, -step)
        slope = np.where(np.abs(above - below) < 1e-2 * step, (above + below) / 2 / step, np.nan)
        grads.append(_sum_to(slope * upstream(out.shape, "float64"), array.shape))
    return out, grads


def _sum_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    lead = gradient.ndim - len(shape)
    axes = [i for i in range(gradient.ndim) if i < lead or shape[i - lead] == 1]
    return gradient.sum(axis=tuple(axes), keepdims=True).reshape(shape)


def assert_close(given: Array, wanted: Array, dtype: str, what: str) -> None:
    """Equal within the dtype's tolerance, NaN and infinities included."""
    atol, rtol = TOLERANCE[dtype]
    given = np.float64(given)
    if torch is None:
        atol, rtol = max(atol, 1e-3), max(rtol, 1e-3)
        given = np.where(np.isnan(wanted), np.nan, given)
    with np.errstate(over="ignore"):
        wanted = wanted.astype(dtype).astype(np.float64)
    np.testing.assert_allclose(given, wanted, rtol, atol, err_msg=what)


def check_eager(row: Row, shapes: Sequence[tuple[int, ...]], dtype: str) -> None:
    """One op by its public function on the current device, against the oracle."""
    arrays = samples(row, shapes, dtype)
    wanted, grads = expected(row, arrays)
    pairs = zip(arrays, row.needs, strict=True)
    nodes = [ag.tensor(nc.tensor(array), requires_grad=need) for array, need in pairs]
    out = getattr(ag, row.op)(*nodes, **row.attrs)
    assert out.shape == wanted.shape
    assert out.dtype == ("bool" if wanted.dtype == bool else dtype)
    assert_close(out.to_host(), wanted, dtype, row.id)
    if not any(row.needs):
        assert not out.requires_grad
        return
    out.backward(upstream(wanted.shape, dtype))
    _check_gradients(row, [node.grad for node in nodes], grads, dtype)


def _check_gradients(
    row: Row,
    given: Sequence[Any],
    wanted: Sequence[Array | None],
    dtype: str,
    unless_nan: Array | None = None,
) -> None:
    for i, (gradient, right) in enumerate(zip(given, wanted, strict=True)):
        if not row.needs[i]:
            assert gradient is None
            continue
        assert right is not None
        assert gradient.shape == right.shape
        assert gradient.dtype == dtype
        kept = ... if unless_nan is None else ~np.isnan(unless_nan)
        assert_close(gradient.to_host()[kept], right[kept], dtype, f"{row.id}: gradient {i}")


def specials(row: Row) -> list[Array]:
    """Values that break naive formulas: all pairs of them, cycled for a third input."""
    values = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5, 2.5, np.inf, -np.inf, np.nan]
    if not row.mild:
        values += [1e-8, -1e-8, 30.0, -30.0, 100.0, -100.0]
    first, second = (axis.reshape(-1) for axis in np.meshgrid(values, values))
    third = np.roll(second, 5)
    return [each.astype("float32") for each in (first, second, third)[: len(row.ranges)]]


def check_fused(rows: Sequence[Row], dtype: str, make: Callable[[Row], list[Array]]) -> None:
    """Many ops in one forward and one backward kernel, each against the oracle.

    `make` gives the inputs of an op; shorter ones are repeated to the longest.
    """
    device = nc.default_device()
    steps, scalars, arrays = [], [], []
    for row in rows:
        record = registry.find_op(row.op).record
        attrs = record.bind_attrs(row.attrs)
        numeric = {name: v for name, v in attrs.items() if isinstance(v, (bool, int, float))}
        slots = tuple((name, len(scalars) + k) for k, name in enumerate(numeric))
        choices = tuple((name, v) for name, v in attrs.items() if name not in numeric)
        refs = tuple(("in", len(arrays) + k) for k in range(len(row.ranges)))
        steps.append(Step(record, refs, choices, slots))
        scalars += numeric.values()
        arrays += make(row)
    shape = (max(array.size for array in arrays),)
    arrays = [np.resize(array, shape) for array in arrays]
    outputs = tuple(("step", k) for k in range(len(steps)))
    region = Region(len(arrays), len(scalars), tuple(steps), outputs)
    signature = Signature(((shape, dtype),) * len(arrays), (2,) * len(scalars))
    made = plan(region, device, signature)
    tensors = [nc.tensor(array) for array in arrays]
    results = run_plan(made, [tensor.buffer for tensor in tensors], scalars)
    needs = tuple(need for row in rows for need in row.needs)
    seeds = [nc.tensor(upstream(shape, out.dtype)) for out in results]
    grads = plan_gradients(made, tensors, scalars, needs, *seeds)
    for row, result in zip(rows, results, strict=True):
        own, arrays = arrays[: len(row.ranges)], arrays[len(row.ranges) :]
        parts, grads = grads[: len(row.ranges)], grads[len(row.ranges) :]
        wanted, right = expected(row, own)
        assert_close(result.to_host(), wanted, dtype, row.id)
        _check_gradients(row, parts, right, dtype, None if row.nan_gradient else own[0])
