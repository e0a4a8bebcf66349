"""MultiheadAttention: queries, keys and values projected, attended by heads, and projected back."""

from __future__ import annotations

import math
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.linear import Linear
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned

NAME: Final = "MultiheadAttention"


class MultiheadAttention(Module):
    """Attention of several heads side by side (Vaswani et al. 2017, arXiv:1706.03762).

    With PyTorch's arguments, results and names of parameters: `in_proj_weight` (3 E, E), or
    `q_proj_weight`, `k_proj_weight` and `v_proj_weight` where `kdim` or `vdim` differ from E =
    `embed_dim`; `in_proj_bias` (3 E,), `out_proj`, and with `add_bias_kv` `bias_k` and `bias_v`.
    """

    in_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            given = f"embed_dim={embed_dim} in {num_heads} heads"
            raise AttributeValueError(message(NAME, given, "a multiple of num_heads"))
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first, self.add_zero_attn = batch_first, add_zero_attn

        def made(*shape: int) -> Tensor:
            return owned(Tensor.empty(shape, dtype, device))

        sizes = (embed_dim, self.kdim, self.vdim)
        alone = set(sizes) == {embed_dim}
        self.register_parameter("in_proj_weight", made(3 * embed_dim, embed_dim) if alone else None)
        for name, size in zip("qkv", sizes, strict=True):
            weight = None if alone else made(embed_dim, size)
            self.register_parameter(f"{name}_proj_weight", weight)
        self.register_parameter("in_proj_bias", made(3 * embed_dim) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, made(1, 1, embed_dim) if add_bias_kv else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew; all biases but `bias_k` and `bias_v` are 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        self.out_proj.reset_parameters()
        for each in (self.in_proj_bias, self.out_proj.bias):
            if each is not None:
                init.zeros_(each)
        for name in ("bias_k", "bias_v"):
            if getattr(self, name) is not None:
                init.xavier_normal_(getattr(self, name))

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """What is attended to, and the weights or None.

        Args:
            query: (L, N, E), with `batch_first` (N, L, E), or (L, E).
            key: (S, N, kdim), (N, S, kdim) or (S, kdim).
            value: (S, N, vdim), (N, S, vdim) or (S, vdim).
            key_padding_mask: (N, S) or (S,): bool (True: the key is left out), or added.
            need_weights: Whether the weights are wanted; without them no matrix of them is made.
            attn_mask: (L, S) or (N * num_heads, L, S): bool (True: may not attend), or added.
            average_attn_weights: Whether the weights are (N, L, S), the mean over the heads, or
                (N, num_heads, L, S).
            is_causal: Says that `attn_mask` is the causal one, which then is not looked at.
        """
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
        p = self.dropout if self.training else 0.0
        if need_weights:
            found, weights = self._by_weights(heads, mask, p)
        else:
            found = ag.scaled_dot_product_attention(*heads, mask, p, causal)
        n, _, rows, _ = heads[0].shape
        joined = ag.reshape(ag.permute(found, (0, 2, 1, 3)), (n, rows, self.embed_dim))
        out = self._restored(self.out_proj(joined), query)
        if not need_weights:
            return out, None
        weights = ag.mean(weights, 1) if average_attn_weights else weights
        return out, ag.squeeze(weights, 0) if query.ndim == 2 else weights

    def _projected(self, *given: Any) -> list[Any]:
        """Query, key and value by heads: (N, num_heads, rows, E / num_heads)."""
        if self.in_proj_weight is not None and given[0] is given[1] is given[2]:
            packed = ag.linear(self._batched(given[0]), self.in_proj_weight, self.in_proj_bias)
            found = list(ag.split(packed, self.embed_dim, -1))
        else:
            found = [
                ag.linear(self._batched(x), weight, bias)
                for x, weight, bias in zip(given, self._weights(), self._biases(), strict=True)
            ]
        if self.bias_k is not None:
            for i, more in ((1, self.bias_k), (2, self.bias_v)):
                wide = ag.broadcast_to(more, (found[i].shape[0], 1, self.embed_dim))
                found[i] = ag.cat([found[i], wide], 1)
        if self.add_zero_attn:
            for i in (1, 2):
                zero = Tensor.zeros((found[i].shape[0], 1, self.embed_dim), found[i].dtype,
                                    found[i].device)  # fmt: skip
                found[i] = ag.cat([found[i], zero], 1)
        return [self._by_heads(x) for x in found]

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
        found = []
        if attn_mask is not None:
            mask = ag.as_operand(attn_mask, q.device)
            if mask.ndim == 3:
                mask = ag.reshape(mask, (n, self.num_heads, rows, mask.shape[-1]))
            found.append(mask)
        if key_padding_mask is not None:
            mask = ag.as_operand(key_padding_mask, q.device)
            found.append(ag.reshape(mask, (n, 1, 1, mask.shape[-1])))
        masks = [_widened(mask, more - mask.shape[-1]) for mask in found]
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
    found = ag.logical_not(masks[0])
    return found if len(masks) == 1 else ag.where(masks[1], False, found)


def _added(mask: Any, q: Any) -> Any:
    """A mask as numbers to add, where True hides a key."""
    return _hidden(ag.logical_not(mask), q) if mask.dtype == "bool" else mask.astype(q.dtype)


def _hidden(attended: Any, q: Any) -> Any:
    """0 where a key may be attended to, else minus infinity."""
    none = Tensor.zeros(attended.shape, q.dtype, q.device)
    return ag.masked_fill(none, ag.logical_not(attended), -math.inf)
