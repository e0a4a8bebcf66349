"""The namespace `numerics`: a node's gradients held against finite differences of its forward."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final, final

import numpy as np

from netcl_core import Tensor
from netcl_core.inspect.recorded import MetaTensor, anomaly
from netcl_plugin_kit.numerics.directional_trial import DirectionalTrial
from netcl_plugin_kit.numerics.elementwise_trial import ElementwiseTrial
from netcl_plugin_kit.numerics.exact_forward import exact_forward
from netcl_plugin_kit.numerics.gradient_trial import Doubt, GradientTrial

__all__ = ["NumericsSampled", "Sample", "check_gradients", "find_doubt"]

#: How many times the rest may the comparisons take; the rest, with the look for NaN and with what
#: a look at the host costs, is itself up to ten times a plain step.
_MOST: Final = 1.0


class NumericsSampled(UserWarning):
    """`check_numerics` compares only some gradients from here on."""


@final
class Sample:
    """What `detect_anomaly(check_numerics=True)` calls for each node: it compares some of them.

    The first of each op with these shapes and dtypes is compared in any case, and all others as
    long as comparing has taken less time than the rest, which makes some 20 times a plain step.

    Attributes:
        compared: How many nodes were, of how many `seen`.
    """

    def __init__(self) -> None:
        self.compared = self.seen = 0
        self._kinds: set[Any] = set()
        self._began = perf_counter()
        self._spent = 0.0

    def __call__(
        self, node: Any, upstream: Sequence[Any], gradients: Sequence[Tensor | None]
    ) -> None:
        self.seen += 1
        begin = perf_counter()
        kind = node.op_name, *[(x.shape, x.dtype) for x in node.inputs]
        if kind in self._kinds and self._spent > _MOST * (begin - self._began - self._spent):
            if self.compared == self.seen - 1:
                text = (
                    f"check_numerics: {self.compared} gradients were compared; from here on a "
                    "sample, so that a training takes at most 20 times as long as plainly"
                )
                warnings.warn(text, NumericsSampled, stacklevel=2)
            return
        self._kinds.add(kind)
        self.compared += 1
        check_gradients(node, upstream, gradients)
        self._spent += perf_counter() - begin

    def __repr__(self) -> str:
        return f"<check_numerics: {self.compared} of {self.seen} gradients compared>"


def check_gradients(node: Any, upstream: Sequence[Any], gradients: Sequence[Tensor | None]) -> None:
    """Raise AnomalyError if a gradient contradicts the finite differences of the forward.

    Args:
        node: The node with the record of a call.
        upstream: The gradient of each result, or None.
        gradients: A Tensor of the input's shape, or None, for each input.
    """
    with np.errstate(all="ignore"):  # what overflows or is no number is not judged
        doubt = find_doubt(node, upstream, gradients)
    if doubt is None:
        return
    at = " along a direction" if doubt.element is None else f" at {doubt.element}"
    at = "" if doubt.element == () else at
    measured = f"{doubt.low:.6g}"
    if f"{doubt.high:.6g}" != measured:
        measured += f" to {doubt.high:.6g}"
    given = f"the gradient of input {doubt.index}{at} is {doubt.given:.6g}"
    raise anomaly(node, given, f"{measured}, the finite difference of its forward")


def find_doubt(
    node: Any, upstream: Sequence[Any], gradients: Sequence[Tensor | None]
) -> Doubt | None:
    """The first contradiction, or None; what is not known (NaN, a step, an edge) is none."""
    if not node.value.size or all(gradient is None for gradient in gradients):
        return None
    if any(isinstance(x.value, MetaTensor) for x in (node, *node.inputs)):
        return None  # its forward ran before anomaly detection was on
    forward = exact_forward(node.call, node)
    if forward is None:
        return None
    trial = GradientTrial(node, forward, upstream, gradients)
    if trial.stale:
        return None
    single = ElementwiseTrial(trial) if trial.forward.coarse is not None else None
    for index in trial.floating:
        doubt = single.doubt(index) if single else DirectionalTrial(trial, index).doubt()
        if doubt is not None:
            return doubt
    return None
