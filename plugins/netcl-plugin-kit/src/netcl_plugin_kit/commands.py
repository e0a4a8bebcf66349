"""The commands of the kit: their options. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click
from netcl_market.commands import complete_op

from netcl_core.cli import usage_ends
from netcl_plugin_kit.new.command import new

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
_dtype = click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")


@click.group()
def kernels() -> None:
    """List ops' kernels, and show their source."""


@kernels.command()
@click.argument("op", shell_complete=complete_op)
@_dtype
@click.option("--device", help="A device, such as opencl:0; 'numpy' shows the NumPy function.")
@click.option("--backward", is_flag=True, help="Show the gradients instead of the value.")
@click.option("--shape", help="The shape of every input, such as 64x32.  [default: 1024]")
@click.option("--shapes", help="A shape for each input, such as 4x1,1x8 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute.")
@_json
@click.pass_context
def show(ctx: click.Context, /, **options: Any) -> None:
    """Print the kernel source that OP runs on a device.

    For a structured op it also says which implementation is used, and why. Without --shapes such
    an op is called as in one of its conformance cases.
    """
    with usage_ends(ctx):
        import_module("netcl_plugin_kit.kernels.showing").show(**options)


@kernels.command("list")
@click.argument("name", required=False, shell_complete=complete_op)
@_json
@click.pass_context
def list_(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """List the kernels of all ops, of an op, or of a plugin.

    For a plugin, the files of its templates are listed too.
    """
    ctx.exit(import_module("netcl_plugin_kit.kernels.listing").show(name, as_json))


@click.command()
@click.argument("op", shell_complete=complete_op)
@click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@_dtype
@click.option("--device", help="A device, such as opencl:0.")
@_json
@click.pass_context
def bench(ctx: click.Context, /, **options: Any) -> None:
    """Time all implementations of OP on this machine.

    They run in turn. Without --shapes OP is called as in its conformance cases, with the largest
    shapes of each. A ratio is the time divided by that of the implementation in use. `netcl plugins
    why OP` shows these measurements later. Exit code 1: nothing can compute OP here.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_kit.speed.comparing").show(**options))


@click.command()
@click.argument("targets", metavar="[NAME|PATH]...", nargs=-1)
@click.option(
    "--level",
    type=click.Choice(["static", "run", "full"]),
    help="How much; each level includes the earlier ones.  [default: run, or what --only needs]",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="D",
    help="A device, such as opencl:0; repeatable.  [default: all usable]",
)
@click.option("--only", multiple=True, metavar="CHECK", help="Make only this check; repeatable.")
@click.option(
    "--against",
    type=click.Choice(["torch"]),
    help="Run PyTorch's own samples of the operators that have the names of the plugin's ops, too.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a check that is silent for so long.  [default: 120]",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Check so many side by side. Speed is measured when nothing else runs.",
)
@click.option(
    "--out",
    metavar="PLACE",
    help="Also write the record as JSON into this new file, or a file for each into this folder.",
)
@_json
@click.pass_context
def check(ctx: click.Context, /, **options: Any) -> None:
    """Check installed plugins, project folders or wheels.

    Without NAME or PATH all installed plugins are checked. Exit code 1: something failed. 2: there
    is nothing to check. 3: a tool that the check needs is missing.
    """
    showing = import_module("netcl_plugin_kit.check.check_output")
    with usage_ends(ctx):
        ctx.exit(showing.show_check(**options))


@click.command()
@click.argument("op", shell_complete=complete_op)
@click.option("--device", help="A device, such as opencl:0.  [default: the default device]")
@_dtype
@click.option("--shapes", help="A shape for each input, to decide for these and show settings.")
@click.option(
    "--attr",
    "attrs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An attribute of OP, with --shapes.",
)
@_json
@click.pass_context
def why(ctx: click.Context, /, **options: Any) -> None:
    """Show which plugin computes OP, and why.

    It lists all candidates with the rule that decided, and with the speed that `netcl plugins
    bench` or a full check last measured here. OP may also be a training pattern, an amp policy, a
    namespace or a command.

    Exit code 1: nothing computes it.
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
