"""The commands of the market. What a command does is imported when it runs.

Exit codes: 0 ok, 1 findings, 2 usage, 3 the environment.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Final

import click

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


def _run(function: str, *arguments: Any) -> Any:
    """Call a function of `listing`, imported only now."""
    return getattr(importlib.import_module("netcl_market.listing"), function)(*arguments)


@click.command("list")
@_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List the installed plugins with their states; imports none of them.

    Exit code 1 when one of them does not work.
    """
    ctx.exit(_run("show_list", as_json))


@click.command()
@click.argument("name")
@click.option("--traceback", "with_traceback", is_flag=True, help="Show where it failed.")
@_json
@click.pass_context
def info(ctx: click.Context, name: str, with_traceback: bool, as_json: bool) -> None:
    """Show all that is known of a plugin NAME, or of a distribution's plugins; imports none.

    Exit code 1 when it does not work, 2 when it is not installed.
    """
    ctx.exit(_run("show_info", name, with_traceback, as_json))


@click.command()
@click.argument("word")
@click.option(
    "--catalogue",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A catalogue.json that `netcl catalogue build` wrote, instead of this version's own.",
)
@_json
@click.pass_context
def search(ctx: click.Context, word: str, catalogue: Path | None, as_json: bool) -> None:
    """Look for WORD in what is installed and the catalogue of this version; no network.

    Exit code 1 when there is nothing.
    """
    ctx.exit(_run("show_search", word, catalogue, as_json))


#: Below `netcl plugins`.
COMMANDS: Final[tuple[click.Command, ...]] = (list_, info, search)
