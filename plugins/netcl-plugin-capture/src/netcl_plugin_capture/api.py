"""The namespace `netcl_core.capture`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.plugins import absent
from netcl_plugin_capture.auto_replay import auto_replay
from netcl_plugin_capture.capture import CompiledGraph, capture

__all__ = ["CompiledGraph", "auto_replay", "capture"]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        return absent("autograd.graph", name, __all__)
