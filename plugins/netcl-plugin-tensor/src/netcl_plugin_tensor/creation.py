"""The namespace `creation`: tensors of sequences, and of memory shared with other libraries."""

from __future__ import annotations

from netcl_plugin_tensor.sequences import arange, eye, linspace
from netcl_plugin_tensor.sharing import dlpack_device, from_buffer, from_dlpack, to_dlpack

__all__ = ["arange", "dlpack_device", "eye", "from_buffer", "from_dlpack", "linspace", "to_dlpack"]
