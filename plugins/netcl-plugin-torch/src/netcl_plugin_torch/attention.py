"""Scaled dot product attention by netcl's fused kernels, forward and backward.

PyTorch would make it of products and a softmax, with a matrix of all pairs in between. Two ops
stand for it, so that a compiled graph has one node for each pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_plugin_torch.layers import backward_of, forward_of
from netcl_plugin_torch.prepared import Prepared
from netcl_plugin_torch.tensor import OPS, NetclTensor

aten = torch.ops.aten
_ARGUMENTS: Final = (
    "Tensor q, Tensor k, Tensor v, Tensor? mask, bool causal, float? scale, bool gqa, bool[] wanted"
)
#: What PyTorch gives while it traces a graph.
_TRACED: Final = (FakeTensor, FunctionalTensor)
_library: Final = torch.library.Library("netcl", "FRAGMENT")
_library.define(f"_attention({_ARGUMENTS}) -> (Tensor, Tensor)")
_library.define(f"_attention_backward(Tensor grad, Tensor statistic, {_ARGUMENTS}) -> Tensor[]")
_FORWARD: Final = torch.ops.netcl._attention.default
_BACKWARD: Final = torch.ops.netcl._attention_backward.default


class _Attention(torch.autograd.Function):
    """Attention with netcl's record of it."""

    @staticmethod
    def forward(ctx: Any, options: Any, *tensors: Any) -> Any:
        wanted = list(ctx.needs_input_grad[1:])
        forward: Any = _PREPARED if _is_eager(tensors) else _FORWARD
        output, statistic = forward(*tensors, *options, wanted)
        ctx.save_for_backward(statistic, *tensors)
        ctx.options = *options, wanted
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        statistic, *tensors = ctx.saved_tensors
        backward: Any = _PREPARED_BACKWARD if _is_eager((grad, statistic)) else _BACKWARD
        gradients = iter(backward(grad, statistic, *tensors, *ctx.options))
        return None, *[next(gradients) if want else None for want in ctx.options[-1]]


def _is_eager(tensors: Any) -> bool:
    """Whether nobody but the device is to see the op."""
    return not torch._C._len_torch_dispatch_stack() and all(
        x is None or type(x) is NetclTensor for x in tensors
    )


def _function(causal: bool, scale: float | None, gqa: bool) -> Callable[..., Any]:
    def attend(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return ag.scaled_dot_product_attention(
            query, key, value, mask, is_causal=causal, scale=scale, enable_gqa=gqa
        )

    return attend


def _run(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float | None, gqa: bool,
         wanted: Any) -> Any:  # fmt: skip
    # The statistic is there for the record that it holds: nobody reads its elements.
    function = _function(causal, scale, gqa)
    return forward_of(function, (q, k, v, mask), _no_statistic, [q.shape[:-1]], wanted)


def _no_statistic(x: Any, *_: Any) -> Any:
    return (x[..., 0],)


def _run_backward(grad: Any, statistic: Any, q: Any, k: Any, v: Any, mask: Any, causal: bool,
                  scale: float | None, gqa: bool, wanted: Any) -> list[Any]:  # fmt: skip
    function = _function(causal, scale, gqa)
    gradients = backward_of(statistic, function, (q, k, v, mask), grad, wanted)
    return [x for x, want in zip(gradients, wanted, strict=True) if want]


_PREPARED: Final = Prepared(_run)
_PREPARED_BACKWARD: Final = Prepared(_run_backward)


def _shapes(q: Any, k: Any, v: Any, *options: Any) -> Any:
    output = q.new_empty((*q.shape[:-1], v.shape[-1]))
    return output, q.new_empty(q.shape[:-1], dtype=torch.float32)


def _shapes_backward(grad: Any, statistic: Any, q: Any, k: Any, v: Any, mask: Any,
                     *options: Any) -> list[Any]:  # fmt: skip
    pairs = zip((q, k, v, mask), options[-1], strict=True)
    return [x.new_empty(x.shape) for x, want in pairs if want]


def _are_for_kernels(query: Any, key: Any, value: Any, mask: Any) -> bool:
    """Whether netcl's kernels take these operands, whose values are not there yet."""
    known = (query, key, value) if mask is None else (query, key, value, mask)
    if not all(type(x) is NetclTensor or isinstance(x, _TRACED) for x in known):
        return False
    if any(x.device.type != "netcl" for x in known):
        return False
    return bool(query.dtype == key.dtype == value.dtype and query.numel() and key.numel())


def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, *, scale: float | None = None,
              enable_gqa: bool = False) -> Any:  # fmt: skip
    """`torch.nn.functional.scaled_dot_product_attention` on the device."""
    tensors = (query, key, value, attn_mask)
    if not dropout_p and _are_for_kernels(*tensors):
        options = (is_causal, scale, enable_gqa)
        try:
            if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors):
                return _Attention.apply(options, *tensors)
            return _FORWARD(*tensors, *options, [False] * 4)[0]
        except NetclError:
            pass  # PyTorch's way takes it, or says what is wrong
    return aten._scaled_dot_product_attention_math.default(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def register(library: Any) -> None:
    """Let PyTorch's function come here."""
    library.impl("scaled_dot_product_attention", attention, "AutogradPrivateUse1")
    OPS[_FORWARD], OPS[_BACKWARD] = _PREPARED, _PREPARED_BACKWARD
    torch.library.register_fake("netcl::_attention", _shapes, lib=_library)
    torch.library.register_fake("netcl::_attention_backward", _shapes_backward, lib=_library)
