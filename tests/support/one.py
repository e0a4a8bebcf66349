"""The least tensor, and what it holds: for tests of when a function is traced, not of values."""

from __future__ import annotations

from typing import Any

import netcl_core as nc


def one() -> nc.Tensor:
    """A tensor of one element."""
    return nc.tensor([1.0])


def first(result: Any) -> float:
    """The first element."""
    return float(result.to_host().reshape(-1)[0])
