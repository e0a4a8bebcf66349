"""The commands of the workbench: their options. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

import click

from netcl_plugin_workbench.catalogue.command import catalogue
from netcl_plugin_workbench.matrix.command import matrix
from netcl_plugin_workbench.new.command import new

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.command("lock")
@click.option("--check", is_flag=True, help="Compare instead of writing.")
@click.option("--out", metavar="FILE", help="The lock file.  [default: the one that holds here]")
@click.option("--device", "devices", multiple=True, help="As NETCL_DEVICE.  [default: all]")
@_json
@click.pass_context
def lock(ctx: click.Context, /, **options: Any) -> None:
    """Write what is installed, chosen and rendered here into netcl.lock, or check it.

    Exit code of --check: 0 it fits, 1 it differs, 3 there is no lock file.
    """
    ctx.exit(importlib.import_module("netcl_plugin_workbench.lock.command").run(**options))


#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", catalogue),
    ("", matrix),
    ("plugins", lock),
    ("plugins", new),
    ("", catalogue),
)
