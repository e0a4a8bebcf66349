"""The cases of the detection losses: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import Case, normal, uniform
from netcl_plugin_losses.form_cases import AT_EDGES, BEYOND, TRIPLES, edges, loss

X, P = normal(), uniform(0.05, 0.95)


def reduced(losses: Any, reduction: str) -> Any:
    return losses if reduction == "none" else getattr(losses, reduction)()


def detection_bce(t: Any, pred: Any, target: Any, weight: Any, reduction: str = "mean") -> Any:
    """`weighted_bce` in PyTorch."""
    p = pred.clamp(1e-7, 1 - 1e-7)
    return reduced(-weight * (target * p.log() + (1 - target) * (-p).log1p()), reduction)


def detection_l1(
    t: Any, pred: Any, target: Any, weight: Any, beta: float = 1.0, reduction: str = "mean"
) -> Any:
    """`weighted_smooth_l1` in PyTorch."""
    losses = t.nn.functional.smooth_l1_loss(pred, target, beta=beta, reduction="none")
    return reduced(weight * losses, reduction)


def fused(
    heat_scale: float = 1.0,
    reg_scale: float = 1.0,
    beta: float = 0.05,
    pred: Any = P,
    note: str = "",
) -> Case:
    """The fused detection loss against the sum of its parts; a gradient of pred only."""

    def there(t: Any, pred: Any, target: Any, heat: Any, reg: Any) -> Any:
        parts = (
            heat_scale * detection_bce(t, pred, target, heat, "sum"),
            reg_scale * detection_l1(t, pred, target, reg, beta, "sum"),
        )
        return sum(parts)  # fmt: skip

    attrs = {"heat_scale": heat_scale, "reg_scale": reg_scale, "beta": beta}
    return Case("fused_weighted_bce_smooth_l1_loss", (pred, P, P, P), there, attrs,
                gradients=(0,), note=note,
                shapes=[[(8, 9)] * 4, [(1,)] * 4, [(2, 3, 1, 5, 7)] * 4],
                skip=AT_EDGES if note else BEYOND)  # fmt: skip


CASES = [
    *loss("weighted_bce", (P, P, P), TRIPLES, torch=detection_bce, skip=BEYOND),
    *loss("weighted_bce", (edges, P, P), TRIPLES, torch=detection_bce, note="edges", skip=AT_EDGES),
    *loss("weighted_smooth_l1", (X, X, P), TRIPLES, torch=detection_l1, beta=0.5),
    fused(),
    fused(2.5, 0.5, 0.2),
    fused(pred=edges, note="edges"),
]
PATTERNS = [
    Case("_".join(["weighted_bce_smooth_l1_sum", *scales]), (P, P, P, P),
         attrs={"beta": 0.05, **{f"{scale}_scale": 1.5 for scale in scales}},
         shapes=[[(8, 9)] * 4, [(1,)] * 4, [(2, 3, 1, 5, 7)] * 4, [(0, 3)] * 4])
    for scales in ((), ("heat",), ("reg",), ("heat", "reg"))
]  # fmt: skip
CASES += PATTERNS


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
