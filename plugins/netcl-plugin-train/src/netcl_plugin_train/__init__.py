"""The plugin train: adds the command `netcl train`; click is imported with the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_core import hookimpl


class TrainPlugin:
    """Adds the command."""

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
        from netcl_plugin_train.command import train  # not needed by programs that only train

        add_command(train)


plugin = TrainPlugin()
