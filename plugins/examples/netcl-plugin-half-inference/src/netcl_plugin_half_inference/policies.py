"""The amp policy half_inference: nearly everything in float16, for forward passes.

Activations are stored in float16 whatever made them, so that a chain of ops moves half the memory.
What leaves float16's range on the way stays in float32.
"""

from __future__ import annotations

from netcl_plugin_amp import AmpPolicy

#: Exponentials, powers and what divides by small numbers: 65,504 is the largest float16. Choices
#: among values too, of which rounding makes equal ones.
FLOAT32 = (
    "topk", "sort", "argsort", "multinomial",
    "exp", "expm1", "pow", "square", "reciprocal", "rsqrt", "log", "log1p", "log2",
    "sum", "prod", "cumsum", "var", "std", "logsumexp", "l2_normalize", "cross_entropy", "nll_loss",
)  # fmt: skip

POLICY = AmpPolicy(
    name="half_inference",
    storage="float16",
    ops=dict.fromkeys(FLOAT32, "keep"),
    default="allow",
    forbids=FLOAT32[:-3],
    tolerance=2e-2,
    doc="Nearly everything in float16, for forward passes.",
)
