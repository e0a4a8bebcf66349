"""Losses as modules; the ops come from netcl-plugin-losses."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter


class _Loss(Module):
    """A loss op: `op` is its name, `weights` its tensors, the settings its other arguments."""

    op: ClassVar[str]
    weights: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        for name in self.weights:
            self._set_weight(name, settings.pop(name))
        self._settings = settings

    def _set_weight(self, name: str, value: Any) -> None:
        """A weight becomes a buffer, so that it moves with the module."""
        if value is None:
            setattr(self, name, None)
        else:
            self.register_buffer(name, Parameter(value, requires_grad=False))

    def forward(self, input: Any, target: Any) -> Any:
        """The loss: 0-d, or one per element or sample with reduction='none'."""
        weights = {name: getattr(self, name) for name in self.weights}
        return getattr(ag, self.op)(input, target, **weights, **self._settings)

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={value!r}" for name, value in self._settings.items())


class MSELoss(_Loss):
    """`(input - target)^2`; `reduction` is 'mean', 'sum' or 'none' here and below."""

    op = "mse_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class L1Loss(_Loss):
    """`|input - target|`."""

    op = "l1_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class SmoothL1Loss(_Loss):
    """`d^2 / (2 beta)` where |d| < beta, else `|d| - beta / 2`, with d = input - target."""

    op = "smooth_l1_loss"

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    """`d^2 / 2` where |d| <= delta, else `delta (|d| - delta / 2)`, with d = input - target."""

    op = "huber_loss"

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities; `weight` broadcasts to the input."""

    op = "binary_cross_entropy"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits; both weights broadcast to the input."""

    op = "binary_cross_entropy_with_logits"
    weights = ("weight", "pos_weight")
    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class CrossEntropyLoss(_Loss):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or probabilities.

    Args:
        weight: A weight per class, shape (C,).
        ignore_index: Samples of this class count neither in the loss nor in the mean.
        reduction: 'mean', 'sum' or 'none'.
        label_smoothing: The share of the target that is spread evenly over all classes.
    """

    op = "cross_entropy"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(
            weight=weight,
            ignore_index=ignore_index,
            reduction=reduction,
            label_smoothing=label_smoothing,
        )


class NLLLoss(_Loss):
    """The negative log-likelihood of log-probabilities; arguments as of CrossEntropyLoss."""

    op = "nll_loss"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence; `reduction` may be 'batchmean', the divergence proper."""

    op = "kl_div"

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)
