"""The namespace `netcl_core.capture`: every public name of this plugin."""

from __future__ import annotations

from netcl_plugin_capture.auto_replay import auto_replay
from netcl_plugin_capture.capture import CompiledGraph, capture

__all__ = ["CompiledGraph", "auto_replay", "capture"]
