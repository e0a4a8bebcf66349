"""Twenty small products, one after the other: what a launch costs more than its work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from harness import RaceCase, function_cases

COUNT, SIDE = 20, 16


def _chain(library: Any, x: Any, w: Any) -> Any:
    for _ in range(COUNT):
        x = library.matmul(x, w)
    return x


FORMS = {
    "netcl": _chain,
    "torch": _chain,
    "jax": lambda jax, x, w: _chain(jax.numpy, x, w),
    "numpy": _chain,
}


def _data() -> list[Any]:
    """An orthogonal factor, so that the product neither grows nor fades."""
    random = np.random.default_rng(0)
    turn = np.linalg.qr(random.standard_normal((SIDE, SIDE)))[0]
    return [random.standard_normal((SIDE, SIDE), dtype=np.float32), turn.astype(np.float32)]


def cases(kind: str) -> Iterator[RaceCase]:
    """Forward and backward."""
    yield from function_cases(f"{COUNT} products of {SIDE}x{SIDE}", FORMS, _data, gradients=2)
