"""The commands of the kit. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from typing import Final

import click

from netcl_plugin_kit.check.command import check
from netcl_plugin_kit.kernels.command import kernels
from netcl_plugin_kit.new.command import new
from netcl_plugin_kit.speed.command import bench
from netcl_plugin_kit.why.command import why

#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", kernels),
    ("plugins", bench),
    ("plugins", check),
    ("plugins", new),
    ("plugins", why),
)
