"""`netcl_core.nn.utils`: `rnn`, weight norm, and PyTorch's path to what bounds gradients."""

from __future__ import annotations

from typing import Any, Final

import netcl_core
from netcl_core.plugins import absent
from netcl_plugin_nn import packing as rnn
from netcl_plugin_nn.weight_norm import remove_weight_norm, weight_norm

__all__ = ["remove_weight_norm", "rnn", "weight_norm"]

_FROM_OPTIM: Final = ("clip_grad_norm_", "clip_grad_value_")


def __getattr__(name: str) -> Any:
    if name in _FROM_OPTIM:
        return getattr(netcl_core.optim, name)
    return absent("nn.utils", name, __dir__())


def __dir__() -> list[str]:
    return [*_FROM_OPTIM, *__all__]
