"""The commands `netcl matrix run`, `report` and `workflow`; the work is imported to run."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from netcl_core.cli import print_json

# Resolved, since child processes work in folders of their own.
_FOLDER: Final = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
_TARGET: Final = click.Path(file_okay=False, path_type=Path)
_RUNTIMES: Final = ("intel", "pocl", "pocl-wheel", "oclgrind", "gpu", "numpy")
_USUAL: Final = ("intel", "pocl", "oclgrind", "gpu", "numpy")
_level: Final = click.option("--level", type=click.Choice(("static", "run", "full")), default="run",
                             show_default=True, help="As in `netcl plugins check`.")  # fmt: skip
_json: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def _part(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """`2/4`, the second of four parts, as (2, 4)."""
    first, _, second = value.partition("/")
    number, count = (int(version) if version.isdecimal() else 0 for version in (first, second))
    if not 1 <= number <= count:
        raise click.BadParameter(f"{value!r} is no part such as 2/4, the second of four")
    return number, count


def _versions(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    for value in values:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", value):
            raise click.BadParameter(f"{value!r} is no version such as 3.12")
    return values


@click.group()
def matrix() -> None:
    """Check plugins with several cores, Pythons and runtimes."""


@matrix.command()
@click.option("--cores", type=_FOLDER, required=True, help="Wheels of netcl-core.")
@click.option(
    "--plugins",
    type=_FOLDER,
    required=True,
    help="Wheels of plugins, and of the plugins that they need.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PLUGIN",
    help="Check only this plugin; repeatable.",
)
@click.option(
    "--records", type=_TARGET, required=True, help="The folder where each cell leaves a file."
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    default=(f"{sys.version_info.major}.{sys.version_info.minor}",),
    show_default=True,
    help="A version or a path; repeatable.",
)
@click.option(
    "--runtime",
    "runtimes",
    type=click.Choice(_RUNTIMES),
    multiple=True,
    default=_USUAL,
    show_default=True,
    help="An OpenCL runtime; repeatable.",
)
@_level
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=max(1, (os.cpu_count() or 1) // 2),
    show_default="half of the processors",
    help="Cells at a time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(1),
    default=1800,
    show_default=True,
    help="Seconds per check.",
)
@click.option(
    "--rerun",
    type=click.Choice(("fail", "setup_error", "all")),
    multiple=True,
    help="Run cells again whose record has this state; repeatable.",
)
@click.option(
    "--shard",
    callback=_part,
    metavar="I/N",
    default="1/1",
    show_default=True,
    help="Run the I-th of N parts.",
)
@click.option(
    "--find-links",
    type=_FOLDER,
    multiple=True,
    help="A folder with third-party wheels; repeatable.",
)
@click.option(
    "--download/--offline",
    default=False,
    show_default="--offline",
    help="Whether uv may fetch missing third-party wheels.",
)
@click.option("--index-url", default="", help="The index to fetch from, with --download.")
@_json
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> None:
    """Check every plugin with every core, Python and runtime.

    Each combination is a cell with an environment of its own. A cell with a record of the same
    wheels, Python, driver and level is not run again. Exit code 1: a cell failed. 3: no cell could
    be run.
    """
    if options["index_url"] and not options["download"]:
        raise click.UsageError("--index-url needs --download: nothing else uses the network", ctx)
    work = import_module("netcl_plugin_tools.matrix.run")
    ctx.exit(work.run(work.MatrixOptions(**options)))


@matrix.command()
@click.option(
    "--records",
    type=_FOLDER,
    required=True,
    multiple=True,
    help="A folder that `netcl matrix run` wrote; repeatable.",
)
@click.option("--out", type=_TARGET, required=True, help="The folder to write.")
@_json
@click.pass_context
def report(ctx: click.Context, records: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Write a board of the records.

    It has pages, JUnit XML, badges and Markdown. The latest record of a cell counts. Exit code 1: a
    cell failed.
    """
    work = import_module("netcl_plugin_tools.matrix.report")
    ctx.exit(work.run(records, out, as_json))


@matrix.command()
@click.option("--core", "cores", multiple=True, required=True, metavar="VERSION",
              callback=_versions, help="A released netcl-core; repeatable.")  # fmt: skip
@click.option(
    "--python",
    "pythons",
    multiple=True,
    callback=_versions,
    default=("3.11", "3.12", "3.13"),
    show_default=True,
    help="A version; repeatable.",
)
@click.option(
    "--runtime",
    "runtimes",
    type=click.Choice([runtime for runtime in _RUNTIMES if runtime != "gpu"]),
    multiple=True,
    default=("intel", "pocl", "numpy"),
    show_default=True,
    help="An OpenCL runtime; repeatable.",
)
@_level
@click.option("--shards", type=click.IntRange(1, 64), default=4, show_default=True,
              help="How many machines share the cells.")  # fmt: skip
@click.option("--project", default=".", show_default=True, help="Where the plugin's project is.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="The file to write; default: print it.")  # fmt: skip
@_json
def workflow(*, out: Path | None, as_json: bool, **options: Any) -> None:
    """Write a GitHub workflow that runs the matrix of a plugin.

    Several machines check a part of the cells each; the last job makes the board of all records.
    """
    text = import_module("netcl_plugin_tools.matrix.pages").workflow(**options)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"out": out and str(out), "text": text})
    else:
        click.echo(text if out is None else f"wrote: {out}", nl=out is not None)
