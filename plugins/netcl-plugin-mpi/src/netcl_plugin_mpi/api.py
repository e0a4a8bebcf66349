"""The namespace `netcl_core.distributed`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.plugins import absent
from netcl_plugin_mpi.collectives import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    make_allreduce_cb,
    reduce_scatter,
)
from netcl_plugin_mpi.parallel import DistributedDataParallel
from netcl_plugin_mpi.processes import (
    DistributedError,
    get_rank,
    get_world_size,
    init,
    is_available,
    is_initialized,
    local_rank,
    rank,
    size,
)
from netcl_plugin_mpi.sharded import ZeroRedundancyOptimizer

__all__ = [
    "DistributedDataParallel",
    "DistributedError",
    "ZeroRedundancyOptimizer",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "get_rank",
    "get_world_size",
    "init",
    "is_available",
    "is_initialized",
    "local_rank",
    "make_allreduce_cb",
    "rank",
    "reduce_scatter",
    "size",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        return absent("distributed", name, __all__)
