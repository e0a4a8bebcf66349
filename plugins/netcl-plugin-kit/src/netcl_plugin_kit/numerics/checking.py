"""The namespace `numerics`: a node's gradients held against finite differences of its forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netcl_core import Tensor
from netcl_core.inspect.recorded import anomaly
from netcl_plugin_kit.numerics.directional_trial import DirectionalTrial
from netcl_plugin_kit.numerics.elementwise_trial import ElementwiseTrial
from netcl_plugin_kit.numerics.exact_forward import exact_forward
from netcl_plugin_kit.numerics.gradient_trial import Doubt, GradientTrial

__all__ = ["check_gradients", "find_doubt"]


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
    if not node.value.size or all(each is None for each in gradients):
        return None
    forward = exact_forward(node.call, node)
    if forward is None:
        return None
    trial = GradientTrial(node, forward, upstream, gradients)
    if trial.stale:
        return None
    single = ElementwiseTrial(trial) if trial.forward.coarse is not None else None
    for index in trial.floating:
        found = single.doubt(index) if single else DirectionalTrial(trial, index).doubt()
        if found is not None:
            return found
    return None
