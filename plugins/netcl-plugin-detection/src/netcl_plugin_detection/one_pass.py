"""Both weighted losses as one sum, and its gradient from the same pass over the operands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from netcl_plugin_fusion.inline import inlined, with_functions
from netcl_plugin_losses.arguments import FLOATING
from netcl_plugin_tensor.reducing import SUM

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Request, Requirements, Saved
from netcl_plugin_detection.elements import element

NAME: Final = "weighted_bce_smooth_l1_total"
OPERANDS: Final = ("pred", "target", "heat_weight", "reg_weight")
TEMPLATE: Final = "detection/weighted_bce_smooth_l1.cl.j2"
LOSS: Final = "weighted_bce_smooth_l1"
GRADIENT: Final = "weighted_bce_smooth_l1_gradient"
#: The elements that an item of a CPU adds up, between these limits, and how many of them there
#: are for each core at least if there are enough elements.
_CHUNKS: Final = (1024, 16384)
_PER_CORE: Final = 32
#: The items of a GPU's work-group where it allows so many, and the loads of each of an input.
_TEAM: Final = 128
_UNROLL: Final = 4


def weighted_bce_smooth_l1_total(
    pred: Any,
    target: Any,
    heat_weight: Any,
    reg_weight: Any,
    heat_scale: float,
    reg_scale: float,
    beta: float,
) -> Any:
    """The sum over all elements, as ops: what it is, and what serves where no kernel does."""
    return ag.sum(element(LOSS)(pred, target, heat_weight, reg_weight, heat_scale, reg_scale, beta))


def _plan(request: Request) -> Kernels:
    """Pieces, their sums, and the sum of these; with `keep` the slopes beside them."""
    pred, kept = request.inputs[0], request.keep and bool(_residuals(request))
    acc = DTYPES[pred.dtype].compute
    wide = "float64" if acc == "double" else "float32"
    gpu = request.device.kind == "gpu"
    width = ag.load_width(DTYPES[pred.dtype].itemsize) if gpu else 16
    team = min(_TEAM, ag.group_items(request.device, DTYPES[wide].itemsize)) if gpu else 1
    chunk = team * width * _UNROLL if gpu else _chunk(pred.size, request.device.compute_units)
    pieces = -(-pred.size // chunk)
    out = request.output if pieces == 1 else Spec((pieces,), wide)
    results = [(element(LOSS), ()), *([(element(GRADIENT), (1.0,))] if kept else [])]
    inputs, attrs = request.inputs, request.attrs
    losses = inlined("losses", request.device, inputs, results, attrs, value=0)
    slots = with_functions(request.slots, losses)
    context = {
        "storage": DTYPES[pred.dtype].storage,
        "out_storage": DTYPES[out.dtype].storage,
        "kept": kept,
        "acc": acc,
        "width": width,
        "aligned": True,
        "team": team,
        "unroll": _UNROLL,
        **slots.context(width, aligned=True),
    }
    target = ("out", 0) if pieces == 1 else ("scratch", 0)
    buffers = [("in", 0), target, *([("out", 1)] if kept else [])]
    args = slots.args(buffers, [("ulong", pred.size), ("ulong", chunk)])
    parts = Kernel(TEMPLATE, LOSS, args, (pieces * team,), (team,), context)
    if pieces == 1:
        return Kernels((parts,))
    finish = ag.reduction_kernels(SUM, request.device, out, (0,), request.output.dtype)
    scratch = (pieces * DTYPES[wide].itemsize,)
    return Kernels((parts,), scratch).then(finish, {("in", 0): ("scratch", 0)})


def _chunk(size: int, cores: int) -> int:
    """How many elements each item of a CPU adds up, a multiple of its vectors."""
    least, most = _CHUNKS
    wanted = min(max(size // (cores * _PER_CORE), least), most)
    return -(-wanted // 64) * 64


def _reject(request: Request) -> str | None:
    """What the op's function is for."""
    pred, *others = request.inputs
    if any(other != pred for other in others):
        return "shapes or dtypes differ"
    return None if pred.size else "there are no elements"


def _residuals(request: Request) -> tuple[Spec, ...]:
    """The gradient of pred for an upstream gradient of 1.

    In half precision it would be rounded, or overflow, before it meets that: nothing is kept.
    """
    pred = request.inputs[0]
    return (pred,) if DTYPES[pred.dtype].wide == pred.dtype else ()


def _saves(request: Request, needs: Sequence[bool]) -> Sequence[int]:
    """Nothing where the gradient of pred, and no other, is written already."""
    return () if _residuals(request) and True not in needs[1:] else range(len(OPERANDS))


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """Of pred from what the forward has written; those of the others, which few want, as ops."""
    if True in saved.needs[1:]:
        return _by_ops(saved, grad)
    if not saved.residuals:
        return [element(GRADIENT)(*saved.inputs, grad, **saved.attrs), None, None, None]
    [slopes] = saved.residuals
    return [slopes if ag.is_one(grad) else ag.mul(slopes, grad), None, None, None]


def _by_ops(saved: Saved, grad: Tensor) -> Sequence[Any]:
    leaves = [
        x.detach().requires_grad_(need) for x, need in zip(saved.inputs, saved.needs, strict=True)
    ]
    with ag.enable_grad():
        losses = element(LOSS)(*leaves, **saved.attrs)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    gradients = iter(ag.grad(losses, wanted, ag.expand(grad, losses.shape), allow_unused=True))
    return [next(gradients) if need else None for need in saved.needs]


@cache
def weighted_sum() -> ag.Operator:
    """The sum with its kernels, for equal shapes and dtypes."""
    return ag.composite(
        weighted_bce_smooth_l1_total,
        OPERANDS,
        implementations=(
            Implementation(
                NAME,
                "one pass",
                _plan,
                Requirements(dtypes=FLOATING, reject=_reject),
                prologue=True,
                backward=_backward,
                residuals=_residuals,
                saves=_saves,
                parts=(element(GRADIENT),),
            ),
        ),
        parts=(element(LOSS),),
    )
