"""The market as a plugin: what it adds to the command line."""

from __future__ import annotations

from collections.abc import Callable

from netcl_core import hookimpl


class MarketPlugin:
    """Adds the commands `netcl doctor`, `netcl plugins list`, `info` and `search`."""

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> str:
        return "it computes nothing"

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[..., None]) -> None:
        from netcl_market import commands  # not needed by programs that only train

        for group, command in commands.COMMANDS:
            add_command(command, group=group)


plugin = MarketPlugin()
