"""Losses of margins between classes, of labels in sequences, and of very many classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import netcl_core.autograd as ag
from netcl_core import Tensor, lenient
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.containers import ModuleList, Sequential
from netcl_plugin_nn.distances import PairwiseDistance
from netcl_plugin_nn.functional import linear_cross_entropy
from netcl_plugin_nn.linear import Linear
from netcl_plugin_nn.losses import _Loss
from netcl_plugin_nn.module import Module


class MultiMarginLoss(_Loss):
    """`sum(max(0, margin - input[y] + input[i])^p) / C` over the classes i that are not y.

    >>> nn.MultiMarginLoss()(nc.tensor([[0.5, 1.0]]), nc.tensor([0])).item()
    0.75

    Args:
        weight: A factor for each class (C,), or for each element.
    """

    op = "multi_margin_loss"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
    ) -> None:
        if p not in (1, 2):
            raise AttributeValueError(message("MultiMarginLoss", f"p={p!r}", "1 or 2"))
        super().__init__(p=p, margin=margin, weight=weight, reduction=reduction)


class MultiLabelMarginLoss(_Loss):
    """`sum(max(0, 1 - input[y] + input[i])) / C` over the right classes y and the others.

    >>> scores, labels = nc.tensor([[0.5, 0.25, 1.0]]), nc.tensor([[2, -1, -1]])
    >>> round(nn.MultiLabelMarginLoss()(scores, labels).item(), 4)
    0.25
    """

    op = "multilabel_margin_loss"

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)


class MultiLabelSoftMarginLoss(_Loss):
    """The mean over classes of the binary cross entropy of logits; `weight` has shape (C,).

    >>> scores, labels = nc.zeros(1, 3), nc.tensor([[1.0, 0.0, 1.0]])
    >>> round(nn.MultiLabelSoftMarginLoss()(scores, labels).item(), 4)
    0.6931
    """

    op = "multilabel_soft_margin_loss"
    weights = ("weight",)
    weight: Tensor | None

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(weight=weight, reduction=reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification; arguments as of `ag.ctc_loss`.

    >>> log_probs = nc.zeros(5, 1, 3).log_softmax(2)  # (steps, batch, classes); class 0 is blank
    >>> lengths = nc.tensor([5]), nc.tensor([2])
    >>> round(nn.CTCLoss()(log_probs, nc.tensor([[1, 2]]), *lengths).item(), 3)
    0.969
    """

    op = "ctc_loss"

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(blank=blank, reduction=reduction, zero_infinity=zero_infinity)

    def forward(  # type: ignore[override]
        self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Any:
        """The loss: 0-d, with reduction='none' one per sequence."""
        return self._loss(log_probs, targets, input_lengths, target_lengths)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with a distance of your own, a function or a module.

    >>> anchor, same, other = nc.zeros(1, 2), nc.zeros(1, 2), nc.full((1, 2), 9.0)
    >>> nn.TripletMarginWithDistanceLoss()(anchor, same, other).item()
    0.0

    Args:
        distance_function: Of two tensors, a distance for each pair; default: PairwiseDistance.
        margin, swap, reduction: As of TripletMarginLoss.
    """

    op = "triplet_margin_with_distance_loss"

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin=margin, swap=swap, reduction=reduction)
        self.distance_function = distance_function or PairwiseDistance()

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:  # type: ignore[override]
        """The loss: 0-d, with reduction='none' one per pair."""
        return ag.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, **self._settings
        )


class LinearCrossEntropyLoss(Module):
    """A linear layer and the cross entropy of its results, as one loss.

    >>> nn.LinearCrossEntropyLoss(4, 10)(nc.rand(3, 4), nc.tensor([1, 2, 3])).shape
    ()

    Args:
        in_features: The size of an input.
        num_classes: The number of classes.
        out_features: The sizes of several targets for each input, of (N, *out_features).
        bias: Whether the layer has one.
        reduction, weight, ignore_index, label_smoothing: As of CrossEntropyLoss.
        options: Has no effect: PyTorch's hints on memory.
    """

    weight: Tensor | None

    @lenient
    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = "float32",
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.reduction, self.options = reduction, options
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias, device, dtype)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of inputs (N, in_features) or (in_features,); targets as of CrossEntropyLoss."""
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return linear_cross_entropy(
            input,
            ag.reshape(self.linear.weight, (*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else ag.reshape(bias, shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class AdaptiveLoss(NamedTuple):
    """What AdaptiveLogSoftmaxWithLoss gives.

    Attributes:
        output: The logarithm of the probability of each target.
        loss: Minus their mean.
    """

    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax over very many classes: the frequent ones in a head, the others in clusters.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10], div_value=2.0)
    >>> layer(nc.zeros(3, 8), nc.tensor([0, 5, 19])).output.shape
    (3,)

    Args:
        in_features: The size of an input.
        n_classes: The number of classes, the most frequent first.
        cutoffs: Where clusters begin, in rising order, between 1 and n_classes - 1.
        div_value: By how much the inner size falls from one cluster to the next.
        head_bias: Whether the head has a bias.

    (Grave, Joulin, Cisse, Grangier, Jegou 2016, arXiv:1609.04309)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        ends = [0, *cutoffs, n_classes]
        whole = all(int(end) == end for end in ends)
        if len(ends) < 3 or not whole or any(b <= a for a, b in itertools.pairwise(ends)):
            expected = f"rising whole numbers from 1 to {n_classes - 1}"
            given = f"cutoffs={list(cutoffs)}"
            raise AttributeValueError(message("AdaptiveLogSoftmaxWithLoss", given, expected))
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs = ends[1:]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[1], len(ends) - 2
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (i + 1))
            if inner < 1:
                given = f"div_value={div_value} with {self.n_clusters} clusters of {in_features}"
                remedy = "Choose a smaller div_value"
                expected = "an inner size of 1 at least"
                raise AttributeValueError(
                    message("AdaptiveLogSoftmaxWithLoss", given, expected, remedy)
                )
            first = Linear(in_features, inner, False, device, dtype)
            self.tail.append(Sequential(first, Linear(inner, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.head, *(part for pair in self.tail for part in pair)):
            layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> AdaptiveLoss:
        """The logarithms of the targets' probabilities, (N,) or (), and the loss.

        Args:
            input_: (N, in_features) or (in_features,).
            target_: Classes, int64 (N,) or ().
        """
        x = ag.as_operand(input_, self.head.weight.device)
        right = ag.as_operand(target_, x.device)
        if x.ndim not in (1, 2) or right.shape != x.shape[:-1]:
            given = f"input of shape {x.shape} and target of shape {right.shape}"
            expected = "(N, in_features) and (N,), or without N"
            raise ShapeError(message("AdaptiveLogSoftmaxWithLoss", given, expected))
        rows = x if x.ndim == 2 else ag.unsqueeze(x, 0)
        names = ag.reshape(right, (-1, 1)).astype("int64")
        log_probs = ag.squeeze(ag.gather(self.log_prob(rows), 1, names), 1)
        output = log_probs if x.ndim == 2 else ag.squeeze(log_probs, 0)
        return AdaptiveLoss(output, ag.neg(ag.mean(log_probs)))

    def log_prob(self, input: Any) -> Any:
        """The logarithms of the probabilities of all classes, (N, n_classes)."""
        head = ag.log_softmax(self.head(input), 1)
        parts = [ag.narrow(head, 1, 0, self.shortlist_size)]
        for i, layers in enumerate(self.tail):
            cluster = ag.narrow(head, 1, self.shortlist_size + i, 1)
            parts.append(ag.add(ag.log_softmax(layers(input), 1), cluster))
        return ag.cat(parts, 1)

    def predict(self, input: Any) -> Any:
        """The most probable class of each input, int64 (N,)."""
        return ag.argmax(self.log_prob(input), 1)
