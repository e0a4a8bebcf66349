"""Attention as a chain of ops: the weights, the values that they weigh, and the gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from netcl_plugin_tensor.dropout import RANDOM_MASK

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor

#: Weights that one block of random words is for.
BLOCK: Final = 4


def attended(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    state: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Any:
    """Attention by matmul and softmax, in float32 for 16-bit floats."""
    q, k, v = _operands(query, key, value, enable_gqa)
    weights = _weights(_scores(q, k, mask, is_causal, scale))
    return ag.matmul(_dropped(weights, v, state, dropout_p), v).astype(query.dtype)


def slopes(
    operands: Sequence[Any],
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> tuple[Any, Any]:
    """The gradient of the scores with a mask added, and the weights after dropout.

    From the logarithms of the rows' sums: of weights P, dropped to Q = P D, dS = P (dO V^T D -
    rowsum(dO O)), where the sum is that of P (dO V^T D) over a row.

    Args:
        operands: Those of `gradients`, in its order.
    """
    query, key, value, mask, state, out, logsums, grad = operands
    q, k, v = _operands(query, key, value, enable_gqa)
    g, o = grad.astype(q.dtype), out.astype(q.dtype)
    scores = _scores(q, k, mask, is_causal, scale)
    weights = ag.exp(ag.sub(scores, ag.unsqueeze(logsums, -1)))
    upstream = _dropped(ag.matmul(g, v, False, True), v, state, dropout_p)
    slope = ag.mul(weights, ag.sub(upstream, ag.sum(ag.mul(g, o), -1, True)))
    return slope, _dropped(weights, v, state, dropout_p)


def gradients(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    state: Any,
    out: Any,
    logsums: Any,
    grad: Any,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> tuple[Any, ...]:
    """The gradients of query, key and value, each with all leading dimensions of the result."""
    given = (query, key, value, mask, state, out, logsums, grad)
    slope, weights = slopes(given, dropout_p, is_causal, scale, enable_gqa)
    q, k, _ = _operands(query, key, value, enable_gqa)
    of_query = ag.mul(ag.matmul(slope, k), scale)
    of_key = ag.mul(ag.matmul(slope, q, True), scale)
    of_value = ag.matmul(weights, grad.astype(q.dtype), True)
    return tuple(x.astype(query.dtype) for x in (of_query, of_key, of_value))


def _operands(query: Any, key: Any, value: Any, enable_gqa: bool) -> Sequence[Any]:
    """The operands in the dtype in which they are computed with, all with the query's heads."""
    wide = DTYPES[query.dtype].wide
    q, k, v = (x.astype(wide) for x in (query, key, value))
    return (q, _repeated(k, q.shape[-3]), _repeated(v, q.shape[-3])) if enable_gqa else (q, k, v)


def _repeated(x: Any, heads: int) -> Any:
    """Each head of (..., H, S, E) so often, one after the other, that there are `heads`."""
    *lead, own, rows, size = x.shape
    if own == heads:
        return x
    grouped = (*lead, own, heads // own, rows, size)
    return ag.reshape(
        ag.broadcast_to(ag.reshape(x, (*lead, own, 1, rows, size)), grouped),
        (*lead, heads, rows, size),
    )


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: float) -> Any:
    scores = ag.matmul(ag.mul(q, scale), k, False, True)
    if is_causal:
        later = np.triu(np.ones(scores.shape[-2:], np.bool_), 1)
        return ag.masked_fill(scores, Tensor.from_host(later, q.device), -math.inf)
    if mask is None:
        return scores
    if mask.dtype == "bool":  # added, as PyTorch does: a score that is NaN stays NaN
        none = Tensor.zeros(mask.shape, scores.dtype, scores.device)
        return ag.add(scores, ag.masked_fill(none, ag.logical_not(mask), -math.inf))
    return ag.add(scores, mask.astype(scores.dtype))


def _weights(scores: Any) -> Any:
    """The softmax of each row; 0 in rows where every score is minus infinity."""
    if not scores.shape[-1]:
        return scores
    dead = ag.eq(ag.amax(scores, -1, True), -math.inf)
    return ag.masked_fill(ag.softmax(ag.masked_fill(scores, dead, 0.0)), dead, 0.0)


def _dropped(x: Any, v: Any, state: Any, p: float) -> Any:
    """`x` with the weights that are dropped 0 and the others divided by 1 - p.

    Rows begin with a block of random words, so that a kernel may draw those of any tile.
    """
    if not p:
        return x
    lead, columns = np.broadcast_shapes(x.shape[:-2], v.shape[:-2]), x.shape[-1]
    whole = -(-columns // BLOCK) * BLOCK
    given = x if x.shape[:-2] == lead else ag.broadcast_to(x, (*lead, *x.shape[-2:]))
    if whole == columns:
        return RANDOM_MASK(given, state, p)
    return RANDOM_MASK(ag.pad(given, (0, whole - columns)), state, p)[..., :columns]
