"""The command `netcl plugins bench`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import usage_ends


@click.command()
@click.argument("op")
@click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")
@click.option("--device", help="As NETCL_DEVICE.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def bench(ctx: click.Context, /, **options: Any) -> None:
    """Time all that could compute OP on this machine, in turn, in one run.

    Without --shapes OP is called as in its conformance cases, with the largest shapes of each. A
    ratio is to the one that serves by the rules. What was measured is kept: `netcl plugins why OP`
    shows it. Exit code 1 when nothing can compute it here.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_kit.speed.comparing").show(**options))
