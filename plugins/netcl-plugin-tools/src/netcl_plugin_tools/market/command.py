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
    """Sign and verify wheels and records; take wheels in, publish and serve them."""


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


_MARKET = click.Path(exists=True, file_okay=False, path_type=Path)
_folder = click.argument("folder", metavar="MARKET", type=_MARKET)


@market.command()
@click.argument("file", type=_FILE)
@click.option("--market", "folder", type=_MARKET, required=True, help="The market's folder.")
@click.option("--key", "key_file", type=_FILE, required=True, help="The key of a checker.")
@click.option(
    "--level",
    type=click.Choice(["static", "run", "full"]),
    default="full",
    show_default=True,
    help="How much of it is checked.",
)
@click.option("--device", "devices", multiple=True, help="As NETCL_DEVICE.  [default: all]")
@click.option("--source", type=_MARKET, help="Its project: it is built twice and compared.")
@click.pass_context
def submit(
    ctx: click.Context,
    file: Path,
    folder: Path,
    key_file: Path,
    level: Any,
    devices: tuple[str, ...],
    source: Path | None,
) -> None:
    """Take the wheel FILE into a market: verify, check in a sandbox, sign the record.

    Exit code 1, and nothing is taken in, when a check fails.
    """
    failed, record = _serving().submit(file, folder, key_file, level, devices, source)
    for text in failed:
        click.echo(f"failed: {text}")
    if record is not None:
        click.echo(f"{file.name} is in {folder}; its record is {record}")
    ctx.exit(1 if failed else 0)


@market.command()
@_folder
@click.option("--url", default="", help="Where it will be, for commands and the feed.")
@click.pass_context
def publish(ctx: click.Context, folder: Path, url: str) -> None:
    """Write the catalogue and the index of MARKET into its folder `site`."""
    ctx.exit(_serving().publish(folder, url))


@market.command()
@_folder
@click.option("--host", default="127.0.0.1", show_default=True, help="Who may ask: this address.")
@click.option("--port", default=8080, show_default=True)
def serve(folder: Path, host: str, port: int) -> None:
    """Publish MARKET and serve it: pip install --index-url http://HOST:PORT/simple/ NAME."""
    work = _serving()
    work.publish(folder, f"http://{host}:{port}")
    work.serve(folder, host, port)


def _serving() -> Any:
    return import_module("netcl_plugin_tools.market.serving")


def _work() -> Any:
    return import_module("netcl_plugin_tools.market.statements")
