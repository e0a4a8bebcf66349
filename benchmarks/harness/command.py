"""The command line of `python benchmarks`. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from netcl_core.cli import usage_ends

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("items", metavar="[ITEM[/TEXT]]...", nargs=-1)
@click.option(
    "--items",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    default=("benchmarks",),
    show_default=True,
    metavar="DIR",
    help="Where the items' files are; may be given several times.",
)
@click.option("--device", metavar="D", help="As NETCL_DEVICE.")
@click.option(
    "--peers", default="", metavar="P,P", help="Only these; ours take part.  [default: all]"
)
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long the rounds of one case take.",
)
@click.option("--json", type=_FILE, metavar="FILE", help="Write the record into this file.")
@click.option("--svg", type=_FILE, metavar="FILE", help="Draw the ratios into this file.")
@click.option(
    "--against",
    type=click.Path(exists=True, path_type=Path),
    metavar="RECORD",
    help="Compare the ratios with a record, or with the last one of this device in a folder.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.25,
    show_default=True,
    help="With --against: how much a ratio may grow.",
)
@click.pass_context
def bench(ctx: click.Context, /, **options: Any) -> None:
    """Time the same work by netcl and by other libraries, in turn, after checking its results.

    An ITEM is a file with a function cases(kind); TEXT picks those of its cases that have it in
    their name. Exit code 1 when ours failed, gave wrong results, or fell behind --against.
    """
    work = import_module("harness.run")
    with usage_ends(ctx):
        ctx.exit(work.run(work.RaceOptions(**options)))
