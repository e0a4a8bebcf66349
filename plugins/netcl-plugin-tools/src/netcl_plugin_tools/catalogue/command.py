"""The command `netcl catalogue build`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

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
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def build(
    ctx: click.Context,
    wheels: Path,
    out: Path,
    records: Path | None,
    url: str,
    title: str,
    as_json: bool,
) -> None:
    """Write a static site and a package index of all wheels in a folder.

    Wheels are read as zip files; nothing of them is imported. Exit code 1 when a wheel or
    a record was refused: the catalogue is written without it and says so.
    """
    work = import_module("netcl_plugin_tools.catalogue.build")  # Jinja, Pygments, Markdown
    ctx.exit(work.run(wheels, out, records, url, title, as_json))
