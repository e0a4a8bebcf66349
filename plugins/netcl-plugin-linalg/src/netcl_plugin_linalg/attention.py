"""scaled_dot_product_attention: what it is given, what it gives, and the same as a chain of ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Spec
from netcl_core.autograd import Implementation, Operator, Requirements, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, message
from netcl_plugin_linalg.attention_cpu import plan_on_cpus
from netcl_plugin_linalg.attention_gpu import plan_on_gpus
from netcl_plugin_linalg.attention_gradients import GRADIENTS, backward, kept_for_gradients
from netcl_plugin_linalg.attention_kernels import reject
from netcl_plugin_linalg.attention_layouts import reader
from netcl_plugin_linalg.attention_shapes import NAME, attention_shape
from netcl_plugin_linalg.attention_steps import attended


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`softmax(query key^T * scale + mask) value`, with PyTorch's arguments and results.

    >>> query, key, value = (nc.Tensor.ones((2, 5, 8)) for _ in range(3))
    >>> ag.scaled_dot_product_attention(query, key, value, is_causal=True).shape
    (2, 5, 8)

    Args:
        query: (..., L, E), floating.
        key: (..., S, E), of the same dtype.
        value: (..., S, V), of the same dtype. The leading dimensions are broadcast.
        attn_mask: Broadcast to (..., L, S): bool (True: attend), or a float that is added, of the
            query's dtype or float32.
        dropout_p: With this probability each weight is 0, the others are divided by 1 - p.
        is_causal: Query i attends to the keys 0 to i; not together with a mask.
        scale: Default 1 / sqrt(E).
        enable_gqa: The third-last dimension holds heads, and a head of key and value serves
            several of the query one after the other.

    Returns:
        (..., L, V). A query whose keys are all masked gives 0, as in PyTorch since 2.5.

    Without the matrix of weights in memory where an implementation serves (Dao et al. 2022,
    "FlashAttention"; Rabe and Staats 2021, "Self-attention does not need O(n^2) memory").
    """
    operands, attrs = _bind(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    return _by_ops(*operands, **attrs)


def _by_ops(*operands: Any, **attrs: Any) -> Any:
    specs: list[Any] = [None if x is None else Spec(x.shape, x.dtype) for x in operands]
    _infer(*specs, **attrs)
    return attended(*operands, **attrs)


def _bind(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Sequence[Any], dict[str, Any]]:
    given = (query, key, value, attn_mask)
    if any(x is None for x in given[:3]):
        raise ArgumentError(message(NAME, "None in the place of an operand", "three tensors"))
    operands = ag.as_operands(*given)
    p = _probability(dropout_p)
    attrs = {
        "dropout_p": p,
        "is_causal": bool(is_causal),
        "scale": _scale(scale, operands[0].shape),
        "enable_gqa": bool(enable_gqa),
    }
    return (*operands, nc.random_state(operands[0].device) if p else None), attrs


def _probability(p: Any) -> float:
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 1:
        given = f"dropout_p={p!r}"
        raise AttributeValueError(message(NAME, given, "a probability, 0 <= p <= 1"))
    return float(p)


def _scale(scale: Any, shape: Sequence[int]) -> float:
    if scale is None:
        return 1 / math.sqrt(shape[-1]) if shape and shape[-1] else 1.0
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise AttributeValueError(message(NAME, f"scale={scale!r}", "a number or None"))
    return float(scale)


def _infer(
    query: Spec,
    key: Spec,
    value: Spec,
    mask: Spec | None,
    state: Spec | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Spec:
    dtypes = {operand.dtype for operand in (query, key, value)}
    if len(dtypes) > 1 or not DTYPES[query.dtype].floating:
        given = " and ".join(sorted(dtypes))
        raise DtypeError(message(NAME, given, "one floating dtype", "Convert with astype"))
    if mask is not None and is_causal:
        given, remedy = "a mask and is_causal", "Make the mask causal, too"
        raise ArgumentError(message(NAME, given, "one of them", remedy))
    if mask is not None and mask.dtype not in ("bool", "float32", query.dtype):
        expected = " or ".join(dict.fromkeys(("bool", "float32", query.dtype)))
        raise DtypeError(message(NAME, f"a {mask.dtype} mask", expected))
    shape = attention_shape(query, key, value, mask, enable_gqa)
    return Spec((*shape.lead, shape.queries, shape.value_size), query.dtype)


OPERATORS: Final[Sequence[Operator]] = (
    composite(
        scaled_dot_product_attention,
        ("query", "key", "value", "attn_mask"),
        bind=_bind,
        infer=_infer,
        decomposition=_by_ops,
        implementations=(
            Implementation(
                NAME,
                "blocks of queries",
                plan_on_cpus,
                Requirements(device_kinds=("cpu",), reject=reject),
                backward=backward,
                residuals=kept_for_gradients,
                reads=reader(aligned=False),
            ),
            Implementation(
                NAME,
                "work-group per block of queries",
                plan_on_gpus,
                Requirements(device_kinds=("gpu", "accelerator"), reject=reject),
                backward=backward,
                residuals=kept_for_gradients,
                reads=reader(aligned=True),
            ),
        ),
        parts=(GRADIENTS,),
    ),
)
