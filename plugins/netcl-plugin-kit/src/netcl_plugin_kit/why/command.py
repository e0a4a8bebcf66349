"""The command `netcl plugins why`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import usage_ends


@click.command()
@click.argument("op")
@click.option("--device", help="As NETCL_DEVICE; default: the default device.")
@click.option("--dtype", default="float32", show_default=True)
@click.option("--shapes", help="A shape for each input: then shapes count, and settings are shown.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="With --shapes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def why(ctx: click.Context, /, **options: Any) -> None:
    """Show who could compute OP on a device, who does, the rule that decided, and their speed.

    OP may also be a training pattern, an amp policy, a namespace or a command: then, who offers
    it. The speed is what `netcl plugins bench` or a full check last measured on this machine.

    Exit code 1 when nobody does.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_kit.why.telling").show(**options))
