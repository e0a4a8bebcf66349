"""Anomaly detection: NaN and infinity, and gradients that contradict the forward."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import AnomalyError, message
from netcl_core.tape.directional_trial import DirectionalTrial
from netcl_core.tape.elementwise_trial import ElementwiseTrial
from netcl_core.tape.gradient_trial import Doubt, GradientTrial
from netcl_core.tensors.tensor import Operand, Tensor


@contextmanager
def watched(nodes: Iterable[Any]) -> Iterator[None]:
    """Around the backward pass through some nodes: where NaN or infinity came from, if any did.

    An AnomalyError of the pass gets a note of it; if there is none, this raises one.
    """
    try:
        yield
    except AnomalyError as error:
        if origin := _first_unfinite(nodes):
            error.add_note(origin)
        raise
    if origin := _first_unfinite(nodes):
        raise AnomalyError(origin)


def _first_unfinite(nodes: Iterable[Any]) -> str:
    """What the first call is that made NaN or infinity of finite inputs; empty: none did."""
    for node in sorted(nodes, key=attrgetter("number")):
        numbers = (*node.scalars, *getattr(node.call, "attrs", {}).values())
        if all(map(_is_finite, (*node.inputs, *numbers))):
            bad = sum(_unfinite(result) for result in node.results())
            if bad:
                given = f"{bad} NaN or infinite values of finite inputs"
                text = message(f"forward of {node.op_name}", given, "", f"Made at {node.where}")
                return text + _trace(node)
    return ""


def _is_finite(value: Any) -> bool:
    if isinstance(value, Operand):
        return not _unfinite(value)
    return not isinstance(value, float) or math.isfinite(value)


def _unfinite(x: Operand) -> int:
    if not DTYPES[x.dtype].floating:
        return 0
    return int((~np.isfinite(x.value.to_host())).sum())


def check_finite(node: Any, gradients: Sequence[Tensor | None]) -> None:
    """Raise AnomalyError if one of a node's gradients is NaN or infinite."""
    for index, gradient in enumerate(gradients):
        if gradient is None:
            continue
        bad = ~np.isfinite(gradient.to_host())
        if bad.any():
            raise AnomalyError(_text(node, f"{int(bad.sum())} NaN or infinite gradient values "
                                     f"for input {index}", "finite gradients"))  # fmt: skip


def check_numerics(node: Any, upstream: Sequence[Any], gradients: Sequence[Tensor | None]) -> None:
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
    raise AnomalyError(_text(node, given, f"{measured}, the finite difference of its forward"))


def find_doubt(
    node: Any, upstream: Sequence[Any], gradients: Sequence[Tensor | None]
) -> Doubt | None:
    """The first contradiction, or None; what is not known (NaN, a step, an edge) is none."""
    if not node.value.size or all(each is None for each in gradients):
        return None
    forward = node.call.exact(node)
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


def _text(node: Any, given: str, expected: str) -> str:
    text = message(f"backward of {node.op_name}", given, expected, f"Made at {node.where}")
    return text + _trace(node)


def _trace(node: Any) -> str:
    trace = node.creation_trace
    return "\nCreation trace:\n" + "".join(trace) if trace else ""
