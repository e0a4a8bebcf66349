"""The commands of the tools: their options. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from netcl_core.cli import complain, usage_ends
from netcl_core.errors import ArgumentError, FusionError, message
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
    help="Remove built programs, or what is named.",
)
@_json
@click.pass_context
def cache(ctx: click.Context, empty: str | None, as_json: bool) -> None:
    """Show the cache folder: what lies there, how much, and the bound; or make it empty.

    Other processes may go on: what they miss they make again. `tuning` and `speed` are
    measurements, which nobody makes again by himself.
    """
    kinds = REMOVABLE if empty == "all" else tuple(filter(None, [empty]))
    ctx.exit(import_module("netcl_plugin_tools.cache.folder").show(kinds, as_json))


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def catalogue() -> None:
    """The market as a folder of files: pages to read, and an index that pip installs from."""


@catalogue.command()
@click.option("--wheels", type=_FOLDER, required=True, help="Where the wheels lie, at any depth.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write; an earlier catalogue there is replaced.",
)
@click.option("--records", type=_FOLDER, help="Where records of checks and matrix cells lie.")
@click.option("--url", default="", help="Where it will be published, for commands and the feed.")
@click.option("--title", default="netcl catalogue", show_default=True)
@click.option(
    "--owners",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Only wheels and records that its keys have signed.",
)
@click.option("--other", "others", multiple=True, help="A distribution that is no plugin.")
@_json
@click.pass_context
def build(
    ctx: click.Context,
    wheels: Path,
    out: Path,
    records: Path | None,
    url: str,
    title: str,
    owners: Path | None,
    others: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a static site and a package index of all wheels in a folder.

    Wheels are read as zip files; nothing of them is imported. Exit code 1 when a wheel or
    a record was refused: the catalogue is written without it and says so.
    """
    work = import_module("netcl_plugin_tools.catalogue.build")  # Jinja, Pygments, Markdown
    ctx.exit(work.run(wheels, out, records, url, title, as_json, owners, others))


@click.command()
@click.argument("target", metavar="FILE:FUNC")
@_shapes
@_dtype
@click.option("--device", help="As NETCL_DEVICE.")
@click.option(
    "--recorded", is_flag=True, help="Show the ops that one call records for its gradients."
)
@click.option("--times", is_flag=True, help="Time each kernel, and the same ops one by one.")
@click.option("--svg", metavar="OUT.svg", help="Draw the graph into this file.")
@click.option("--dot", "as_dot", is_flag=True, help="Print the graph in Graphviz' language.")
@_json
@click.pass_context
def graph(ctx: click.Context, /, **options: Any) -> None:
    """Show the kernels that a function of ops becomes under jit_compile.

    With --recorded it is called as it is, and shown is the graph that a backward pass goes
    through. With --times floating inputs take gradients. Without --shapes the inputs are what
    example_inputs() of the file returns: a list, or a dict by name. Exit code 1 when the
    function raises or cannot be traced.
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
@click.argument("target", metavar="[OP|FILE:FUNC]", default="")
@_shapes
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@_dtype
@click.option("--device", help="As NETCL_DEVICE.")
@click.option("--budget", default=60.0, show_default=True, help="For how many seconds, in all.")
@click.option("--backward", is_flag=True, help="The gradients of what FUNC returns, too.")
@click.option("--again", is_flag=True, help="Measure what has a record of yours, too.")
@click.option("--forget", is_flag=True, help="Remove your records, of OP or all; measure nothing.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.json",
    help="Write your records, of OP or all, as a plugin ships them; measure nothing.",
)
@_json
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Measure which settings of OP's kernels, or of those that FUNC runs, are the fastest here.

    Without --shapes OP is run with its conformance cases, and FUNC with what example_inputs() of
    the file returns. Without a target: every op that has settings. What is found is recorded for
    this device and counts from now on; Ctrl-C keeps what was measured.

    Exit code 1 when nothing of it has settings.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.tune.tuning").run(**options))


@click.command()
@click.option("--check", is_flag=True, help="Compare instead of writing.")
@click.option("--out", metavar="FILE", help="The lock file.  [default: the one that holds here]")
@click.option("--device", "devices", multiple=True, help="As NETCL_DEVICE.  [default: all]")
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Whether the file itself asks to be held strictly.  [default: as before]",
)
@click.option(
    "--owners",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A market's owners file: name the key by which each plugin was signed.",
)
@click.option(
    "--signatures", type=_FOLDER, help="Where the envelopes lie.  [default: beside the owners file]"
)
@_json
@click.pass_context
def lock(ctx: click.Context, /, **options: Any) -> None:
    """Write what is installed, chosen and rendered here into netcl.lock, or check it.

    Exit code of --check: 0 it fits, 1 it differs, 3 there is no lock file. A file that is no
    lock, or one of a newer netcl, is never overwritten: exit code 3.
    """
    ctx.exit(import_module("netcl_plugin_tools.lock.run").run(**options))


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


#: (the group of `netcl` that a command belongs to, the command)
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", cache),
    ("", catalogue),
    ("", graph),
    ("", market),
    ("", matrix),
    ("", tune),
    ("plugins", disable),
    ("plugins", enable),
    ("plugins", lock),
    ("plugins", prefer),
)
