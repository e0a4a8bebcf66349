"""The commands of the kit: their options. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from netcl_core.cli import usage_ends
from netcl_plugin_kit.new.command import new

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
_dtype = click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")


@click.group()
def kernels() -> None:
    """Look at the kernels that ops run."""


@kernels.command()
@click.argument("op")
@_dtype
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


@click.command()
@click.argument("op")
@click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@_dtype
@click.option("--device", help="As NETCL_DEVICE.")
@_json
@click.pass_context
def bench(ctx: click.Context, /, **options: Any) -> None:
    """Time all that could compute OP on this machine, in turn, in one run.

    Without --shapes OP is called as in its conformance cases, with the largest shapes of each. A
    ratio is to the one that serves by the rules. What was measured is kept: `netcl plugins why OP`
    shows it. Exit code 1 when nothing can compute it here.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_kit.speed.comparing").show(**options))


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
    "--against",
    type=click.Choice(["torch"]),
    help="Run PyTorch's own samples of the operators that have the names of the plugin's ops, too.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a check of which nothing is heard for so long.  [default: 120]",
)
@click.option("--out", metavar="FILE", help="Write the record as JSON into this new file, too.")
@_json
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> None:
    """Check an installed plugin, a project folder or a wheel; without one, all installed ones.

    Exit code 1 when something failed, 2 when there is nothing to check, 3 when a tool that
    the check needs is missing.
    """
    showing = import_module("netcl_plugin_kit.check.check_output")
    with usage_ends(ctx):
        ctx.exit(showing.show_check(**options))


@click.command()
@click.argument("op")
@click.option("--device", help="As NETCL_DEVICE; default: the default device.")
@_dtype
@click.option("--shapes", help="A shape for each input: then shapes count, and settings are shown.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="With --shapes.")
@_json
@click.pass_context
def why(ctx: click.Context, /, **options: Any) -> None:
    """Show who could compute OP on a device, who does, the rule that decided, and their speed.

    OP may also be a training pattern, an amp policy, a namespace or a command: then, who offers
    it. The speed is what `netcl plugins bench` or a full check last measured on this machine.

    Exit code 1 when nobody does.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_kit.why.telling").show(**options))


#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", kernels),
    ("plugins", bench),
    ("plugins", check),
    ("plugins", new),
    ("plugins", why),
)
