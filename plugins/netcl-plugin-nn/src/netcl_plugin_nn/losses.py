"""Losses as modules; the ops come from netcl-plugin-losses."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor, lenient
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import as_plain


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
            self.register_buffer(name, as_plain(value))

    def __init_subclass__(cls) -> None:
        cls.__init__ = lenient(cls.__init__)  # type: ignore[method-assign]

    def forward(self, input: Any, target: Any) -> Any:
        """The loss: 0-d, with reduction='none' one per element or sample."""
        return self._loss(input, target)

    def _loss(self, *inputs: Any) -> Any:
        weights = {name: getattr(self, name) for name in self.weights}
        return getattr(ag, self.op)(*inputs, **weights, **self._settings)


class MSELoss(_Loss):
    """`(input - target)^2`; `reduction` is 'mean', 'sum' or 'none' here and below.

    Both have one shape; unequal ones raise ShapeError.

    >>> nn.MSELoss()(nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])).item()
    2.0
    >>> nn.MSELoss(reduction="none")(nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])).tolist()
    [0.0, 4.0]
    """

    op = "mse_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class L1Loss(_Loss):
    """`|input - target|`.

    Both have one shape; unequal ones raise ShapeError.

    >>> nn.L1Loss()(nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])).item()
    1.0
    """

    op = "l1_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class SmoothL1Loss(_Loss):
    """`d^2 / (2 beta)` where |d| < beta, else `|d| - beta / 2`, with d = input - target.

    Both have one shape; unequal ones raise ShapeError.

    >>> nn.SmoothL1Loss()(nc.tensor([0.5, 4.0]), nc.tensor([0.0, 0.0])).item()
    1.8125
    """

    op = "smooth_l1_loss"

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    """`d^2 / 2` where |d| <= delta, else `delta (|d| - delta / 2)`, with d = input - target.

    Both have one shape; unequal ones raise ShapeError.

    >>> nn.HuberLoss(delta=2.0)(nc.tensor([1.0, 4.0]), nc.tensor([0.0, 0.0])).item()
    3.25
    """

    op = "huber_loss"

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction, delta=delta)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities; `weight` broadcasts to the input.

    >>> round(nn.BCELoss()(nc.tensor([0.9, 0.2]), nc.tensor([1.0, 0.0])).item(), 4)
    0.1643
    """

    op = "binary_cross_entropy"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits; both weights broadcast to the input.

    >>> round(nn.BCEWithLogitsLoss()(nc.tensor([0.0, 0.0]), nc.tensor([1.0, 0.0])).item(), 4)
    0.6931

    Args:
        weight: A factor for each class (C,), or for each element.
        pos_weight: A factor (C,) for the part of the positive answers.
    """

    op = "binary_cross_entropy_with_logits"
    weights = ("weight", "pos_weight")
    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class CrossEntropyLoss(_Loss):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or probabilities.

    >>> loss = nn.CrossEntropyLoss()
    >>> logits = nc.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    >>> round(loss(logits, nc.tensor([0, 2])).item(), 4)
    0.2395

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
    """The negative log-likelihood of log-probabilities; arguments as of CrossEntropyLoss.

    >>> nn.NLLLoss()(nc.tensor([[-0.5, -1.0], [-2.0, -0.25]]), nc.tensor([0, 1])).item()
    0.375

    Args:
        weight: A factor for each class (C,), or for each element.
        ignore_index: A class whose rows do not count.
    """

    op = "nll_loss"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence; `reduction` may be 'batchmean', the divergence proper.

    >>> log_p, q = nc.tensor([[0.5, 0.5]]).log(), nc.tensor([[0.25, 0.75]])
    >>> round(nn.KLDivLoss(reduction="batchmean")(log_p, q).item(), 4)
    0.1308

    Args:
        log_target: Whether the target is a logarithm too.
    """

    op = "kl_div"

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction=reduction, log_target=log_target)


class MarginRankingLoss(_Loss):
    """`max(0, -target (input1 - input2) + margin)`, called with these three; target is 1 or -1.

    >>> better, worse = nc.tensor([1.0]), nc.tensor([3.0])
    >>> nn.MarginRankingLoss(margin=0.5)(better, worse, nc.tensor([1.0])).item()
    2.5
    """

    op = "margin_ranking_loss"

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:  # type: ignore[override]
        """The loss: 0-d, with reduction='none' one per sample."""
        return self._loss(input1, input2, target)


class TripletMarginLoss(_Loss):
    """`max(0, |anchor - positive| - |anchor - negative| + margin)`, called with these three.

    >>> anchor, same, other = nc.zeros(1, 2), nc.zeros(1, 2), nc.full((1, 2), 0.1)
    >>> round(nn.TripletMarginLoss()(anchor, same, other).item(), 3)
    0.859

    Args:
        margin: See above.
        p, eps: Of the distances, as of PairwiseDistance.
        swap: Whether the negative's distance is the smaller of those to anchor and positive.
        reduction: 'mean', 'sum' or 'none'.
    """

    op = "triplet_margin_loss"

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=margin, p=p, eps=eps, swap=swap, reduction=reduction)

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:  # type: ignore[override]
        """The loss: 0-d, with reduction='none' one per sample."""
        return self._loss(anchor, positive, negative)


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target * input))`, with a target of 1 or -1.

    The shapes of `input` and the target broadcast.

    >>> round(nn.SoftMarginLoss()(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 1.0])).item(), 4)
    0.41
    """

    op = "soft_margin_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class HingeEmbeddingLoss(_Loss):
    """`input` where the target is 1, `max(0, margin - input)` where it is -1.

    The shapes of `input` and the target broadcast.

    >>> nn.HingeEmbeddingLoss()(nc.tensor([0.5, 0.5]), nc.tensor([1, -1])).item()
    0.5
    """

    op = "hinge_embedding_loss"

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)


class CosineEmbeddingLoss(_Loss):
    """`1 - cos` where the target is 1, `max(0, cos - margin)` where it is -1, of two inputs.

    >>> x, y = nc.tensor([[1.0, 0.0]]), nc.tensor([[0.0, 1.0]])
    >>> nn.CosineEmbeddingLoss()(x, y, nc.tensor([1])).item()
    1.0
    """

    op = "cosine_embedding_loss"

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(margin=margin, reduction=reduction)

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:  # type: ignore[override]
        """The loss: 0-d, with reduction='none' one per sample."""
        return self._loss(input1, input2, target)


class GaussianNLLLoss(_Loss):
    """`(log var + (input - target)^2 / var) / 2`, called with `(input, target, var)`.

    >>> nn.GaussianNLLLoss()(nc.tensor([1.0]), nc.tensor([3.0]), nc.tensor([1.0])).item()
    2.0

    Args:
        full: Whether the constant term is added.
    """

    op = "gaussian_nll_loss"

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(full=full, eps=eps, reduction=reduction)

    def forward(self, input: Any, target: Any, var: Any) -> Any:  # type: ignore[override]
        """The loss: 0-d, with reduction='none' one per sample."""
        return self._loss(input, target, var)


class PoissonNLLLoss(_Loss):
    """`exp(input) - target * input`, of counts and the logarithms of expected ones.

    The shapes of `input` and the target broadcast.

    >>> nn.PoissonNLLLoss()(nc.tensor([0.0]), nc.tensor([2.0])).item()
    1.0

    Args:
        log_input: Whether the input is the logarithm of the rate.
        full: Whether the constant term is added.
    """

    op = "poisson_nll_loss"

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(log_input=log_input, full=full, eps=eps, reduction=reduction)

    def forward(self, log_input: Any, target: Any) -> Any:
        """The loss: 0-d, with reduction='none' one per sample."""
        return self._loss(log_input, target)
