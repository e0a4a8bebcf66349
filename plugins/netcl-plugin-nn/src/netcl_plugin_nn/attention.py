"""MultiheadAttention: queries, keys and values projected, attended by heads, and projected back."""

from __future__ import annotations

from typing import Any, Final

from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.heads import Heads
from netcl_plugin_nn.linear import Linear
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned

NAME: Final = "MultiheadAttention"


class MultiheadAttention(Module):
    """Attention of several heads side by side (Vaswani et al. 2017, arXiv:1706.03762).

    With PyTorch's arguments, results and names of parameters: `in_proj_weight` (3 E, E), or
    `q_proj_weight`, `k_proj_weight` and `v_proj_weight` where `kdim` or `vdim` differ from E =
    `embed_dim`; `in_proj_bias` (3 E,), `out_proj`, and with `add_bias_kv` `bias_k` and `bias_v`.

    >>> layer = nn.MultiheadAttention(16, 4, batch_first=True)
    >>> x = nc.rand(2, 5, 16)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    ((2, 5, 16), (2, 5, 5))

    Args:
        num_heads: How many heads; it divides the embedding.
        dropout: The probability with which weights are dropped.
        bias: Whether the projections have biases.
        add_zero_attn: Whether keys and values get a row of zeros.
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
        for parameter in (self.in_proj_bias, self.out_proj.bias):
            if parameter is not None:
                init.zeros_(parameter)
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
        biases = (self.bias_k, self.bias_v)
        return Heads(
            self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, *biases,
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, self.add_zero_attn,
            self.out_proj, self.dropout if self.training else 0.0, self.batch_first,
        ).attend(
            query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights,
            is_causal,
        )  # fmt: skip
