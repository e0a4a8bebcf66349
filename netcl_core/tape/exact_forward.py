"""The forward of a call in float64 on the host, without side effects: what a gradient is held
against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.codegen.generation import forward_source
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import Region, Signature, infer
from netcl_core.dtypes import DTYPES, NUMPY_OF_COMPUTE
from netcl_core.tensors.host_data import Array, Shape
from netcl_core.tensors.tensor import Operand

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


def region_forward(plan: Plan, scalars: Sequence[Any]) -> ExactForward:
    """That of a planned region."""
    exact, coarse = (_of_region(plan, scalars, exact=each) for each in (True, False))
    return ExactForward(exact, coarse, plan.shape)


def host_arrays(inputs: Sequence[Any]) -> list[Any]:
    """A node's inputs on the host, floating ones in float64."""
    return [_host(x) for x in inputs]


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
