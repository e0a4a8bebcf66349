"""Scaled dot product attention by netcl's fused kernels, forward and backward.

PyTorch would make it of products and a softmax, with a matrix of all pairs in between.
"""

from __future__ import annotations

from typing import Any

import torch

import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_plugin_torch.layers import recorded
from netcl_plugin_torch.tensor import NetclTensor, wrap

aten = torch.ops.aten


class _Attention(torch.autograd.Function):
    """Attention with netcl's record of it."""

    @staticmethod
    def forward(ctx: Any, options: Any, *tensors: Any) -> Any:
        raws = [None if x is None else x.raw for x in tensors]
        made, ctx.leaves = recorded(
            lambda *leaves: _attend(options, *leaves), raws, ctx.needs_input_grad[1:]
        )
        ctx.made = made
        return wrap(made.value.detach())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        places = [i for i, want in enumerate(ctx.needs_input_grad[1:]) if want]
        found = ag.grad(ctx.made, [ctx.leaves[i] for i in places], grad.raw, retain_graph=True)
        by_place = dict(zip(places, found, strict=True))
        return None, *[wrap(by_place[i]) if i in by_place else None for i in range(4)]


def _attend(options: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
    return ag.scaled_dot_product_attention(query, key, value, mask, **options)


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, *, scale: float | None = None,
              enable_gqa: bool = False) -> Any:  # fmt: skip
    """`torch.nn.functional.scaled_dot_product_attention` on the device."""
    tensors = (query, key, value, attn_mask)
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    fits = all(x is None or type(x) is NetclTensor for x in tensors) and not dropout_p
    if fits and query.dtype == key.dtype == value.dtype and query.numel() and key.numel():
        try:
            if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
                return _Attention.apply(options, *tensors)
            with ag.no_grad():
                raws = [None if x is None else x.raw for x in tensors]
                return wrap(_attend(options, *raws).value)
        except NetclError:
            pass  # PyTorch's way takes it, or says what is wrong
    return aten._scaled_dot_product_attention_math.default(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def register(library: Any) -> None:
    """Let PyTorch's function come here."""
    library.impl("scaled_dot_product_attention", attention, "AutogradPrivateUse1")
