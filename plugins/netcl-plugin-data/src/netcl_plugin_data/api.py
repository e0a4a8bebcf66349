"""The namespace `netcl_core.data`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.errors import missing_name
from netcl_plugin_data.datasets import TensorDataset
from netcl_plugin_data.digits import digits
from netcl_plugin_data.idx import DataFormatError, MissingDataError, read_idx
from netcl_plugin_data.loader import DataLoader
from netcl_plugin_data.mnist import mnist

__all__ = [
    "TensorDataset",
    "DataLoader",
    "digits",
    "mnist",
    "read_idx",
    "MissingDataError",
    "DataFormatError",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        raise missing_name("netcl_core.data", name, __all__)
