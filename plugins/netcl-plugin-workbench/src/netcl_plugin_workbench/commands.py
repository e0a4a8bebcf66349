"""The commands of the workbench. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from typing import Final

import click

from netcl_plugin_workbench.catalogue.command import catalogue
from netcl_plugin_workbench.check.command import check
from netcl_plugin_workbench.graph.command import graph
from netcl_plugin_workbench.lock.command import lock
from netcl_plugin_workbench.matrix.command import matrix
from netcl_plugin_workbench.new.command import new

#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", catalogue),
    ("", graph),
    ("", matrix),
    ("plugins", check),
    ("plugins", lock),
    ("plugins", new),
)
