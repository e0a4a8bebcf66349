"""The namespace `netcl_core.data`: every public name of this plugin."""

from __future__ import annotations

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
