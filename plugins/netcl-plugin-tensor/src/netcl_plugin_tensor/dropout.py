"""dropout: elements zeroed at random, by a counter-based generator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message

_STORAGE: Final = {"float16": "half", "float32": "float", "float64": "double"}
_CHUNK: Final = 1024  # elements per work-item, a multiple of 4
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Zero each element with probability p and scale the others by 1 / (1 - p).

    Args:
        x: A floating tensor of any shape.
        p: The probability, 0 <= p <= 1.
        training: False returns `x` as it is.

    `netcl_core.manual_seed` makes it repeatable, with the same mask on every device
    (Philox4x32-10; Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").
    """
    p = _probability(p)
    if not training or p == 0:
        return x
    operand = ag.as_operand(x, nc.default_device())
    return RANDOM_MASK(operand, nc.random_state(operand.device), p)


def _probability(p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 1:
        raise AttributeValueError(message("dropout", f"p={p!r}", "a probability, 0 <= p <= 1"))
    return float(p)


def _bind(x: Any, state: Any, p: float) -> Any:
    return (x, state), {"p": _probability(p)}


def _infer(x: Spec, state: Spec, p: float) -> Spec:
    if x.dtype not in _STORAGE:
        raise DtypeError(message("dropout", f"a {x.dtype} tensor", "a floating dtype"))
    if state != Spec((2,), "int64"):
        given = f"a state of shape {state.shape} and dtype {state.dtype}"
        raise ShapeError(message("random_mask", given, "two int64", "Use nc.random_state(device)"))
    return x


def _threshold(p: float) -> int:
    """Random words below it drop their element."""
    return min(2**32, round(p * 2**32))


def _plan(request: Request) -> Kernels:
    x, p = request.output, request.attrs["p"]
    storage = _STORAGE[x.dtype]
    compute = "double" if storage == "double" else "float"
    numbers: list[tuple[str, Any]] = [
        ("ulong", x.size),
        ("ulong", _CHUNK),
        ("ulong", _threshold(p)),
    ]
    numbers.append((compute, 1 / (1 - p) if p < 1 else 0.0))
    args = (("in", 0), ("in", 1), ("out", 0), *numbers)
    context = {"storage": storage, "compute": compute}
    items = (-(-x.size // _CHUNK),)
    return Kernels((Kernel("tensor/dropout.cl.j2", "random_mask", args, items, None, context),))


def _philox(state: Any, blocks: int) -> Any:
    """Four random words for each block number, as a (blocks, 4) uint64 array of 32-bit words."""
    low = np.uint64(0xFFFFFFFF)
    index = np.arange(blocks, dtype=np.uint64)
    seed, number = (np.uint64(word) for word in state)
    zero = np.zeros(blocks, np.uint64)
    c = [index & low, index >> np.uint64(32), zero + (number & low),
         zero + (number >> np.uint64(32))]  # fmt: skip
    key = [seed & low, seed >> np.uint64(32)]
    for _ in range(10):
        first, second = (np.uint64(m) * word for m, word in zip(_MULTIPLIERS, c[::2], strict=True))
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ key[0],
            second & low,
            (first >> np.uint64(32)) ^ c[3] ^ key[1],
            first & low,
        ]
        key = [(word + np.uint64(step)) & low for word, step in zip(key, _WEYL, strict=True)]
    return np.stack(c, axis=1)


def _reference(x: Any, state: Any, p: float) -> Any:
    words = _philox(state, -(-x.size // 4)).reshape(-1)[: x.size].reshape(x.shape)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    scale = wide.dtype.type(1 / (1 - p) if p < 1 else 0.0)
    return np.where(words < np.uint64(_threshold(p)), 0, wide * scale)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [RANDOM_MASK(grad, saved.inputs[1], saved.attrs["p"]), None]


RANDOM_MASK: Final = Operator(
    name="random_mask",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(1,),
    implementations=(Implementation("random_mask", "Philox4x32-10", _plan),),
    doc="random_mask(x, state, p): x / (1 - p), or 0 with probability p, from a random state.",
)


def _bind_dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """What an implementation of dropout gets: x and a fresh random state."""
    operand = ag.as_operand(x, nc.default_device())
    attrs = {"p": _probability(p), "training": bool(training)}
    return (operand, nc.random_state(operand.device)), attrs


def _by_mask(x: Any, state: Any, p: float, training: bool) -> Any:
    return RANDOM_MASK(x, state, p) if training and p else x


OPERATORS = (composite(dropout, bind=_bind_dropout, decomposition=_by_mask, parts=(RANDOM_MASK,)),)
