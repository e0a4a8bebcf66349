"""The plugin train: the command `netcl train` and the namespace `netcl_core.models`.

Both are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_core import hookimpl


class TrainPlugin:
    """Adds the command and the namespace, and says how that is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("models", "netcl_plugin_train.models")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_train import conformance  # not needed by programs that only train

        return conformance.SCENARIOS

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
        from netcl_plugin_train.command import train  # not needed by programs that only train

        add_command(train)


plugin = TrainPlugin()
