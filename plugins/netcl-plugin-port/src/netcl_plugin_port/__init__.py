"""The plugin port: PyTorch's further names, and the command `netcl port`.

The modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_core import hookimpl


class PortPlugin:
    """Registers the namespaces and the command."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        for name in ("port", "cuda", "accelerator", "backends", "fx"):
            registry.add(name, f"netcl_plugin_port.{name}")

    @hookimpl
    def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
        from netcl_plugin_port.command import port  # registering loads no command line

        add_command(port)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "names of PyTorch's; the programs in tests/programs use them"


plugin = PortPlugin()
