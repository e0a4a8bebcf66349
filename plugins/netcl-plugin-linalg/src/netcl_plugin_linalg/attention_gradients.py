"""The gradients of attention from the logarithms of the rows' sums, without the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import DTYPES, Spec
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved, composite
from netcl_plugin_linalg.attention_cpu import plan_gradients_on_cpus
from netcl_plugin_linalg.attention_gpu import plan_gradients_on_gpus
from netcl_plugin_linalg.attention_layouts import reader
from netcl_plugin_linalg.attention_shapes import attention_shape
from netcl_plugin_linalg.attention_steps import gradients, slopes

BACKWARD: Final = "attention_gradients"


def kept_for_gradients(request: Request) -> tuple[Spec, ...]:
    """The logarithm of each row's sum; infinite for a row that is masked throughout."""
    out = request.output
    return (Spec(out.shape[:-1], DTYPES[out.dtype].wide),)


def backward(saved: Saved, grad: Any) -> Sequence[Any]:
    """The gradients of the operands; a mask's is the only one to have the matrix in memory."""
    query, key, value, mask, state = saved.inputs
    given = (query, key, value, mask, state, saved.output, saved.residuals[0], grad)
    grads: list[Any] = [None] * 5
    if any(saved.needs[:3]):
        parts = GRADIENTS(*given, **saved.attrs)
        for i, (part, x) in enumerate(zip(parts, (query, key, value), strict=True)):
            grads[i] = _summed(part, x.shape, saved.attrs["enable_gqa"]) if saved.needs[i] else None
    if saved.needs[3]:
        slope, _ = slopes(given, **saved.attrs)
        grads[3] = _summed(slope, mask.shape, False).astype(mask.dtype)
    return grads


def _summed(part: Any, shape: Sequence[int], grouped: bool) -> Any:
    """A gradient summed to the shape of what was broadcast, or of fewer heads."""
    if grouped and shape[-3] != part.shape[-3]:
        *lead, heads, rows, size = part.shape
        split = (*lead, shape[-3], heads // shape[-3], rows, size)
        part = ag.sum(ag.reshape(part, split), len(lead) + 1)
    extra = part.ndim - len(shape)
    over = [
        i for i in range(part.ndim)
        if i < extra or (shape[i - extra] == 1 and part.shape[i] != 1)
    ]  # fmt: skip
    return ag.reshape(ag.sum(part, over), shape) if over else part


def _infer(
    query: Spec,
    key: Spec,
    value: Spec,
    mask: Spec | None,
    state: Spec | None,
    out: Spec,
    logsums: Spec,
    grad: Spec,
    enable_gqa: bool,
    **attrs: Any,
) -> tuple[Spec, ...]:
    lead = attention_shape(query, key, value, mask, enable_gqa).lead
    return tuple(
        Spec((*lead, *operand.shape[-2:]), operand.dtype) for operand in (query, key, value)
    )


#: The gradients of query, key and value, each with all leading dimensions of the result.
GRADIENTS: Final[Operator] = composite(
    gradients,
    ("query", "key", "value", "mask", "state", "out", "logsums", "grad"),
    name=BACKWARD,
    infer=_infer,
    results=("query", "key", "value"),
    implementations=(
        Implementation(
            BACKWARD,
            "item per block of keys",
            plan_gradients_on_cpus,
            Requirements(device_kinds=("cpu",)),
            reads=reader(aligned=False),
        ),
        Implementation(
            BACKWARD,
            "work-groups per block of queries and of keys",
            plan_gradients_on_gpus,
            Requirements(device_kinds=("gpu", "accelerator")),
            reads=reader(aligned=True),
        ),
    ),
)
