"""The plugin capture: hands out `netcl_core.capture`, which is imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class CapturePlugin:
    """Registers the namespace of `ag.CompiledGraph` and `ag.capture`."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("capture", "netcl_plugin_capture.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "it replays what ops of others ask of a device, and has none of its own"


plugin = CapturePlugin()
