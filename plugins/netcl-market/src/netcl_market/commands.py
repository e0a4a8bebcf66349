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


def complete_plugin(ctx: Any, param: Any, begun: str) -> list[str]:
    """For the shell: the installed plugins whose names begin so."""
    names: list[str] = _run("plugin_names", begun)
    return names


def complete_op(ctx: Any, param: Any, begun: str) -> list[str]:
    """For the shell: the ops whose names begin so."""
    names: list[str] = _run("op_names", begun)
    return names


@click.command("list")
@_json
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List installed plugins and their states.

    No plugin is imported. Exit code 1: one of them does not work.
    """
    ctx.exit(_run("show_list", as_json))


@click.command()
@click.argument("name", shell_complete=complete_plugin)
@click.option(
    "--traceback", "with_traceback", is_flag=True, help="Show the traceback of its failure."
)
@_json
@click.pass_context
def info(ctx: click.Context, name: str, with_traceback: bool, as_json: bool) -> None:
    """Show a plugin: what it brings, its state, and why.

    NAME is a plugin or a distribution. No plugin is imported. Exit code 1: it does not work. 2: it
    is not installed.
    """
    ctx.exit(_run("show_info", name, with_traceback, as_json))


@click.command()
@click.argument("word")
@click.option(
    "--catalogue",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Search this catalogue.json of `netcl catalogue build` instead.",
)
@_json
@click.pass_context
def search(ctx: click.Context, word: str, catalogue: Path | None, as_json: bool) -> None:
    """Search installed plugins and the built-in catalogue for WORD.

    No network is used. Exit code 1: nothing was found.
    """
    ctx.exit(_run("show_search", word, catalogue, as_json))


@click.command()
@_json
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Report runtimes, devices, cache and settings, and problems.

    Exit code 1: problems were found. 3: no OpenCL device is usable.
    """
    ctx.exit(importlib.import_module("netcl_market.doctor").show_doctor(as_json))


#: Each with its group; empty: a command of `netcl` itself.
COMMANDS: Final[tuple[tuple[str, click.Command], ...]] = (
    ("", doctor),
    *(("plugins", command) for command in (list_, info, search)),
)
