"""The namespace `netcl_core.data`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.plugins import absent
from netcl_plugin_data.cifar import cifar10
from netcl_plugin_data.collate import default_collate
from netcl_plugin_data.datasets import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
)
from netcl_plugin_data.digits import digits
from netcl_plugin_data.distributed_sampler import DistributedSampler
from netcl_plugin_data.idx import DataFormatError, MissingDataError, read_idx
from netcl_plugin_data.loader import DataLoader
from netcl_plugin_data.mnist import mnist
from netcl_plugin_data.samplers import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from netcl_plugin_data.splits import random_split
from netcl_plugin_data.text import TextBytes, text_bytes
from netcl_plugin_data.worker import WorkerInfo, get_worker_info
from netcl_plugin_data.workers import WorkerError

__all__ = [
    "Dataset",
    "IterableDataset",
    "TensorDataset",
    "Subset",
    "ConcatDataset",
    "ChainDataset",
    "random_split",
    "DataLoader",
    "default_collate",
    "Sampler",
    "SequentialSampler",
    "RandomSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
    "BatchSampler",
    "DistributedSampler",
    "WorkerInfo",
    "get_worker_info",
    "WorkerError",
    "digits",
    "mnist",
    "cifar10",
    "text_bytes",
    "TextBytes",
    "read_idx",
    "MissingDataError",
    "DataFormatError",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        return absent("utils.data", name, __all__)
