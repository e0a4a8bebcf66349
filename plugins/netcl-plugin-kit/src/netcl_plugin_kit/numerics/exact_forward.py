"""The forward of a call in float64 on the host, without side effects: what a gradient is held
against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import lru_cache, singledispatch
from typing import Any, Final, TypeAlias, final

import numpy as np
from netcl_plugin_fusion.fused_operator import FusedOperatorCall

from netcl_core import DTYPES, Tensor, get_device, no_grad
from netcl_core.inspect.data import NUMPY_OF_COMPUTE, Array, Shape
from netcl_core.inspect.recorded import FunctionCall, OperatorCall, RegionCall
from netcl_core.inspect.sources import Plan, Region, Signature, forward_source, infer

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


@singledispatch
def exact_forward(call: Any, node: Any) -> ExactForward | None:
    """That of a node's call; None: there is nothing to compare its gradients with.

    A checkpoint has none: its gradients are checked where they are computed, inside.
    """
    return None


@exact_forward.register
def _(call: RegionCall, node: Any) -> ExactForward:
    exact, coarse = (_of_region(call.plan, node.scalars, exact=each) for each in (True, False))
    return ExactForward(exact, coarse, call.plan.shape)


@exact_forward.register
def _(call: OperatorCall, node: Any) -> ExactForward:
    return ExactForward(lambda arrays: _of_operator(call, arrays), None, call.results[0].shape)


@exact_forward.register
def _(call: FusedOperatorCall, node: Any) -> ExactForward:
    """The group before the operator, its reference, and the group behind it."""

    def run(arrays: Sequence[Any]) -> list[Array]:
        results = call.in_turn(arrays, node.scalars, _of_part)
        return results if isinstance(results, list) else [results]

    return ExactForward(run, None, call.results[0].shape)


@exact_forward.register
def _(call: FunctionCall, node: Any) -> ExactForward:
    """In float64, or in the operands' dtypes if the function does not take that."""

    def run(arrays: Sequence[Any]) -> list[Array]:
        try:
            return [_of_function(call, node, arrays, _DOUBLE)]
        except Exception:  # it may be made for one dtype, and refuse others in any way
            return [_of_function(call, node, arrays, None)]

    return ExactForward(run, None, node.value.shape)


def host_arrays(inputs: Sequence[Any]) -> list[Any]:
    """A node's inputs on the host, floating ones in float64."""
    return [_host(x) for x in inputs]


def _host(operand: Tensor) -> Array:
    array: Array = operand.value.to_host()
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
        results = function(*args, *(values[i] for i in slots))
        return [np.asarray(result, np.float64) for result in results]

    return run


@lru_cache(maxsize=1024)
def _numpy_function(
    region: Region, ranks: Sequence[int], dtypes: Sequence[str], scalars: tuple[int, ...]
) -> Any:
    tensors = tuple(((1,) * rank, name) for rank, name in zip(ranks, dtypes, strict=True))
    types, _ = infer(region, Signature(tensors, scalars))
    source = forward_source(region, types, "numpy", (0, ()))
    return source.function, source.reads, source.scalars, types


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


# -- the others --------------------------------------------------------------------------


def _of_part(call: Any, arrays: Sequence[Any], scalars: Sequence[Any]) -> Any:
    """The result, or a list of several, of a part of a fused call."""
    if isinstance(call, OperatorCall):
        results = _of_operator(call, arrays)
    else:
        parts = _of_region(call.plan, scalars, exact=True)(arrays)
        results = [np.broadcast_to(part, call.shape) for part in parts]
    return results if len(results) > 1 else results[0]


def _of_operator(call: OperatorCall, arrays: Sequence[Any]) -> list[Array]:
    """The reference in float64, or the operator's own function on NumPy."""
    operands = call.operands(arrays)
    with np.errstate(all="ignore"):
        if call.operator.reference is None:
            host = get_device("numpy")
            tensors = [None if x is None else Tensor.from_host(x, host) for x in operands]
            with no_grad():
                results = call.operator.decomposed(tensors, call.attrs)
            parts = results if isinstance(results, (tuple, list)) else (results,)
            return [part.to_host() for part in parts]
        given = call.operator.reference(*operands, **call.attrs)
    parts = given if isinstance(given, tuple) else (given,)
    pairs = zip(parts, call.results, strict=False)  # residuals stand behind the results
    return [np.asarray(part).reshape(spec.shape) for part, spec in pairs]


def _of_function(call: FunctionCall, node: Any, arrays: Sequence[Any], dtype: str | None) -> Array:
    given = []
    for x, array in zip(node.inputs, arrays, strict=True):
        wide = dtype is not None and DTYPES[x.dtype].floating
        place = x.device if not wide or x.device.supports_fp64 else get_device("numpy")
        given.append(Tensor.from_host(array, place, dtype if wide else x.dtype))
    result: Array = call.run(given, ()).to_host()
    return result
