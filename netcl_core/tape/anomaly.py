"""Anomaly detection: NaN and infinity among values and gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import AnomalyError, message
from netcl_core.tensors.tensor import Tensor


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
                text = message(f"forward of {node.op_name}", given, "", f"Made at {node.made_at}")
                return text + _trace(node)
    return ""


def _is_finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not _unfinite(value)
    return not isinstance(value, float) or math.isfinite(value)


def _unfinite(x: Tensor) -> int:
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
            given = f"{int(bad.sum())} NaN or infinite gradient values for input {index}"
            raise anomaly(node, given, "finite gradients")


def anomaly(node: Any, given: str, expected: str) -> AnomalyError:
    """The error of a node with a wrong gradient: what was given, and what was expected of it."""
    text = message(f"backward of {node.op_name}", given, expected, f"Made at {node.made_at}")
    return AnomalyError(text + _trace(node))


def _trace(node: Any) -> str:
    trace = node.creation_trace
    return "\nCreation trace:\n" + "".join(trace) if trace else ""
