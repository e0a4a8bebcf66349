"""gated_rms_norm: rms_norm(x * silu(z), weight) over the last axis, one kernel each way.

With u = x * silu(z) and r = 1 / sqrt(mean(u^2) + eps) of a row, y = u * r * weight. For the gradient
g of y and h = g * weight: du = r * (h - u * r^2 * mean(h * u)), and weight gets g * u * r.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
import numpy as np
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import (
    NO_SLOTS,
    Implementation,
    Operator,
    Request,
    Requirements,
    RowTeams,
    Saved,
    composite,
    row_teams,
)
from netcl_core.errors import ShapeError, message
from netcl_plugin_patterns import Captured, MatchedOp, TrainingPattern

NAME = "gated_rms_norm"
ROWS = "gated_rms_norm_rows"
BACKWARD = "gated_rms_norm_backward"
TEMPLATE = "gated-rms-norm/gated_rms_norm.cl.j2"
FLOATS = ("float16", "float32", "float64")


def teams(device: Device, x: Spec) -> RowTeams:
    """How a row is shared: by a team of a GPU's items, on a CPU by one with wide vectors."""
    size = x.shape[-1]
    if device.kind == "gpu":
        return row_teams(device, size, DTYPES[x.dtype])
    return RowTeams(width=math.gcd(size, 8), team=1, group=1, held=0)


def launch(request: Request, entry: str) -> Kernels:
    """One launch. The arguments are the kernel's: buffers first, then numbers with their C types."""
    x = request.inputs[0]
    size, dtype = x.shape[-1], DTYPES[x.dtype]
    shared = teams(request.device, x)
    rows = math.prod(x.shape[:-1])
    buffers = [("in", i) for i in range(len(request.inputs))]
    buffers += [("out", i) for i in range(len(request.outputs))]
    numbers = (("ulong", rows), ("ulong", size), (dtype.compute, request.attrs["eps"]))
    variables = {"storage": dtype.storage, "acc": dtype.compute, **shared.context}
    variables |= NO_SLOTS.context(shared.width, aligned=True)
    items = (shared.items(rows),)
    args = (*buffers, *numbers)
    return Kernels((Kernel(TEMPLATE, entry, args, items, (shared.group,), variables),))


# -- the gradients: an op that only the other part calls ----------------------------------


def bind_backward(
    x: Any, z: Any, weight: Any, grad: Any, eps: float
) -> tuple[Sequence[Any], dict[str, Any]]:
    """The signature of the gradients."""
    return (x, z, weight, grad), {"eps": float(eps)}


def infer_backward(x: Spec, z: Spec, weight: Spec, grad: Spec, eps: float) -> tuple[Spec, ...]:
    """The gradients of x and z, and for each element of x what weight gets of it."""
    if not x == z == grad or weight != Spec(x.shape[-1:], x.dtype):
        given = f"{x}, {z}, {grad} and the weight {weight}"
        raise ShapeError(message(BACKWARD, given, "three alike and a weight per column"))
    return x, x, x


def reference_backward(x: Any, z: Any, weight: Any, grad: Any, eps: float) -> Any:
    """The gradients in NumPy."""
    x, z, weight, grad = (
        operand.astype(np.float32) if operand.dtype == np.float16 else operand
        for operand in (x, z, weight, grad)
    )
    gate = 1 / (1 + np.exp(-z))
    u, h = x * z * gate, grad * weight
    r = 1 / np.sqrt(np.square(u).mean(axis=-1, keepdims=True) + x.dtype.type(eps))
    du = r * (h - u * r * r * (h * u).mean(axis=-1, keepdims=True))
    return du * z * gate, du * x * gate * (1 + z * (1 - gate)), grad * u * r


GRADIENTS = Operator(
    name=BACKWARD,
    bind=bind_backward,
    infer=infer_backward,
    reference=reference_backward,
    implementations=(
        Implementation(
            BACKWARD,
            "team per row",
            lambda request: launch(request, BACKWARD),
            Requirements(dtypes=FLOATS),
        ),
    ),
    results=("x", "z", "terms"),
    doc=f"{BACKWARD}(x, z, weight, grad, eps): the gradients of x and z, and the terms of weight's.",
)


def backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The gradients of x, z and weight by one kernel, and a sum over the rows for weight."""
    x, z, weight = saved.inputs
    dx, dz, terms = GRADIENTS(x, z, weight, grad, saved.attrs["eps"])
    leading = tuple(range(x.ndim - 1))
    if not saved.needs[2]:
        return [dx, dz, None]
    return [dx, dz, ag.sum(terms, leading) if leading else terms]


# -- the value: a function of ops, with kernels for it -------------------------------------


def gated_rms_norm_rows(x: Any, z: Any, weight: Any, eps: float) -> Any:
    """What the pattern matches, as ops: the definition, which serves wherever no kernel does."""
    return ag.rms_norm(ag.mul(x, ag.silu(z)), x.shape[-1:], weight, eps)


def reject(request: Request) -> str | None:
    """Why the kernels do not take some operands, or None."""
    x, z, weight = request.inputs
    fits = x == z and weight == Spec(x.shape[-1:], x.dtype)
    return None if fits else f"x, z and weight are {x}, {z} and {weight}"


ROW_NORM = composite(
    gated_rms_norm_rows,
    ("x", "z", "weight"),
    infer=lambda x, z, weight, eps: x,
    implementations=(
        Implementation(
            ROWS,
            "team per row",
            lambda request: launch(request, NAME),
            Requirements(dtypes=FLOATS, reject=reject),
            backward=backward,
        ),
    ),
    parts=(GRADIENTS,),
)

# -- what is matched ----------------------------------------------------------------------

#: mul and its operands match either way round; normalized_shape and eps are whatever they are.
MATCHER = MatchedOp(
    "rms_norm",
    (MatchedOp("mul", ("x", MatchedOp("silu", ("z",)))), "weight"),
    (("normalized_shape", Captured("over")), ("eps", Captured("eps"))),
)


def planner(x: Any, z: Any, weight: Any, over: Any, eps: Any) -> Any:
    """The group's value, where rows are the last axis and nothing is broadcast; else None.

    Floating tensors have one dtype when this is called; others may be there beside them.
    """
    axes = 1 if isinstance(over, int) else len(over)
    if axes != 1 or x.shape != z.shape or len({x.dtype, z.dtype, weight.dtype}) > 1:
        return None
    if eps is None:  # what rms_norm takes: the epsilon of the dtype
        eps = float(np.finfo(x.dtype).eps)
    return ROW_NORM(x, z, weight, eps)


PATTERN = TrainingPattern(
    name=NAME,
    matcher=MATCHER,
    planner=planner,
    templates=(TEMPLATE,),
    dtypes=FLOATS,
    parts=(ROW_NORM,),
    doc="rms_norm(x * silu(z), weight) over the last axis, one kernel each way.",
)
