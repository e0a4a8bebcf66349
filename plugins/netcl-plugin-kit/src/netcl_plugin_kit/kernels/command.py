"""The commands `netcl kernels list` and `show`: their options."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import usage_ends

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


@click.group()
def kernels() -> None:
    """Look at the kernels that ops run."""


@kernels.command()
@click.argument("op")
@click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")
@click.option("--device", help="As NETCL_DEVICE; 'numpy' shows the NumPy function.")
@click.option("--backward", is_flag=True, help="The gradients instead of the value.")
@click.option("--shape", help="The shape of every input, such as 64x32.  [default: 1024]")
@click.option("--shapes", help="A shape for each input, such as 4x1,1x8 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute.")
@_json
@click.pass_context
def show(ctx: click.Context, /, **options: Any) -> None:
    """Print the source of OP as it is rendered for a device, a dtype and shapes.

    Structured ops say which implementation is used and why; without --shapes they are called as
    in one of their conformance cases.
    """
    with usage_ends(ctx):
        import_module("netcl_plugin_kit.kernels.showing").show(**options)


@kernels.command("list")
@click.argument("name", required=False)
@_json
@click.pass_context
def list_(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """List which kernels plugins offer for each op, for the op NAME, or those of a plugin.

    Of a plugin the files of its templates, too. `netcl kernels show OP` prints one of an op.
    """
    ctx.exit(import_module("netcl_plugin_kit.kernels.listing").show(name, as_json))
