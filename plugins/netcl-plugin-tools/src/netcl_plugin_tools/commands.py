"""The commands of the tools: their options. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
from netcl_market.commands import complete_op, complete_plugin

from netcl_core.cli import complain, usage_ends
from netcl_core.errors import ArgumentError, FusionError, ReplayError, message
from netcl_plugin_tools.market.command import market
from netcl_plugin_tools.matrix.command import matrix

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_dtype = click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")
_shapes = click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")


#: What may be removed; `programs` alone is made again by whoever needs it.
REMOVABLE = ("programs", "tuning", "speed")


@click.command()
@click.option(
    "--empty",
    type=click.Choice([*REMOVABLE, "all"]),
    is_flag=False,
    flag_value=REMOVABLE[0],
    help="Remove built programs, or this.",
)
@_json
@click.pass_context
def cache(ctx: click.Context, empty: str | None, as_json: bool) -> None:
    """Show or empty the cache folder.

    Other processes may keep running; they build again what they need. `tuning` and `speed` are
    measurements, which are not repeated by themselves.
    """
    kinds = REMOVABLE if empty == "all" else tuple(filter(None, [empty]))
    ctx.exit(import_module("netcl_plugin_tools.cache.folder").show(kinds, as_json))


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def catalogue() -> None:
    """Make pages and a package index of a folder of wheels."""


@catalogue.command()
@click.option("--wheels", type=_FOLDER, required=True, help="The folder of wheels, at any depth.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write; an earlier catalogue there is replaced.",
)
@click.option("--records", type=_FOLDER, help="The folder of records: checks and matrix cells.")
@click.option("--url", default="", help="The address where it will be published.")
@click.option(
    "--title", default="netcl catalogue", show_default=True, help="The heading of its pages."
)
@click.option(
    "--owners",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take only wheels and records that keys in this file signed.",
)
@click.option(
    "--other",
    "others",
    multiple=True,
    help="Also index this distribution, which is no plugin; repeatable.",
)
@_json
@click.pass_context
def build(ctx: click.Context, /, **options: Any) -> None:
    """Write a static site and a package index.

    Wheels are read as zip files and never imported. Exit code 1: a wheel or a record was refused;
    the catalogue is written without it.
    """
    work = import_module("netcl_plugin_tools.catalogue.build")  # Jinja, Pygments, Markdown
    ctx.exit(work.run(**options))


@click.command()
@click.argument("target", metavar="FILE:FUNC")
@_shapes
@_dtype
@click.option("--device", help="A device, such as opencl:0.")
@click.option(
    "--recorded", is_flag=True, help="Show the ops that one call records for its gradients."
)
@click.option("--times", is_flag=True, help="Time each kernel, and the same ops one by one.")
@click.option("--svg", metavar="OUT.svg", help="Draw the graph into this file.")
@click.option("--dot", "as_dot", is_flag=True, help="Print the graph in Graphviz' language.")
@_json
@click.pass_context
def graph(ctx: click.Context, /, **options: Any) -> None:
    """Show or time the kernels that a compiled function runs.

    --recorded calls the function without the JIT and shows the graph for its gradients. With
    --times, arrays and inputs of --shapes get gradients. Without --shapes the inputs come from
    example_inputs() in the file: a list, or a dict by name. Exit code 1: the function raises or
    cannot be traced.
    """
    if options["as_dot"] and options["as_json"]:
        raise click.UsageError("--dot and --json: each is the whole of stdout", ctx)
    showing = import_module("netcl_plugin_tools.graph.graph_output")
    try:
        with usage_ends(ctx):
            showing.show(**options)
    except FusionError as error:
        complain(error)
        ctx.exit(1)


@click.command()
@click.argument("target", metavar="FILE:FUNC")
@_shapes
@_dtype
@click.option("--device", help="A device, such as opencl:0.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder: kernels, weights, and programs in Python and C that run them.",
)
@click.option(
    "--onnx", type=click.Path(dir_okay=False, path_type=Path), help="A file for ONNX runtimes."
)
@_json
@click.pass_context
def export(ctx: click.Context, /, target: str, **options: Any) -> None:
    """Write a model that runs without netcl.

    FUNC is a function or a Module of the file. Without --shapes the inputs come from
    example_inputs() in the file; all shapes are fixed. Exit code 1: something in it cannot be
    exported.
    """
    try:
        with usage_ends(ctx):
            import_module("netcl_plugin_tools.export.run_export").run(target, **options)
    except (FusionError, ReplayError) as error:
        complain(error)
        ctx.exit(1)


@click.command()
@click.argument("target", metavar="[OP|FILE:FUNC]", default="")
@_shapes
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@_dtype
@click.option("--device", help="A device, such as opencl:0.")
@click.option("--budget", default=60.0, show_default=True, help="Seconds to spend in all.")
@click.option("--backward", is_flag=True, help="Also tune the gradients of FUNC.")
@click.option("--again", is_flag=True, help="Measure again what you measured before.")
@click.option("--forget", is_flag=True, help="Only remove your records, for OP or all.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.json",
    help="Only write your records, for OP or all, to ship with a plugin.",
)
@_json
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Find the fastest kernel settings for this device.

    Give an op, or a function to tune every kernel that it runs. Without a target every op with
    settings is tuned. Without --shapes an op runs with its conformance cases, and a function with
    example_inputs() in its file. Results are recorded and used from now on; Ctrl-C keeps those
    that are finished.

    Exit code 1: nothing has settings.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.tune.tuning").run(**options))


@click.command()
@click.option("--check", is_flag=True, help="Compare instead of writing.")
@click.option("--out", metavar="FILE", help="The lock file.  [default: the one in force here]")
@click.option("--device", "devices", multiple=True, help="A device; repeatable.  [default: all]")
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Whether the file makes differences an error.  [default: as before]",
)
@click.option(
    "--owners",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A market's owners file: also pin the key that signed each plugin.",
)
@click.option(
    "--signatures", type=_FOLDER, help="The folder of envelopes.  [default: beside the owners file]"
)
@_json
@click.pass_context
def lock(ctx: click.Context, /, **options: Any) -> None:
    """Pin installed plugins, choices and kernels in netcl.lock.

    With --check, compare instead. Exit code of --check: 0 no difference, 1 differences, 3 no lock
    file. A file that is no lock, or comes from a newer netcl, is never overwritten: exit code 3.
    """
    ctx.exit(import_module("netcl_plugin_tools.lock.run").run(**options))


@click.command()
@click.argument("name", shell_complete=complete_plugin)
@_json
@click.pass_context
def enable(ctx: click.Context, name: str, as_json: bool) -> None:
    """Load the plugin NAME again.

    This changes the settings file in force here.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.settings.switching").run(name, True, as_json))


@click.command()
@click.argument("name", shell_complete=complete_plugin)
@_json
@click.pass_context
def disable(ctx: click.Context, name: str, as_json: bool) -> None:
    """Stop loading the plugin NAME.

    This changes the settings file in force here. NAME is a distribution, with or without
    `netcl-plugin-`, a plugin, or both with a colon between.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.settings.switching").run(name, False, as_json))


@click.command()
@click.argument("op", shell_complete=complete_op)
@click.argument("choice", required=False)
@click.option("--measured", is_flag=True, help="Choose the fastest on this machine.")
@click.option("--forget", is_flag=True, help="Undo an earlier choice.")
@click.option("--shapes", help="Shapes to measure with, such as 32x784,784x10.")
@click.option(
    "--attr",
    "attrs",
    multiple=True,
    metavar="NAME=VALUE",
    help="An attribute of OP, with --shapes.",
)
@click.option(
    "--dtype", default="float32", show_default=True, help="The inputs' dtype, with --measured."
)
@click.option("--device", help="A device, such as opencl:0, with --measured.")
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
    """Choose which plugin or implementation computes OP.

    This changes the settings file in force here, and netcl.lock. `netcl plugins why OP` lists the
    choices. --measured times all candidates as `netcl plugins bench OP` and takes the fastest; a
    gain of 5 % or less changes nothing.
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


#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", cache),
    ("", catalogue),
    ("", export),
    ("", graph),
    ("", market),
    ("", matrix),
    ("", tune),
    ("plugins", disable),
    ("plugins", enable),
    ("plugins", lock),
    ("plugins", prefer),
)
