"""The command `netcl plugins lock`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


@click.command()
@click.option("--check", is_flag=True, help="Compare instead of writing.")
@click.option("--out", metavar="FILE", help="The lock file.  [default: the one that holds here]")
@click.option("--device", "devices", multiple=True, help="As NETCL_DEVICE.  [default: all]")
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Whether the file itself asks to be held strictly.  [default: as before]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_context
def lock(ctx: click.Context, /, **options: Any) -> None:
    """Write what is installed, chosen and rendered here into netcl.lock, or check it.

    Exit code of --check: 0 it fits, 1 it differs, 3 there is no lock file. A file that is no
    lock, or one of a newer netcl, is never overwritten: exit code 3.
    """
    ctx.exit(import_module("netcl_plugin_tools.lock.run").run(**options))
