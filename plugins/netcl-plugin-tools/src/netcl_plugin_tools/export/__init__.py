"""The namespace `netcl_core.serving`: functions as folders and files that run without netcl."""

from __future__ import annotations

from netcl_core.plugins import absent
from netcl_plugin_tools.export.folder import export
from netcl_plugin_tools.export.onnx_file import export_onnx

__all__ = ["export", "export_onnx"]


def __getattr__(name: str) -> object:
    return absent("serving", name, __all__)
