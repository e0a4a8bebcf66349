"""dropout: elements zeroed at random, by a counter-based generator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor import geometry, philox

#: Elements per work-item of a CPU, a multiple of those of a block.
_CHUNK: Final = 1024


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Zero each element with probability p and scale the others by 1 / (1 - p).

    >>> sorted(set(ag.dropout(nc.ones(1000), 0.5).tolist()))
    [0.0, 2.0]
    >>> ag.dropout(nc.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]

    Args:
        x: A floating tensor of any shape.
        p: The probability, 0 <= p <= 1.
        training: False returns `x` as it is.

    `netcl_core.manual_seed` makes it repeatable, with the same mask on every device
    (Philox4x32-10; Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").
    """
    p = probability("dropout", p)
    if not training or p == 0:
        return x
    operand = ag.as_operand(x)
    return RANDOM_MASK(operand, nc.random_state(operand.device), p)


def probability(who: str, p: Any) -> float:
    """A probability as float; raises AttributeValueError for anything else."""
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 1:
        raise AttributeValueError(message(who, f"p={p!r}", "a probability, 0 <= p <= 1"))
    return float(p)


def _bind(x: Any, state: Any, p: float) -> Any:
    return (x, state), {"p": probability("dropout", p)}


def _infer(x: Spec, state: Spec, p: float) -> Spec:
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("dropout", f"a {x.dtype} tensor", "a floating dtype"))
    if state != Spec((2,), "int64"):
        given = f"a state of shape {state.shape} and dtype {state.dtype}"
        raise ShapeError(message("random_mask", given, "two int64", "Use nc.random_state(device)"))
    return x


def threshold(p: float) -> int:
    """Random words below it drop their element."""
    return min(2**32, round(p * 2**32))


def _plan(request: Request) -> Kernels:
    x, p = request.output, request.attrs["p"]
    dtype = DTYPES[x.dtype]
    chunk = geometry.chunk(request.device, _CHUNK, 4)
    numbers: list[tuple[str, Any]] = [
        ("ulong", x.size),
        ("ulong", chunk),
        ("ulong", threshold(p)),
    ]
    numbers.append((dtype.compute, 1 / (1 - p) if p < 1 else 0.0))
    args = (("in", 0), ("in", 1), ("out", 0), *numbers)
    context = {"storage": dtype.storage, "compute": dtype.compute}
    sizes = geometry.groups(request.device, -(-x.size // chunk))
    return Kernels((Kernel("tensor/dropout.cl.j2", "random_mask", args, *sizes, context),))


def _reference(x: Any, state: Any, p: float) -> Any:
    words = philox.words(state, -(-x.size // 4)).reshape(-1)[: x.size].reshape(x.shape)
    wide = widened(x)
    scale = wide.dtype.type(1 / (1 - p) if p < 1 else 0.0)
    return np.where(words < np.uint64(threshold(p)), 0, wide * scale)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [RANDOM_MASK(grad, saved.inputs[1], saved.attrs["p"]), None]


RANDOM_MASK: Final = Operator(
    name="random_mask",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(1,),
    saves_results=(),
    implementations=(Implementation("random_mask", "Philox4x32-10", _plan),),
    doc="random_mask(x, state, p): x / (1 - p), or 0 with probability p, from a random state.",
)


def _bind_dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """What an implementation of dropout gets: x and a fresh random state."""
    operand = ag.as_operand(x)
    attrs = {"p": probability("dropout", p), "training": bool(training)}
    return (operand, nc.random_state(operand.device)), attrs


def _by_mask(x: Any, state: Any, p: float, training: bool) -> Any:
    return RANDOM_MASK(x, state, p) if training and p else x


OPERATORS = (composite(dropout, bind=_bind_dropout, decomposition=_by_mask, parts=(RANDOM_MASK,)),)
