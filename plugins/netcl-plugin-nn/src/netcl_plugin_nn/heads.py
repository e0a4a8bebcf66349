"""Attention of several heads: what MultiheadAttention computes, and PyTorch's function for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import netcl_core.autograd as ag
from netcl_core import Tensor, lenient
from netcl_core.errors import ArgumentError, ShapeError, message

NAME: Final = "MultiheadAttention"


@lenient
def multi_head_attention_forward(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
    in_proj_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float,
    out_proj_weight: Any, out_proj_bias: Any, training: bool = True, key_padding_mask: Any = None,
    need_weights: bool = True, attn_mask: Any = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None,
    static_k: Any = None, static_v: Any = None, average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """What nn.MultiheadAttention computes, with its parameters as arguments.

    >>> F, layer, x = nn.functional, nn.MultiheadAttention(4, 2), nc.ones(3, 1, 4)
    >>> out, weights = F.multi_head_attention_forward(
    ...     x, x, x, 4, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0,
    ...     layer.out_proj.weight, layer.out_proj.bias)
    >>> out.shape, weights.shape
    ((3, 1, 4), (1, 3, 3))

    Args:
        query, key, value: (L, N, E), (S, N, kdim) and (S, N, vdim), or without N.
        embed_dim_to_check: E.
        num_heads: How many heads; it divides E.
        in_proj_weight: (3 E, E), of query, key and value; None with `use_separate_proj_weight`.
        in_proj_bias: (3 E,), or None.
        bias_k, bias_v: A further key and value, (1, 1, E), or None.
        add_zero_attn: Whether a key and a value of zeros come after these.
        dropout_p: The share of the weights that is zeroed in training.
        out_proj_weight, out_proj_bias: (E, E), and (E,) or None.
        training: Whether weights are zeroed.
        key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal: As of
            nn.MultiheadAttention.
        use_separate_proj_weight: Whether the next three stand for `in_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: (E, E), (E, kdim) and (E, vdim).
        static_k, static_v: Keys and values by heads, (N * num_heads, S, E / num_heads), in the
            place of those that the projections give.

    Returns (L, N, E), or without N, and the weights or None.

    Raises:
        ShapeError: Unless given so many features, a multiple of the heads.
        ArgumentError: An argument is of another kind.
    """
    who, separate = "multi_head_attention_forward", use_separate_proj_weight
    if query.shape[-1] != embed_dim_to_check or embed_dim_to_check % num_heads:
        given = f"a query of shape {query.shape}, {embed_dim_to_check} features, {num_heads} heads"
        raise ShapeError(message(who, given, "so many features, a multiple of the heads"))
    needed = (q_proj_weight, k_proj_weight, v_proj_weight) if separate else (in_proj_weight,)
    if any(tensor is None for tensor in needed):
        expected = "three weights" if separate else "in_proj_weight"
        raise ArgumentError(message(who, "no weight of a projection", expected))
    if not separate:
        q_proj_weight = k_proj_weight = v_proj_weight = None
    return Heads(
        embed_dim_to_check, num_heads, None if separate else in_proj_weight, in_proj_bias, bias_k,
        bias_v, q_proj_weight, k_proj_weight, v_proj_weight, add_zero_attn,
        partial(ag.linear, weight=out_proj_weight, bias=out_proj_bias),
        dropout_p if training else 0.0, False, static_k, static_v,
    ).attend(
        query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
        is_causal,
    )  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Heads:
    """Parameters and settings of an attention."""

    embed_dim: int
    num_heads: int
    in_proj_weight: Any
    in_proj_bias: Any
    bias_k: Any
    bias_v: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any
    add_zero_attn: bool
    out_proj: Callable[..., Any]
    dropout: float
    batch_first: bool
    static_k: Any = None
    static_v: Any = None

    def attend(
        self, query: Any, key: Any, value: Any, key_padding_mask: Any, need_weights: bool,
        attn_mask: Any, average_attn_weights: bool, is_causal: bool,
    ) -> tuple[Any, Any]:  # fmt: skip
        """What is attended to, and the weights or None; as MultiheadAttention.forward."""
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            given = f"{query.ndim}, {key.ndim} and {value.ndim} dimensions"
            raise ShapeError(message(NAME, given, "2 or 3 of each"))
        if is_causal and attn_mask is None:
            given = "is_causal without attn_mask"
            raise ArgumentError(message(NAME, given, "the causal mask that it speaks of"))
        heads = self._projected(query, key, value)
        causal = is_causal and key_padding_mask is None and not need_weights
        causal = causal and self.bias_k is None and not self.add_zero_attn
        mask = None if causal else self._mask(heads, attn_mask, key_padding_mask)
        p = self.dropout
        if need_weights:
            attended, weights = self._by_weights(heads, mask, p)
        else:
            attended = ag.scaled_dot_product_attention(*heads, mask, p, causal)
        n, _, rows, _ = heads[0].shape
        joined = ag.reshape(ag.permute(attended, (0, 2, 1, 3)), (n, rows, self.embed_dim))
        out = self._restored(self.out_proj(joined), query)
        if not need_weights:
            return out, None
        weights = ag.mean(weights, 1) if average_attn_weights else weights
        return out, ag.squeeze(weights, 0) if query.ndim == 2 else weights

    def _projected(self, *given: Any) -> list[Any]:
        """Query, key and value by heads: (N, num_heads, rows, E / num_heads)."""
        if self.in_proj_weight is not None and given[0] is given[1] is given[2]:
            packed = ag.linear(self._batched(given[0]), self.in_proj_weight, self.in_proj_bias)
            heads = list(ag.split(packed, self.embed_dim, -1))
        else:
            heads = [
                ag.linear(self._batched(x), weight, bias)
                for x, weight, bias in zip(given, self._weights(), self._biases(), strict=True)
            ]
        if self.bias_k is not None:
            for i, more in ((1, self.bias_k), (2, self.bias_v)):
                wide = ag.broadcast_to(more, (heads[i].shape[0], 1, self.embed_dim))
                heads[i] = ag.cat([heads[i], wide], 1)
        return self._with_given([self._by_heads(x) for x in heads])

    def _with_given(self, heads: list[Any]) -> list[Any]:
        """Queries, keys and values with the static ones in place, and zeros after them."""
        n, count, _, size = heads[0].shape
        for i, static in ((1, self.static_k), (2, self.static_v)):
            if static is not None:
                heads[i] = ag.reshape(static, (n, count, static.shape[-2], size))
        if self.add_zero_attn:
            for i in (1, 2):
                zero = Tensor.zeros((n, count, 1, size), heads[i].dtype, heads[i].device)
                heads[i] = ag.cat([heads[i], zero], 2)
        return heads

    def _batched(self, x: Any) -> Any:
        if x.ndim == 2:
            return ag.unsqueeze(x, 0)
        return x if self.batch_first else ag.permute(x, (1, 0, 2))

    def _restored(self, x: Any, query: Any) -> Any:
        """(N, L, E) as the query was given."""
        if query.ndim == 2:
            return ag.squeeze(x, 0)
        return x if self.batch_first else ag.permute(x, (1, 0, 2))

    def _weights(self) -> list[Any]:
        if self.in_proj_weight is not None:
            return list(ag.split(self.in_proj_weight, self.embed_dim, 0))
        return [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]

    def _biases(self) -> list[Any]:
        if self.in_proj_bias is None:
            return [None] * 3
        return list(ag.split(self.in_proj_bias, self.embed_dim, 0))

    def _by_heads(self, x: Any) -> Any:
        n, rows, size = x.shape
        split = ag.reshape(x, (n, rows, self.num_heads, size // self.num_heads))
        return ag.permute(split, (0, 2, 1, 3))

    def _mask(self, heads: list[Any], attn_mask: Any, key_padding_mask: Any) -> Any:
        """One mask in the manner of `ag.scaled_dot_product_attention`, or None."""
        q, k = heads[:2]
        n, _, rows, _ = q.shape
        more = k.shape[2]
        parts = []
        if attn_mask is not None:
            mask = ag.as_operand(attn_mask, q.device)
            if mask.ndim == 3:
                mask = ag.reshape(mask, (n, self.num_heads, rows, mask.shape[-1]))
            parts.append(mask)
        if key_padding_mask is not None:
            mask = ag.as_operand(key_padding_mask, q.device)
            parts.append(ag.reshape(mask, (n, 1, 1, mask.shape[-1])))
        masks = [_widened(mask, more - mask.shape[-1]) for mask in parts]
        if masks and all(mask.dtype == "bool" for mask in masks):
            return _attended(masks)
        added = [_added(mask, q) for mask in masks]
        return None if not added else added[0] if len(added) == 1 else ag.add(*added)

    def _by_weights(self, heads: list[Any], mask: Any, p: float) -> tuple[Any, Any]:
        """The same with the matrix of weights, which the caller wants to see."""
        q, k, v = heads
        scores = ag.matmul(ag.mul(q, 1 / math.sqrt(q.shape[-1])), k, False, True)
        if mask is not None:
            scores = ag.add(scores, mask if mask.dtype != "bool" else _hidden(mask, q))
        weights = ag.dropout(ag.softmax(scores), p)
        return ag.matmul(weights, v), weights


def _widened(mask: Any, columns: int) -> Any:
    """A mask with columns for keys that the module adds, which all may attend to."""
    if not columns:
        return mask
    free = Tensor.zeros((*mask.shape[:-1], columns), mask.dtype, mask.device)
    return ag.cat([mask, free], -1)


def _attended(masks: list[Any]) -> Any:
    """True where none of the masks hides a key."""
    merged = ag.logical_not(masks[0])
    return merged if len(masks) == 1 else ag.where(masks[1], False, merged)


def _added(mask: Any, q: Any) -> Any:
    """A mask as numbers to add, where True hides a key."""
    return _hidden(ag.logical_not(mask), q) if mask.dtype == "bool" else mask.astype(q.dtype)


def _hidden(attended: Any, q: Any) -> Any:
    """0 where a key may be attended to, else minus infinity."""
    none = Tensor.zeros(attended.shape, q.dtype, q.device)
    return ag.masked_fill(none, ag.logical_not(attended), -math.inf)
