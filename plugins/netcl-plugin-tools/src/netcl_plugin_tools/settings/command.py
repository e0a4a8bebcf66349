"""The commands `netcl plugins enable`, `disable` and `prefer`: their options."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import usage_ends
from netcl_core.errors import ArgumentError, message

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


@click.command()
@click.argument("name")
@_json
@click.pass_context
def enable(ctx: click.Context, name: str, as_json: bool) -> None:
    """Let the plugin NAME be loaded again, in the file of settings that holds here."""
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.settings.switching").run(name, True, as_json))


@click.command()
@click.argument("name")
@_json
@click.pass_context
def disable(ctx: click.Context, name: str, as_json: bool) -> None:
    """Have the plugin NAME not loaded, in the file of settings that holds here.

    NAME is a distribution, `netcl-plugin-` left out or not, a plugin, or both with a colon between.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.settings.switching").run(name, False, as_json))


@click.command()
@click.argument("op")
@click.argument("choice", required=False)
@click.option("--measured", is_flag=True, help="What is the fastest on this machine.")
@click.option("--forget", is_flag=True, help="Leave OP to the rules again.")
@click.option("--shapes", help="What to measure with, such as 32x784,784x10.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="With --shapes.")
@click.option("--dtype", default="float32", show_default=True, help="With --measured.")
@click.option("--device", help="As NETCL_DEVICE, with --measured.")
@_json
@click.pass_context
def prefer(
    ctx: click.Context,
    /,
    op: str,
    choice: str | None,
    measured: bool,
    forget: bool,
    as_json: bool,
    **call: Any,
) -> None:
    """Have CHOICE serve OP, in the file of settings that holds here and in netcl.lock.

    CHOICE is a distribution or an implementation, as `netcl plugins why OP` lists them. With
    --measured all candidates are timed as `netcl plugins bench OP` does it; what is not faster
    by more than 5 % changes nothing.
    """
    with usage_ends(ctx):
        if [choice is not None, measured, forget].count(True) != 1:
            given = "CHOICE, --measured and --forget exclude each other"
            raise ArgumentError(message("plugins prefer", given, "one of them"))
        if not measured and any([call["shapes"], call["attrs"], call["device"]]):
            given = "--shapes, --attr and --device say what to measure with"
            raise ArgumentError(message("plugins prefer", given, "--measured"))
        work = import_module("netcl_plugin_tools.settings.preferring")
        if measured:
            ctx.exit(work.choose_measured(op, as_json=as_json, **call))
        ctx.exit(work.forget(op, as_json) if forget else work.choose(op, choice, as_json))
