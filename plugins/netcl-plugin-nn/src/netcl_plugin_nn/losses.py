"""Losses as modules; the ops come from netcl-plugin-losses."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_plugin_nn.module import Module


class MSELoss(Module):
    """The mean of the squared differences; `reduction` is 'mean', 'sum' or 'none'."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def forward(self, input: Any, target: Any) -> Any:
        """`input` and `target` of one shape."""
        return ag.mse_loss(input, target, reduction=self.reduction)

    def extra_repr(self) -> str:
        """The reduction."""
        return f"reduction={self.reduction!r}"


class CrossEntropyLoss(Module):
    """Cross entropy of logits (N, C) with class indices (N,) or probabilities (N, C).

    Args:
        ignore_index: Samples of this class count neither in the loss nor in the mean.
        reduction: 'mean', 'sum' or 'none'.
        label_smoothing: The share of the target that is spread evenly over all classes.
    """

    def __init__(
        self, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """The loss: 0-d, or one per sample with reduction='none'."""
        smoothing = {"label_smoothing": self.label_smoothing} if self.label_smoothing else {}
        return ag.cross_entropy(
            input, target, ignore_index=self.ignore_index, reduction=self.reduction, **smoothing
        )

    def extra_repr(self) -> str:
        """The settings that are not the default."""
        smoothing = f", label_smoothing={self.label_smoothing}" if self.label_smoothing else ""
        return f"reduction={self.reduction!r}{smoothing}"
