"""The namespace `netcl_core.utils`: PyTorch's path to the data sets, `netcl_core.utils.data`."""

from __future__ import annotations

from netcl_plugin_data import api as data

__all__ = ["data"]
