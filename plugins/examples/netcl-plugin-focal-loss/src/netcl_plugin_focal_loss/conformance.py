"""What the loss is tried with, and what it has to equal: the formula of the paper, naively."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, masks, normal

#: A shape for logits and labels, per variant: odd sizes, one element, many axes.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = (
    [(5, 7), (5, 7)],
    [(1,), (1,)],
    [(2, 3, 1, 5, 7), (2, 3, 1, 5, 7)],
)


def expected(
    input: Any, target: Any, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "mean"
) -> Any:
    """Equation 5 of the paper, for arrays of float64."""
    p = 1 / (1 + np.exp(np.where(target, -input, input)))
    share = np.where(target, alpha, 1 - alpha)
    elements = -share * (1 - p) ** gamma * np.log(p)
    return elements if reduction == "none" else getattr(elements, reduction)()


def case(**attrs: Any) -> Case:
    """A case with random logits and labels."""
    return Case("focal_loss", [normal(3), masks()], reference=expected, attrs=attrs, shapes=SHAPES)


CASES = [
    case(),
    case(reduction="sum"),
    case(reduction="none"),
    case(gamma=0.0, alpha=0.5),  # half the cross entropy
    case(gamma=0.5, alpha=0.9),
]
