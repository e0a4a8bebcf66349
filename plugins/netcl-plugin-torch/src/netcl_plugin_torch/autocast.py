"""`torch.autocast("netcl")`: which ops compute in float16 or bfloat16, and GradScaler's ops.

The lists are those of PyTorch's GPUs: https://docs.pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

from netcl_plugin_torch.dispatch import direct, overload
from netcl_plugin_torch.tensor import NetclTensor

LOW: Final = (
    "addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d.input conv_transpose3d.input convolution linear linalg_multi_dot "
    "matmul mm mv prelu scaled_dot_product_attention lstm_cell gru_cell rnn_tanh_cell "
    "rnn_relu_cell lstm.input gru.input rnn_tanh.input rnn_relu.input"
)
FLOAT: Final = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan "
    "pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm "
    "group_norm norm.Scalar norm.ScalarOpt_dim linalg_vector_norm cosine_similarity "
    "poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div "
    "l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss "
    "soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "cross_entropy_loss dist pdist cdist renorm logsumexp prod prod.dim_int softmax.int "
    "log_softmax.int cumprod cumsum sum sum.dim_IntList"
)
WIDEST: Final = (
    "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add"
)
_KEY: Final = torch._C.DispatchKey.AutocastPrivateUse1
_WITHOUT: Final = torch._C.DispatchKeySet(_KEY)
_others: Any = None
_HALVES: Final = (torch.float16, torch.bfloat16)


def _cast(dtype: torch.dtype) -> Callable[[Any], Any]:
    def one(x: Any) -> Any:
        if type(x) is NetclTensor and x.is_floating_point() and x.dtype != torch.float64:
            return x.to(dtype)
        return x

    return one


def _kernel(func: Any, dtype_of: Callable[[Any], torch.dtype]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        cast = _cast(dtype_of((args, kwargs)))
        with torch._C._ExcludeDispatchKeyGuard(_WITHOUT):
            return func(*tree_map(cast, args), **tree_map(cast, kwargs))

    return run


def _low(_: Any) -> torch.dtype:
    return torch.get_autocast_dtype("netcl")


def _float(_: Any) -> torch.dtype:
    return torch.float32


def _widest(given: Any) -> torch.dtype:
    dtypes: list[torch.dtype] = []
    tree_map(lambda x: dtypes.append(x.dtype) if type(x) is NetclTensor else None, given)
    floats = [x for x in dtypes if x.is_floating_point]
    return floats[0] if floats and all(x in _HALVES for x in floats) else torch.float32


def _refused(*_: Any, **__: Any) -> Any:
    text = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
    raise RuntimeError(f"{text} Use binary_cross_entropy_with_logits or BCEWithLogitsLoss")


def register(library: Any) -> None:
    """Enter the kernels that cast and go on; every other op is left as it is."""
    global _others
    _others = torch.library.Library("_", "IMPL")
    _others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for names, dtype_of in ((LOW, _low), (FLOAT, _float), (WIDEST, _widest)):
        for name in names.split():
            func = overload(name)
            if func is not None:  # this PyTorch has it
                library.impl(name, _kernel(func, dtype_of), "AutocastPrivateUse1")
    library.impl("binary_cross_entropy", _refused, "AutocastPrivateUse1")


# -- what torch.amp.GradScaler calls -----------------------------------------------------------


@direct("_amp_foreach_non_finite_check_and_unscale_")
def unscale(grads: Any, found_inf: Any, inv_scale: Any) -> None:
    for grad in grads:
        finite = torch.isfinite(grad).all()
        found_inf.copy_(torch.maximum(found_inf, (~finite).to(found_inf.dtype)))
        grad.mul_(inv_scale.to(grad.dtype) if grad.dtype == torch.float64 else inv_scale)


@direct("_amp_update_scale_")
def update_scale(scale: Any, tracker: Any, found_inf: Any, growth: float, backoff: float,
                 interval: int) -> Any:  # fmt: skip
    bad = found_inf.reshape(scale.shape) > 0
    count = torch.where(bad, 0, tracker + 1)
    grows = count >= interval
    grown = torch.where(grows & torch.isfinite(scale * growth), scale * growth, scale)
    scale.copy_(torch.where(bad, scale * backoff, grown))
    tracker.copy_(torch.where(grows, 0, count))
    return scale
