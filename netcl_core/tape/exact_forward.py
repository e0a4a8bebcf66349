"""A node's forward in float64 on the host, without side effects: what its gradient is held against.

The one place that looks into what a Node keeps as its `fn`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.codegen.generation import forward_source
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import Region, Signature, infer
from netcl_core.device.device_table import get_device
from netcl_core.dtypes import DTYPES, NUMPY_OF_COMPUTE
from netcl_core.tensors.host_data import Array, Shape
from netcl_core.tensors.tensor import Operand, Tensor

#: Host arrays in, the results out. What is no floating array stays as it is.
Evaluate: TypeAlias = Callable[[Sequence[Any]], list[Array]]
_DOUBLE: Final = "float64"


@final
@dataclasses.dataclass(frozen=True, slots=True)
class ExactForward:
    """A forward that may be asked as often as one likes.

    Attributes:
        run: Computes in float64 from float64 arrays of the inputs' shapes.
        coarse: Computes with the rounding of the inputs' own dtypes. Given for elementwise
            forwards alone: there element i of a result depends on element i of the inputs, and
            both functions take inputs of any one shape.
        shape: The shape of the results.
    """

    run: Evaluate
    coarse: Evaluate | None
    shape: Shape


def forward_of(node: Any) -> ExactForward:
    """The forward of a recorded node that has an `fn`."""
    fn: Any = node.fn
    scalars: Sequence[Any] = ()
    if isinstance(fn, partial):
        scalars = fn.keywords.get("scalars") or (fn.args[0] if fn.args else ())
        fn = fn.func
    owner: Any = getattr(fn, "__self__", None)
    if isinstance(plan := getattr(owner, "plan", None), Plan):
        return ExactForward(_of_region(plan, scalars, exact=True),
                            _of_region(plan, scalars, exact=False), plan.shape)  # fmt: skip
    if hasattr(owner, "made") and hasattr(owner, "after"):
        return ExactForward(_of_fused(owner, scalars), None, owner.results[0].shape)
    if hasattr(fn, "made"):
        return ExactForward(_of_operator(fn.made), None, fn.made.output.shape)
    return ExactForward(_of_function(node), None, node.value.shape)


def host_arrays(inputs: Sequence[Any]) -> list[Any]:
    """A node's inputs on the host, floating ones in float64."""
    return [_host(x) if isinstance(x, Operand) else x for x in inputs]


def _host(operand: Operand) -> Array:
    array = operand.value.to_host()
    return array.astype(np.float64) if DTYPES[operand.dtype].floating else array


# -- regions ---------------------------------------------------------------------------


def _of_region(plan: Plan, scalars: Sequence[Any], *, exact: bool) -> Evaluate:
    """A region's NumPy function. Scalars are rounded as the kernel gets them."""
    region = _in_double(plan.region) if exact else plan.region
    ranks = tuple(len(shape) for shape, _ in plan.signature.tensors)
    dtypes = tuple(_widened(name) if exact else name for _, name in plan.signature.tensors)
    function, reads, slots, types = _numpy_function(region, ranks, dtypes, plan.signature.scalars)
    values = [
        NUMPY_OF_COMPUTE[types.scalars[i]].type(NUMPY_OF_COMPUTE[plan.types.scalars[i]].type(value))
        for i, value in enumerate(scalars)
    ]

    def run(arrays: Sequence[Any]) -> list[Array]:
        args = [arrays[i].astype(_compute(types.inputs[i]), copy=False) for _, i in reads]
        found = function(*args, *(values[i] for i in slots))
        return [np.asarray(each, np.float64) for each in found]

    return run


@lru_cache(maxsize=1024)
def _numpy_function(
    region: Region, ranks: Sequence[int], dtypes: Sequence[str], scalars: tuple[int, ...]
) -> Any:
    tensors = tuple(((1,) * rank, name) for rank, name in zip(ranks, dtypes, strict=True))
    types, _ = infer(region, Signature(tensors, scalars))
    made = forward_source(region, types, "numpy", (0, ()))
    return made.function, made.reads, made.scalars, types


@lru_cache(maxsize=1024)
def _in_double(region: Region) -> Region:
    """A region whose floating casts are casts to float64."""
    steps = tuple(
        dataclasses.replace(step, cast=None if step.cast is None else _widened(step.cast))
        for step in region.steps
    )
    return dataclasses.replace(region, steps=steps)


def _widened(name: str) -> str:
    return _DOUBLE if DTYPES[name].floating else name


def _compute(name: str) -> np.dtype[Any]:
    return NUMPY_OF_COMPUTE[DTYPES[name].compute]


# -- structured ops --------------------------------------------------------------------


def _of_operator(made: Any) -> Evaluate:
    """An operator's reference."""

    def run(arrays: Sequence[Any]) -> list[Array]:
        found = np.asarray(made.operator.reference(*arrays, **made.attrs))
        return [found.reshape(made.output.shape)]

    return run


def _of_fused(fused: Any, scalars: Sequence[Any]) -> Evaluate:
    """The group before an operator, its reference, and the group behind it."""
    made, before, after = fused.made, fused.before, fused.after
    cut = before.plan.region.scalars if before else 0
    first, last = before.count if before else 0, -after.count if after and after.count else None
    computed = _of_region(before.plan, scalars[:cut], exact=True) if before else None
    behind = _of_region(after.plan, scalars[cut:], exact=True) if after else None
    operator = _of_operator(made)

    def run(arrays: Sequence[Any]) -> list[Array]:
        own = list(arrays[first:last])
        if computed is not None:
            own.insert(0, np.broadcast_to(computed(arrays[:first])[0], before.plan.shape))
        given = iter(own)
        results = operator([None if spec is None else next(given) for spec in made.specs])
        if behind is None:
            return results
        rest = list(arrays[last:]) if last else []
        rest.insert(after.value, results[0])
        return [np.broadcast_to(each, after.plan.shape) for each in behind(rest)]

    return run


# -- any other function ----------------------------------------------------------------


def _of_function(node: Any) -> Evaluate:
    """What a user gave to `apply_op`: in float64, or as it was called if it does not take that."""
    inputs = node.inputs

    def call(arrays: Sequence[Any], name: str | None) -> list[Array]:
        given = [
            Tensor.from_host(array, _place(x, name), _dtype(x, name))
            if isinstance(x, Operand)
            else array
            for x, array in zip(inputs, arrays, strict=True)
        ]
        return [node.fn(*given).value.to_host()]

    def run(arrays: Sequence[Any]) -> list[Array]:
        try:
            return call(arrays, _DOUBLE)
        except Exception:  # a function may be made for one dtype, and refuse others in any way
            return call(arrays, None)

    return run


def _place(operand: Operand, name: str | None) -> Any:
    fits = name is None or operand.device.supports_fp64
    return operand.device if fits else get_device("cpu")


def _dtype(operand: Operand, name: str | None) -> str:
    return name if name and DTYPES[operand.dtype].floating else operand.dtype
