"""The namespace `reductions`: sums and other reductions, and the teams that share rows.

Plugins use it for their own kernels. The engine sums gradients by it, down to the shape of an
input that was broadcast.
"""

from __future__ import annotations

from netcl_plugin_tensor.gradient_sums import sums
from netcl_plugin_tensor.reducing_job import SUM, Combine
from netcl_plugin_tensor.reducing_kernels import (
    reduction_kernels,
    reduction_reads,
    reduction_stretch,
)
from netcl_plugin_tensor.teams import RowTeams, group_items, load_width, row_teams
from netcl_plugin_tensor.tree_sum import tree_sum

__all__ = [
    "SUM", "Combine", "RowTeams", "group_items", "load_width", "reduction_kernels",
    "reduction_reads", "reduction_stretch", "row_teams", "sums", "tree_sum",
]  # fmt: skip
