"""The layers of transformers: TransformerEncoderLayer and TransformerDecoderLayer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn.attention import MultiheadAttention
from netcl_plugin_nn.dropout import Dropout
from netcl_plugin_nn.linear import Linear
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.norms import LayerNorm

Activation: TypeAlias = str | Callable[[Any], Any]


def _relu(x: Any) -> Any:
    return ag.relu(x)


def _gelu(x: Any) -> Any:
    return ag.gelu(x, approximate="none")


def activation_of(who: str, given: Activation) -> Callable[[Any], Any]:
    """The function of 'relu' or 'gelu', or the function itself; raises AttributeValueError."""
    activation = {"relu": _relu, "gelu": _gelu}.get(given) if isinstance(given, str) else given
    if not callable(activation):
        raise AttributeValueError(
            message(who, f"activation={given!r}", "'relu', 'gelu' or a function")
        )
    return activation


class _Layer(Module):
    """What both have in common: attention, two linear maps, and where the norms stand."""

    attentions: tuple[str, ...]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        placed = {"device": device, "dtype": dtype}
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **placed
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **placed)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **placed)
        self.norm_first = norm_first
        numbers = range(1, len(self.attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **placed))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = activation_of(type(self).__name__, activation)

    def _around(self, x: Any, number: int, block: Callable[[Any], Any]) -> Any:
        """A block with its dropout, its norm before or behind it, and the way around it."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return ag.add(x, dropout(block(norm(x))))
        return norm(ag.add(x, dropout(block(x))))

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _attend(
        self, name: str, x: Any, memory: Any, mask: Any, padding: Any, is_causal: bool | None
    ) -> Any:
        attended, _ = getattr(self, name)(
            x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask,
            is_causal=bool(is_causal),
        )  # fmt: skip
        return attended


class TransformerEncoderLayer(_Layer):
    """Self-attention and two linear layers, each with dropout, a residual and a norm.

    (Vaswani et al. 2017, arXiv:1706.03762)

    >>> layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, batch_first=True)
    >>> layer(nc.randn(3, 5, 8)).shape
    (3, 5, 8)

    Args:
        d_model: The size of a position's vector.
        nhead: The number of heads, a divisor of d_model.
        dim_feedforward: The size between the two linear layers.
        dropout: A probability; used in training.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: Of the norms.
        batch_first: Whether tensors are (N, L, d_model) and not (L, N, d_model).
        norm_first: Whether the norms stand before attention and linear layers, not behind them.
        bias: Whether linear layers and norms have one.
    """

    attentions = ("self_attn",)

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """`src` of shape (L, N, d_model), with `batch_first` (N, L, d_model), or (L, d_model).

        The masks are those of MultiheadAttention; `is_causal` says that `src_mask` is the causal
        one.
        """

        def attend(x: Any) -> Any:
            return self._attend("self_attn", x, x, src_mask, src_key_padding_mask, is_causal)

        return self._around(self._around(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and two linear layers; as TransformerEncoderLayer.

    >>> layer = nn.TransformerDecoderLayer(16, 4, batch_first=True)
    >>> layer(nc.rand(3, 5, 16), nc.rand(3, 7, 16)).shape
    (3, 5, 16)

    Its arguments are as of `TransformerEncoderLayer`.
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """`tgt` with what it attends to in `memory`, the encoder's result; see the encoder."""

        def itself(x: Any) -> Any:
            return self._attend("self_attn", x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def other(x: Any) -> Any:
            given = (memory_mask, memory_key_padding_mask, memory_is_causal)
            return self._attend("multihead_attn", x, memory, *given)

        x = self._around(self._around(tgt, 1, itself), 2, other)
        return self._around(x, 3, self._feed_forward)
