"""`netcl_core.nn.utils`: `rnn`, and PyTorch's path to what bounds gradients, which optim has."""

from __future__ import annotations

from typing import Any, Final

import netcl_core
from netcl_core.plugins import absent
from netcl_plugin_nn import packing as rnn

__all__ = ["rnn"]

_FROM_OPTIM: Final = ("clip_grad_norm_", "clip_grad_value_")


def __getattr__(name: str) -> Any:
    if name in _FROM_OPTIM:
        return getattr(netcl_core.optim, name)
    return absent("nn.utils", name, __dir__())


def __dir__() -> list[str]:
    return [*_FROM_OPTIM, "rnn"]
