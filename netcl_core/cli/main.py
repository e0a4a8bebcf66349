"""The `netcl` command's group: its built-in commands, plugins' commands, and how errors end.

Exit codes: 0 ok, 1 findings, 2 wrong usage, 3 the environment. A command's own
module is imported when the command runs, so `netcl --help` starts fast.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast

import click

from netcl_core.cli.endings import complain, ended_by
from netcl_core.errors import NetclError
from netcl_core.market import market_module
from netcl_core.version import VERSION

#: What has to run where the lock file does not fit.
_WITHOUT_LOCK: Final = ("plugins", "lock")


def _market_commands() -> Sequence[tuple[str, click.Command]]:
    """The market's commands, for which no plugin is loaded, each with its group or ""."""
    module = None
    with contextlib.suppress(Exception):  # a broken one is told when plugins are looked for
        module = market_module("commands")
    return () if module is None else module.COMMANDS


_MARKET: Final = _market_commands()


def plugin_commands() -> dict[str, click.Command]:
    """The commands that installed plugins add; loads the plugins."""
    added = importlib.import_module("netcl_core.plugins.commands")
    commands: dict[str, Any] = added.plugin_commands(taken=_own(netcl))
    return {name: _runnable(name.split()[-1], command) for name, command in commands.items()}


def _runnable(name: str, command: Any) -> click.Command:
    """A plugin's command; for one that nobody has, since several want it, one that says so."""
    if not isinstance(command, NetclError):
        return cast("click.Command", command)

    def fail(words: object) -> None:
        raise command

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    ignoring = {"ignore_unknown_options": True}
    return click.Command(name, ignoring, fail, [words], help=str(command))


def _own(group: click.Group, path: str = "") -> set[str]:
    """The names of the built-in commands, those of a group below both names."""
    names: set[str] = set()
    for name, command in group.commands.items():
        if command in [command for _, command in _MARKET]:
            continue  # it comes as a plugin's, too
        names.add(f"{path} {name}".strip())
        names |= _own(command, f"{path} {name}") if isinstance(command, click.Group) else set()
    return names


class NetclGroup(click.Group):
    """A group that asks the plugins for what it does not know and ends NetclErrors cleanly."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The built-in commands and the plugins'; a broken plugin leaves the built-in ones."""
        own = super().list_commands(ctx)
        try:
            return sorted({*own, *self._added(ctx)})
        except NetclError as error:
            complain(error)
            return own

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A built-in command, else a plugin's."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        unlocked: AbstractContextManager[None] = nullcontext()
        if (*_path(ctx), cmd_name) == _WITHOUT_LOCK:
            unlocked = importlib.import_module("netcl_core.plugins.finder").unlocked()
        with unlocked:
            return self._added(ctx).get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the words name; an unknown one says which package would bring it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            name = " ".join([*_path(ctx), args[0]])
            catalogue = importlib.import_module("netcl_core.plugins.catalogue")
            remedy = catalogue.how_to_get(name, "command")
            if remedy is None:
                raise
            raise click.UsageError(f"{error.message} {remedy}.", ctx) from error

    def _added(self, ctx: click.Context) -> dict[str, click.Command]:
        """What plugins add to this group."""
        inside = _path(ctx)
        split = {tuple(name.split()): command for name, command in plugin_commands().items()}
        return {path[-1]: command for path, command in split.items() if path[:-1] == inside}

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a NetclError becomes its text on stderr and exit code 3, Ctrl-C 130."""
        try:
            return super().invoke(ctx)
        except NetclError as error:
            ctx.exit(ended_by(error))
        except KeyboardInterrupt:  # which is no finding: 1 is what click would make of it
            click.echo("netcl: interrupted", err=True)
            ctx.exit(130)


def _path(ctx: click.Context) -> tuple[str, ...]:
    """The names of the groups below `netcl` that lead to a context's command."""
    if ctx.parent is None:
        return ()
    return (*_path(ctx.parent), ctx.command.name or "")


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")


@click.group(cls=NetclGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="netcl %(version)s")
def netcl() -> None:
    """Train models on OpenCL devices, and install, check and choose plugins with kernels.

    Exit codes: 0 ok, 1 findings, 2 wrong usage, 3 something of the environment is missing.
    """


@netcl.command()
@_json
def devices(as_json: bool) -> None:
    """List devices, the default one, and rejected ones with reasons."""
    importlib.import_module("netcl_core.cli.devices").show_devices(as_json)


@netcl.group(cls=NetclGroup)
def plugins() -> None:
    """List, inspect, choose, write and check plugins."""


for group, command in _MARKET:
    (plugins if group else netcl).add_command(command)


def main() -> None:
    """Run the whole command line."""
    netcl(prog_name="netcl")


if __name__ == "__main__":
    main()
