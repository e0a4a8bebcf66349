"""The `reduction` argument that all losses share."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message

_REDUCTIONS = ("mean", "sum", "none")


def checked(who: str, reduction: str) -> str:
    """The reduction; raises AttributeValueError for an unknown one."""
    if reduction not in _REDUCTIONS:
        raise AttributeValueError(message(who, f"reduction={reduction!r}", "mean, sum or none"))
    return reduction


def reduce(values: Any, reduction: str) -> Any:
    """Element losses as they are, summed, or averaged."""
    if reduction == "none":
        return values
    return ag.sum(values) if reduction == "sum" else ag.mean(values)
