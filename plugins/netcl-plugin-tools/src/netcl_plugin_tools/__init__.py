"""Tools of maintainers: the commands of `commands.py`, and tuning on first use.

All are imported on first use, the commands with the command line.
`tape_svg` is for programs and notebooks; it is fetched on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from netcl_core import hookimpl

if TYPE_CHECKING:
    from netcl_plugin_tools.graph.tape_svg import tape_svg

__all__ = ["plugin", "tape_svg"]


class ToolsPlugin:
    """Adds the commands, what measures settings on first use, and what draws tapes."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("tapes", "netcl_plugin_tools.graph.tape_svg")
        registry.add("tuning", "netcl_plugin_tools.tune.first_use")
        registry.add("profiler", "netcl_plugin_tools.profiler")
        registry.add("serving", "netcl_plugin_tools.export")

    @hookimpl
    def netcl_doctor(self) -> Any:
        from netcl_plugin_tools.tune.records import doctor_rows  # not needed by other commands

        return [*doctor_rows()]

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> str:
        return "it computes nothing"

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[..., None]) -> None:
        from netcl_plugin_tools import commands  # not needed by programs that only train

        for group, command in commands.COMMANDS:
            add_command(command, group=group)


plugin = ToolsPlugin()


def __getattr__(name: str) -> Any:
    if name != "tape_svg":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from netcl_plugin_tools.graph.tape_svg import tape_svg  # the plugin's import is to be cheap

    return tape_svg
