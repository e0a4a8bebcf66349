"""`netcl market`: the options of its commands. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_owners = click.option("--owners", type=_FILE, required=True, help="The market's owners file.")


@click.group()
def market() -> None:
    """Sign and verify wheels and records."""


@market.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def key(file: Path) -> None:
    """Write a new private key into FILE, and print the public one for the owners file.

    FILE is not encrypted and readable by you alone: keep it where a program that signs can read
    it, and nobody else.
    """
    try:
        click.echo(_work().new_key(file))
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error


@market.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option(
    "--key", "key_file", type=_FILE, required=True, help="As `netcl market key` wrote it."
)
def sign(files: tuple[Path, ...], key_file: Path) -> None:
    """Sign wheels, and records of checks that say which wheel was checked.

    Beside each FILE its envelope is written, FILE.dsse.json. Nothing of a wheel is imported.
    """
    for file in files:
        click.echo(str(_work().sign_file(file, key_file)))


@market.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
@_owners
@_json
@click.pass_context
def verify(ctx: click.Context, files: tuple[Path, ...], owners: Path, as_json: bool) -> None:
    """Say who signed wheels, and records in envelopes (*.dsse.json); 1 if somebody may not.

    A wheel is verified by the envelope beside it and the keys of its name's owners, a record by
    those of the checkers.
    """
    rows = _work().verified(files, owners)
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    for row in [] if as_json else rows:
        click.echo(f"{row['file']}: " + (row["problem"] or f"signed by {row['by']}"))
    ctx.exit(1 if any(row["problem"] for row in rows) else 0)


def _work() -> Any:
    return import_module("netcl_plugin_tools.market.statements")
