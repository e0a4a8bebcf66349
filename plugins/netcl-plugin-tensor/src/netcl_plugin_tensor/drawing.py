"""Numbers drawn at random by weights, probabilities and means."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.axes import whole
from netcl_plugin_tensor.random import RANDOM_NUMBERS, rand, randn

_CHUNK: Final = 256


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Places drawn at random, each with a probability in proportion to its weight.

    >>> ag.multinomial([0.1, 0.9], 5, replacement=True).shape
    (5,)

    Args:
        input: Weights of at least 0, floating: a vector, or one in each row of a matrix.
        num_samples: How many are drawn of each vector.
        replacement: Whether a place may be drawn more than once.
        generator: As for `rand`.

    Returns int64 of shape (num_samples,) or (rows, num_samples). `netcl_core.manual_seed` makes it
    repeatable, with the same places on every device. With replacement they are found in the running
    sums; without, they are the largest of weight / e with exponential numbers e, in that order
    (Efraimidis, Spirakis 2006, doi:10.1016/j.ipl.2005.11.003). The host reads the weights to check
    them, so that this ends a compiled region.

    Raises:
        DtypeError: Unless given floating weights.
        ShapeError: Unless given one row or several.
        AttributeValueError: Unless given an int, 1 or more.
    """
    x = ag.as_operand(input).detach()
    count = whole(num_samples)
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("multinomial", f"a {x.dtype} tensor", "floating weights"))
    if x.ndim not in (1, 2) or not x.shape[-1]:
        given = f"weights of shape {x.shape}"
        raise ShapeError(message("multinomial", given, "one row or several"))
    if count is None or isinstance(num_samples, bool) or not 0 < count < 1 << 31:
        given = f"num_samples={num_samples!r}"
        raise AttributeValueError(message("multinomial", given, "an int, 1 or more"))
    ag.check_data(_check, (x.value,), None if replacement else count)
    wide = x.astype(DTYPES[x.dtype].wide)
    rows = ag.reshape(wide, (-1, x.shape[-1]))
    drawn = (_with_replacement if replacement else _distinct)(rows, count, generator)
    return ag.reshape(drawn, (*x.shape[:-1], count))


def bernoulli(input: Any, p: float | None = None, *, generator: Any = None) -> Any:
    """1 with the probability that each element is, or p, and 0 otherwise, in the input's dtype.

    For inputs of any shape and of numbers.

    >>> set(ag.bernoulli(nc.full((100,), 0.5)).tolist()) <= {0.0, 1.0}
    True
    """
    x = ag.as_operand(input).detach()
    drawn = rand(x.shape, device=x.device, generator=generator)
    return ag.lt(drawn, x if p is None else float(p)).astype(x.dtype)


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None,
           dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Normal numbers, each with its own mean and standard deviation.

    >>> ag.normal(nc.tensor([0.0, 100.0]), 1.0).shape
    (2,)

    Args:
        mean: A number or a tensor.
        std: A number or a tensor, of at least 0.
        size: The shape, where both are numbers.
        generator: What draws, else the device's own.
        dtype: Where both are numbers: the dtype.
        device: Where both are numbers: the device.
        requires_grad: Where both are numbers: whether the result records.

    Raises:
        ShapeError: Unless given size=(...).
        ArgumentError: Unless given tensors or numbers.
    """
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not given:
        if size is None:
            raise ShapeError(message("normal", "two numbers without size", "size=(...)"))
        if not isinstance(mean, (int, float)) or not isinstance(std, (int, float)):
            what = f"mean={mean!r}, std={std!r}"
            raise ArgumentError(message("normal", what, "tensors or numbers"))
        drawn = randn(size, dtype=dtype, device=device, generator=generator)
        numbers = ag.add(ag.mul(drawn, float(std)), float(mean))
        return numbers.requires_grad_(True) if requires_grad else numbers
    shape = np.broadcast_shapes(*(x.shape for x in given))
    kind = next((x.dtype for x in given if DTYPES[x.dtype].floating), "float32")
    drawn = randn(shape, dtype=kind, device=given[0].device, generator=generator)
    parts = [x.detach() if isinstance(x, Tensor) else float(x) for x in (mean, std)]
    return ag.add(ag.mul(drawn, parts[1]), parts[0])


def _check(operands: Any, distinct: int | None) -> None:
    """Raise AttributeValueError for what are no weights, or for fewer above 0 than are drawn."""
    weights = widened(operands[0].to_host())
    if not np.isfinite(weights).all() or (weights < 0).any():
        given, expected = "weights below 0, infinite or NaN", "finite ones of at least 0"
        raise AttributeValueError(message("multinomial", given, expected))
    least = np.count_nonzero(weights, axis=-1).min(initial=weights.shape[-1])
    if least < (distinct or 1):
        given = f"a row with {least} weights above 0"
        remedy = "Draw fewer, or with replacement=True" if distinct else ""
        raise AttributeValueError(
            message("multinomial", given, f"at least {distinct or 1}", remedy)
        )


def _with_replacement(rows: Any, count: int, generator: Any) -> Any:
    parts = rand((rows.shape[0], count), dtype=rows.dtype, device=rows.device, generator=generator)
    return DRAW(ag.cumsum(rows, 1), parts)


def _distinct(rows: Any, count: int, generator: Any) -> Any:
    uniform = rand(rows.shape, dtype=rows.dtype, device=rows.device, generator=generator)
    waits = ag.clamp(ag.neg(ag.log1p(ag.neg(uniform))), min=2.0**-26)
    return ag.topk(ag.div(rows, waits), count).indices


def _infer(sums: Spec, parts: Spec) -> Spec:
    if sums.ndim != 2 or parts.ndim != 2 or sums.shape[0] != parts.shape[0] or not sums.shape[1]:
        given = f"sums of shape {sums.shape} and parts of shape {parts.shape}"
        raise ShapeError(message("draw", given, "as many rows of each"))
    if sums.dtype != parts.dtype or not DTYPES[sums.dtype].floating:
        raise DtypeError(message("draw", f"{sums.dtype} and {parts.dtype}", "one floating dtype"))
    return Spec(parts.shape, "int64")


def _plan(request: Request) -> Kernels:
    sums, parts = request.inputs
    dtype = DTYPES[sums.dtype]
    chunk = geometry.chunk(request.device, _CHUNK)
    numbers = (sums.shape[1], parts.shape[1], parts.size, chunk)
    args = (("in", 0), ("in", 1), ("out", 0), *(("ulong", number) for number in numbers))
    context = {"storage": dtype.storage, "compute": dtype.compute}
    sizes = geometry.groups(request.device, -(-parts.size // chunk))
    return Kernels((Kernel("tensor/draw.cl.j2", "draw", args, *sizes, context),))


def _reference(sums: Any, parts: Any) -> Any:
    last = sums[:, -1:]
    chosen = np.empty(parts.shape, np.int64)
    for i, (row, line) in enumerate(zip(sums, parts * last, strict=True)):
        places = np.searchsorted(row, line, "right")
        chosen[i] = np.minimum(places, np.searchsorted(row, row[-1], "left"))
    return chosen


DRAW: Final = Operator(
    name="draw",
    bind=lambda sums, parts: ((sums, parts), {}),
    infer=_infer,
    reference=_reference,
    implementations=(Implementation("draw", "bisection of running sums", _plan),),
    doc="draw(sums, parts): where the running sums of each row exceed parts of the last one.",
)

OPERATORS = (
    composite(multinomial, parts=(DRAW, RANDOM_NUMBERS)),
    composite(bernoulli, ("input",)),
    composite(normal, method=False),
)
