"""Stacks of transformer layers: TransformerEncoder, TransformerDecoder, and Transformer of both."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from inspect import signature
from typing import Any, Concatenate, ParamSpec

import numpy as np

from netcl_core import Tensor
from netcl_core.errors import ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.containers import ModuleList
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.norms import LayerNorm
from netcl_plugin_nn.transformer_layers import (
    Activation,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

_P = ParamSpec("_P")


def _signed_as(
    other: Callable[Concatenate[Any, _P], Any],
) -> Callable[[Callable[..., Any]], Callable[Concatenate[Any, _P], Any]]:
    """Give a method that passes on all it gets the signature of the one that it goes to."""

    def decorate(method: Callable[..., Any]) -> Callable[Concatenate[Any, _P], Any]:
        method.__signature__ = signature(other)  # type: ignore[attr-defined]
        return method

    return decorate


class _Stack(Module):
    """Copies of a layer, one after the other, and a norm behind them."""

    norm: Module | None

    def _set_up(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def _through(self, x: Any, *args: Any, **named: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *args, **named)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """`num_layers` copies of an encoder layer, and a norm behind them.

    >>> layer = nn.TransformerEncoderLayer(16, 4, batch_first=True)
    >>> nn.TransformerEncoder(layer, 2)(nc.rand(3, 5, 16)).shape
    (3, 5, 16)

    Args:
        encoder_layer: A TransformerEncoderLayer, which is copied with its weights.
        num_layers: How many.
        norm: A module for the result, or None.
        enable_nested_tensor, mask_check: Change nothing here; PyTorch has them.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self._set_up(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        """`src` through all layers; arguments as of TransformerEncoderLayer."""
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """`num_layers` copies of a decoder layer, and a norm behind them; as TransformerEncoder.

    >>> layer = nn.TransformerDecoderLayer(16, 4, batch_first=True)
    >>> nn.TransformerDecoder(layer, 2)(nc.rand(3, 5, 16), nc.rand(3, 7, 16)).shape
    (3, 5, 16)

    Args:
        decoder_layer: The layer, which is copied.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self._set_up(decoder_layer, num_layers, norm)

    @_signed_as(TransformerDecoderLayer.forward)
    def forward(self, tgt: Any, *args: Any, **named: Any) -> Any:
        """`tgt` through all layers; arguments as of TransformerDecoderLayer."""
        return self._through(tgt, *args, **named)


class Transformer(Module):
    """An encoder and a decoder that attends to its result (Vaswani et al. 2017, arXiv:1706.03762).

    >>> model = nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(nc.randn(7, 3, 8), nc.randn(5, 3, 8)).shape
    (5, 3, 8)

    Args:
        num_encoder_layers, num_decoder_layers: How many layers.
        custom_encoder, custom_decoder: Modules in the place of the usual ones.
        others: As of TransformerEncoderLayer.

    Its arguments are as of `TransformerEncoderLayer`.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        given = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
                 norm_first, bias, device, dtype)  # fmt: skip

        def norm() -> Module:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*given), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*given), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all matrices anew, by `xavier_uniform_`."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """What the decoder makes of `tgt` (T, N, d_model) and the encoded `src` (S, N, d_model).

        With `batch_first` N comes first; without a batch there is no N. Masks are as of
        TransformerEncoderLayer and TransformerDecoderLayer.
        """
        batch = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            given = f"src of shape {tuple(src.shape)} and tgt of shape {tuple(tgt.shape)}"
            raise ShapeError(message("Transformer", given, "as many sequences in both"))
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        paddings = (tgt_key_padding_mask, memory_key_padding_mask)
        masks = (tgt_mask, memory_mask, *paddings)
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask (sz, sz) as numbers to add: minus infinity above the diagonal, else 0."""
        mask = np.triu(np.full((sz, sz), -math.inf, np.float32), 1)
        return Tensor.from_host(mask, device, dtype)
