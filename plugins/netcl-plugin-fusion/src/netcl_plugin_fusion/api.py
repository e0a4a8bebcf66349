"""The namespace `fusion`: what the compiler asks for, and what a compiled function tells."""

from __future__ import annotations

from netcl_plugin_fusion.explanation import Lowered, explain, lower, skipped, why_alone
from netcl_plugin_fusion.fused_operator import FusedOperatorCall
from netcl_plugin_fusion.gradient_region import gradient_region, with_gradients
from netcl_plugin_fusion.inline import inlined
from netcl_plugin_fusion.joined_casts import cast_together
from netcl_plugin_fusion.neighbours import FusedOperatorStep, join
from netcl_plugin_fusion.parts import Parts, Timing
from netcl_plugin_fusion.separating import separate

__all__ = [
    "FusedOperatorCall", "FusedOperatorStep", "Lowered", "Parts", "Timing", "cast_together",
    "explain", "gradient_region", "inlined", "join", "lower", "separate", "skipped", "why_alone",
    "with_gradients",
]  # fmt: skip
