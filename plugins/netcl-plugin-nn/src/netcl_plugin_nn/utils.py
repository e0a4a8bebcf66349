"""`netcl_core.nn.utils`: what changes a layer's parameters, `rnn`, and what bounds gradients."""

from __future__ import annotations

from typing import Any, Final

import netcl_core
from netcl_core.plugins import absent
from netcl_plugin_nn import packing as rnn
from netcl_plugin_nn import parametrizations, parametrize, prune
from netcl_plugin_nn.parametrizations import old_spectral_norm as spectral_norm
from netcl_plugin_nn.parametrizations import remove_spectral_norm
from netcl_plugin_nn.weight_norm import remove_weight_norm, weight_norm

__all__ = ["parametrizations", "parametrize", "prune", "remove_spectral_norm",
           "remove_weight_norm", "rnn", "spectral_norm", "weight_norm"]  # fmt: skip

_FROM_OPTIM: Final = (
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _FROM_OPTIM:
        return getattr(netcl_core.optim, name)
    return absent("nn.utils", name, __dir__())


def __dir__() -> list[str]:
    return [*_FROM_OPTIM, *__all__]
