"""The commands of the workbench. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from typing import Final

import click

from netcl_plugin_workbench.bench.command import bench
from netcl_plugin_workbench.cache.command import cache
from netcl_plugin_workbench.catalogue.command import catalogue
from netcl_plugin_workbench.check.command import check
from netcl_plugin_workbench.graph.command import graph
from netcl_plugin_workbench.kernels.command import kernels
from netcl_plugin_workbench.lock.command import lock
from netcl_plugin_workbench.matrix.command import matrix
from netcl_plugin_workbench.new.command import new
from netcl_plugin_workbench.settings.command import disable, enable, prefer
from netcl_plugin_workbench.speed.command import bench as bench_op
from netcl_plugin_workbench.tune.command import tune
from netcl_plugin_workbench.why.command import why

#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", bench),
    ("", cache),
    ("", catalogue),
    ("", graph),
    ("", kernels),
    ("", matrix),
    ("", tune),
    ("plugins", bench_op),
    ("plugins", check),
    ("plugins", disable),
    ("plugins", enable),
    ("plugins", lock),
    ("plugins", new),
    ("plugins", prefer),
    ("plugins", why),
)
