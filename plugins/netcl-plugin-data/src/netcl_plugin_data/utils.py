"""The namespace `netcl_core.utils`: PyTorch's path to the data sets, `netcl_core.utils.data`."""

from __future__ import annotations

from typing import Any

from netcl_core.plugins import absent
from netcl_plugin_data import api as data

__all__ = ["data"]


def __getattr__(name: str) -> Any:
    return absent("utils", name, __all__)
