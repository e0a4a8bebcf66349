"""The settings of a GradScaler, and what they may be."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import numpy as np

from netcl_core.errors import AttributeValueError, message

WHO: Final = "GradScaler"
#: Between them a scale and its reciprocal are normal float32 numbers.
LOWEST: Final = 2.0**-126
HIGHEST: Final = 2.0**126


@dataclass(frozen=True, slots=True)
class ScalerSettings:
    """How a scale changes: factors, used in float32, and after how many clean rounds it grows."""

    growth_factor: float
    backoff_factor: float
    growth_interval: int


def checked_settings(growth: Any, backoff: Any, interval: Any) -> ScalerSettings:
    """Checked settings."""
    growth = _number("growth_factor", growth, 1.0, HIGHEST)
    backoff = _number("backoff_factor", backoff, 0.0, 1.0)
    return ScalerSettings(growth, backoff, whole_number("growth_interval", interval, 1))


def _number(name: str, value: Any, above: float, below: float) -> float:
    if isinstance(value, Real) and above < float(value) < below:
        return float(value)
    expected = f"a number above {above:g} and below {below:g}"
    raise AttributeValueError(message(WHO, f"{name}={value!r}", expected))


def checked_scale(value: Any) -> float:
    """A number that can be a scale."""
    if isinstance(value, Real) and LOWEST <= float(value) <= HIGHEST:
        return float(value)
    expected = "a number from 2**-126 to 2**126"
    raise AttributeValueError(message(WHO, f"a scale of {value!r}", expected))


def whole_number(name: str, value: Any, least: int) -> int:
    """A count, which the device keeps in an int."""
    if isinstance(value, (int, np.integer)) and value is not True and least <= value < 2**31:
        return int(value)
    expected = f"an integer from {least} to 2**31 - 1"
    raise AttributeValueError(message(WHO, f"{name}={value!r}", expected))
