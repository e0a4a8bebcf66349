"""`netcl market`: the options of its commands. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click
from netcl_market.tables import print_text

from netcl_core.cli import print_json

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_owners = click.option("--owners", type=_FILE, required=True, help="The market's owners file.")


@click.group()
def market() -> None:
    """Sign wheels, and run a market of your own."""


@market.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_json
def key(file: Path, as_json: bool) -> None:
    """Write a new private key, and print the public one.

    The public key belongs into the owners file. FILE is not encrypted, and readable by you alone:
    keep it away from everybody else. A file that exists is never replaced.
    """
    try:
        public = _work().new_key(file)
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from error
    print_json({"file": str(file), "public": public}) if as_json else click.echo(public)


@market.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
@click.option(
    "--key", "key_file", type=_FILE, required=True, help="A private key of `netcl market key`."
)
@_json
def sign(files: tuple[Path, ...], key_file: Path, as_json: bool) -> None:
    """Sign wheels, or records of checks.

    The signature of each FILE is written beside it, into FILE.dsse.json. Wheels are never imported.
    """
    rows = [
        {"file": str(file), "envelope": str(_work().sign_file(file, key_file))} for file in files
    ]
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        click.echo(row["envelope"])


@market.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
@_owners
@_json
@click.pass_context
def verify(ctx: click.Context, files: tuple[Path, ...], owners: Path, as_json: bool) -> None:
    """Show who signed wheels and records.

    A wheel is verified by the envelope beside it (*.dsse.json) and the keys of its owners, a record
    in an envelope by the keys of the checkers. Exit code 1: a signature is missing or not allowed.
    """
    rows = _work().verified(files, owners)
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        print_text(f"{row['file']}: " + (row["problem"] or f"signed by {row['by']}"))
    ctx.exit(1 if any(row["problem"] for row in rows) else 0)


_MARKET = click.Path(exists=True, file_okay=False, path_type=Path)
_folder = click.argument("folder", metavar="MARKET", type=_MARKET)
_site = click.option(
    "--site",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write them.  [default: MARKET/site]",
)
_url = click.option("--url", default="", help="The address where others will find it.")


@market.command()
@click.argument("file", type=_FILE)
@click.option("--market", "folder", type=_MARKET, required=True, help="The market's folder.")
@click.option(
    "--key",
    "key_file",
    type=_FILE,
    required=True,
    help="A checker's private key, which signs the record.",
)
@click.option(
    "--level",
    type=click.Choice(["static", "run", "full"]),
    default="full",
    show_default=True,
    help="How much to check.",
)
@click.option("--device", "devices", multiple=True, help="A device; repeatable.  [default: all]")
@click.option("--source", type=_MARKET, help="The wheel's project, to build twice and compare.")
@_json
@click.pass_context
def submit(
    ctx: click.Context,
    file: Path,
    folder: Path,
    key_file: Path,
    level: Any,
    devices: tuple[str, ...],
    source: Path | None,
    as_json: bool,
) -> None:
    """Verify and check a wheel, and take it into a market.

    The check runs in a sandbox, and its record is signed. Exit code 1: a check failed, and nothing
    was taken in.
    """
    failed, record = _serving().submit(file, folder, key_file, level, devices, source)
    if as_json:
        taken = None if record is None else str(record)
        print_json({"wheel": file.name, "market": str(folder), "failed": failed, "record": taken})
        ctx.exit(1 if failed else 0)
    for text in failed:
        print_text(f"failed: {text}")
    if record is not None:
        print_text(f"{file.name} is in {folder}; its record is {record}")
    ctx.exit(1 if failed else 0)


@market.command()
@_folder
@_site
@_url
@_json
@click.pass_context
def publish(ctx: click.Context, folder: Path, site: Path | None, url: str, as_json: bool) -> None:
    """Write a market's pages and package index.

    Exit code 1: a file was refused.
    """
    ctx.exit(_serving().publish(folder, site or folder / "site", url, as_json))


@market.command()
@_folder
@_site
@_url
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", default=8080, show_default=True, help="The port to listen on.")
@_json
def serve(folder: Path, site: Path | None, url: str, host: str, port: int, as_json: bool) -> None:
    """Write a market's pages and index, and serve them over http.

    Elsewhere: pip install --index-url http://HOST:PORT/simple/ NAME. Ctrl-C ends it.
    """
    work, site = _serving(), site or folder / "site"
    here = f"http://{host}:{port}"
    work.publish(folder, site, url or ("" if host == "0.0.0.0" else here), as_json)
    if not as_json:
        click.echo(f"serving {folder} at {here}/, until Ctrl-C")
    work.serve(site, host, port)


def _serving() -> Any:
    return import_module("netcl_plugin_tools.market.serving")


def _work() -> Any:
    return import_module("netcl_plugin_tools.market.statements")
