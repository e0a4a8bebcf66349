"""Given: a plugin of some records, for tests that bring records of their own."""

from __future__ import annotations

from typing import Any

from netcl_plugin_amp import AmpPolicy

import netcl_core as nc
from netcl_core.autograd import AutogradPrimitive, TrainingPattern


class Given:
    """A plugin of some records; a text is a namespace, what is of no kind goes to the operators."""

    def __init__(self, *records: Any, priority: int = 0) -> None:
        self.records, self.priority = records, priority

    def _add(self, registrar: Any, *types: type) -> None:
        for record in self.records:
            if isinstance(record, types):
                registrar.add(record, self.priority)

    @nc.hookimpl
    def netcl_register_primitives(self, registry: nc.PrimitiveRegistrar) -> None:
        self._add(registry, AutogradPrimitive)

    @nc.hookimpl
    def netcl_register_operators(self, registry: nc.OperatorRegistrar) -> None:
        for record in self.records:
            if not isinstance(record, (AutogradPrimitive, TrainingPattern, AmpPolicy, str)):
                registry.add(record, self.priority)

    @nc.hookimpl
    def netcl_register_patterns(self, registry: nc.PatternRegistrar) -> None:
        self._add(registry, TrainingPattern)

    @nc.hookimpl
    def netcl_register_amp_policies(self, registry: nc.AmpPolicyRegistrar) -> None:
        self._add(registry, AmpPolicy)

    @nc.hookimpl
    def netcl_register_namespaces(self, registry: nc.NamespaceRegistrar) -> None:
        for record in self.records:
            if isinstance(record, str):
                registry.add(record, "json")
