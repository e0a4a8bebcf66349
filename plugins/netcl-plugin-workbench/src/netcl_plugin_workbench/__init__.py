"""The plugin workbench: adds the commands of `commands.py`, imported with the command line."""

from __future__ import annotations

from collections.abc import Callable

from netcl_core import hookimpl


class WorkbenchPlugin:
    """Adds the commands."""

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[..., None]) -> None:
        from netcl_plugin_workbench import commands  # not needed by programs that only train

        for group, command in commands.COMMANDS:
            add_command(command, group=group)


plugin = WorkbenchPlugin()
