"""Anomaly detection: NaN and infinite gradients, and gradients that contradict the forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import AnomalyError, message
from netcl_core.tensors.tensor import Operand, Tensor

#: Relative tolerance of the directional finite difference, by dtype.
_TOLERANCE: Final = {"float16": 2e-1, "float32": 3e-2, "float64": 1e-5}
_STEP: Final = {"float16": 1e-1, "float32": 1e-2, "float64": 1e-6}


def check_finite(node: Any, gradients: Sequence[Tensor | None]) -> None:
    """Raise AnomalyError if one of a node's gradients is NaN or infinite."""
    for index, gradient in enumerate(gradients):
        if gradient is None:
            continue
        bad = ~np.isfinite(gradient.to_host())
        if bad.any():
            raise AnomalyError(_text(node, f"{int(bad.sum())} NaN or infinite gradient values "
                                     f"for input {index}", "finite gradients"))  # fmt: skip


def check_directional(
    node: Any, grads: Sequence[Tensor | None], gradients: Sequence[Tensor | None]
) -> None:
    """Raise AnomalyError if the gradients contradict a central difference along a direction.

    For inputs x, a random direction u and the upstream gradient g it compares
    `sum(gradients * u)` with `sum(g * (f(x + h u) - f(x - h u))) / 2h`.
    """
    floating = [
        i
        for i, (x, part) in enumerate(zip(node.inputs, gradients, strict=True))
        if part is not None and isinstance(x, Operand) and DTYPES[x.dtype].floating
    ]
    if not floating or len(grads) != 1 or grads[0] is None:
        return
    random = np.random.default_rng(0)
    values = [x.value if isinstance(x, Operand) else x for x in node.inputs]
    directions = {i: random.standard_normal(values[i].shape) for i in floating}
    dtype = values[floating[0]].dtype
    largest = max([1.0, *(float(np.abs(values[i].to_host()).max(initial=0.0)) for i in floating)])
    step = _STEP[dtype] * largest
    upstream = grads[0].to_host().astype(np.float64)
    ends = [_moved(node, values, directions, sign * step) for sign in (1.0, -1.0)]
    numeric = float((upstream * (ends[0] - ends[1])).sum() / (2 * step))
    terms = [
        gradient.to_host().astype(np.float64) * directions[i]
        for i, gradient in enumerate(gradients)
        if i in directions and gradient is not None
    ]
    analytic = float(sum(term.sum() for term in terms))
    scale = float(np.sqrt(sum((term**2).sum() for term in terms))) + abs(numeric) + 1e-6
    if np.isfinite(numeric) and abs(analytic - numeric) > _TOLERANCE[dtype] * scale:
        raise AnomalyError(
            _text(
                node,
                f"its gradient along a random direction is {analytic:.6g}",
                f"{numeric:.6g}, the finite difference of its forward",
            )
        )


def _moved(node: Any, values: list[Any], directions: dict[int, Any], step: float) -> Any:
    moved = list(values)
    for i, direction in directions.items():
        array = values[i].to_host()
        moved[i] = Tensor.from_host(
            (array + step * direction).astype(array.dtype), values[i].device
        )
    result = node.call.run(moved, node.scalars)
    return result.to_host().astype(np.float64)


def _text(node: Any, given: str, expected: str) -> str:
    text = message(f"backward of {node.op_name}", given, expected, f"Made at {node.where}")
    if node.creation_trace:
        text += "\nCreation trace:\n" + "".join(node.creation_trace)
    return text
