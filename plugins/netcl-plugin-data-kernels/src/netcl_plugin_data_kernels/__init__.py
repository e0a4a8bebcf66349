"""Kernels as data: ops that a manifest defines by its tables and templates, without any code."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl

__all__ = ["plugin"]


class DataKernelsPlugin:
    """Registers the namespace that the core asks for the hooks of a plugin that is data."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("data_kernels", "netcl_plugin_data_kernels.hooks")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> str:
        return "it computes nothing: plugins that are data bring the cases of their ops"


plugin = DataKernelsPlugin()
