"""The commands of the tools. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from typing import Final

import click

from netcl_plugin_tools.cache.command import cache
from netcl_plugin_tools.catalogue.command import catalogue
from netcl_plugin_tools.graph.command import graph
from netcl_plugin_tools.lock.command import lock
from netcl_plugin_tools.matrix.command import matrix
from netcl_plugin_tools.settings.command import disable, enable, prefer
from netcl_plugin_tools.tune.command import tune

#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", cache),
    ("", catalogue),
    ("", graph),
    ("", matrix),
    ("", tune),
    ("plugins", disable),
    ("plugins", enable),
    ("plugins", lock),
    ("plugins", prefer),
)
