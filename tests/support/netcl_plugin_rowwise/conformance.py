"""What the kernels are tried with: those calls of the ops that they serve."""

from __future__ import annotations

from typing import Any

from netcl_plugin_kit.testing import Case, indices, normal

import netcl_core.autograd as ag

X = normal()


def norm(x: Any, weight: Any, bias: Any) -> Any:
    """layer_norm of planes."""
    return ag.layer_norm(x, (6, 5), weight, bias)


CASES = {
    "layer_norm": [
        Case(
            "layer_norm",
            (X, X, X),
            lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (6, 5), w, b),
            call=norm,
            shapes=[[(4, 6, 5), (6, 5), (6, 5)], [(6, 5)] * 3, [(2, 1, 3, 6, 5), (6, 5), (6, 5)]],
        )
    ],
    "cross_entropy": [
        Case(
            "cross_entropy",
            (X, indices(7)),
            "nn.functional.cross_entropy",
            attrs={"reduction": reduction},
            shapes=[[(5, 7), (5,)], [(1, 7), (1,)], [(300, 7), (300,)]],
        )
        for reduction in ("mean", "sum")
    ],
}
