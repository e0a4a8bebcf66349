"""What rope is tried with, and what it has to equal: products of complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, normal

#: A shape of x, per variant: odd lengths, one pair, many axes, no positions.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = (
    [(7, 10)],
    [(1, 2)],
    [(2, 3, 5, 6)],
    [(33, 64)],
    [(2, 0, 4)],
)


def rope(x: Any, base: float = 1e4, offset: int = 0, interleaved: bool = True) -> Any:
    """Equation 13 of the paper: a pair is a complex number, times exp(i * angle)."""
    length, features = x.shape[-2:]
    half = features // 2
    places = np.arange(features).reshape((half, 2) if interleaved else (2, half))
    first, second = places.T if interleaved else places
    positions = np.arange(offset, offset + length)[:, None]
    angles = positions * base ** (-2 * np.arange(half) / features)
    pairs = np.empty((*x.shape[:-1], half), complex)
    pairs.real, pairs.imag = x[..., first], x[..., second]
    turned = pairs * np.exp(1j * angles)
    out = np.empty_like(x)
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


CASES = [
    Case("rope", [normal()], reference=rope, attrs=attrs, shapes=shapes)
    for attrs, shapes in (
        ({}, SHAPES),
        ({"interleaved": False}, SHAPES),
        ({"base": 500.0, "offset": 1000}, [[(5, 8)]]),
    )
]
