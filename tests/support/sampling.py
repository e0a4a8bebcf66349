"""Parameters of tests of which some are tried always, and all of them before a release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], every: int, first: int = 0) -> list[Any]:
    """One in so many as it is; the others are left to `make release`. Tuples are several values."""
    return [
        value if number % every == first else _later(value) for number, value in enumerate(values)
    ]


def _later(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.release)
