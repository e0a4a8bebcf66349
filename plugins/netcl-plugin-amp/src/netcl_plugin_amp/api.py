"""The namespace `netcl_core.amp`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.plugins import absent
from netcl_plugin_amp.autocast import autocast, is_autocast_enabled, maybe_cast_tensor
from netcl_plugin_amp.casting import amp_policy, casting, named_policy
from netcl_plugin_amp.grad_scaler import GradScaler
from netcl_plugin_amp.master import master_param
from netcl_plugin_amp.policy import AmpPolicy
from netcl_plugin_amp.support import autocast_enabled, supports_fp16

__all__ = [
    "AmpPolicy",
    "GradScaler",
    "amp_policy",
    "autocast",
    "autocast_enabled",
    "casting",
    "is_autocast_enabled",
    "master_param",
    "maybe_cast_tensor",
    "named_policy",
    "supports_fp16",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        return absent("amp", name, __all__)
