"""The kit of kernel authors: the commands of `commands.py`, and three namespaces.

All are imported on first use, the commands with the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_core import hookimpl

__all__ = ["plugin"]


class KitPlugin:
    """Adds the commands, and what checks ops and gradients on first use."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("conformance", "netcl_plugin_kit.testing")
        registry.add("decisions", "netcl_plugin_kit.why.decisions")
        registry.add("numerics", "netcl_plugin_kit.numerics.checking")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> str:
        return "it computes nothing"

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[..., None]) -> None:
        from netcl_plugin_kit import commands  # not needed by programs that only train

        for group, command in commands.COMMANDS:
            add_command(command, group=group)


plugin = KitPlugin()
