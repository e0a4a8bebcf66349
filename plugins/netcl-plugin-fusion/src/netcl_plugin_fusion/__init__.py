"""The plugin fusion: what `ag.jit_compile` fuses beyond chains of elementwise ops.

`neighbours` and `fused_operator` move chains into the kernels of structured ops beside them,
`joined_casts` makes one launch of the casts of many weights, `parts` and `part_tracer` fuse what
lies between two places where a function needs data, and `explanation` tells what was fused.
`gradient_region` makes a region of the gradients of another, by the derivatives of its expressions:
for gradients that are differentiated again. `separating` tells results of one kernel apart, of
which one follows from another: for gradients of the one by the other.
"""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class FusionPlugin:
    """Registers the namespace `fusion`, which the compiler asks."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("fusion", "netcl_plugin_fusion.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "a namespace of the compiler; what it fuses is checked with the ops of plugins"


plugin = FusionPlugin()
