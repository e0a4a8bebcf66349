"""The command `netcl plugins check`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import usage_ends


@click.command()
@click.argument("target", metavar="[NAME|PATH]", required=False)
@click.option(
    "--level",
    type=click.Choice(["static", "run", "full"]),
    help="Each includes those before it.  [default: run, or the lowest that --only needs]",
)
@click.option(
    "--device", "devices", multiple=True, metavar="D", help="As NETCL_DEVICE; default: all usable."
)
@click.option("--only", multiple=True, metavar="CHECK", help="Only the checks of this name.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a check of which nothing is heard for so long.  [default: 120]",
)
@click.option("--out", metavar="FILE", help="Write the record as JSON into this new file, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> None:
    """Check an installed plugin, a project folder or a wheel; without one, all installed ones.

    Exit code 1 when something failed, 2 when there is nothing to check, 3 when a tool that
    the check needs is missing.
    """
    showing = import_module("netcl_plugin_kit.check.check_output")
    with usage_ends(ctx):
        ctx.exit(showing.show_check(**options))
