"""y = sigmoid(gelu(relu(x)) + 0.5): a chain of elementwise ops, which fusion makes one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, copying, function_cases

FORMS = {
    "netcl": lambda ag, x: ag.sigmoid(ag.gelu(ag.relu(x)) + 0.5),
    "torch": lambda torch, x: torch.sigmoid(
        torch.nn.functional.gelu(torch.relu(x), approximate="tanh") + 0.5
    ),
    "jax": lambda jax, x: jax.nn.sigmoid(jax.nn.gelu(jax.nn.relu(x)) + 0.5),
    "tinygrad": lambda tensor, x: (x.relu().gelu() + 0.5).sigmoid(),
    "numpy": lambda np, x: _by_numpy(x),
}
#: Up to here a launch counts for more than the memory.
LAUNCHED = 1 << 12
POWERS = {"cpu": (10, 20, 22), "gpu": (20, 26)}


def _by_numpy(x: Any) -> Any:
    y = np.maximum(x, 0)
    y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    return 1 / (1 + np.exp(-y - 0.5))


def _data(size: int) -> list[Any]:
    return [np.random.default_rng(0).standard_normal(size, dtype=np.float32)]


def cases(kind: str) -> Iterator[RaceCase]:
    """Sizes of a CPU or a GPU; the backward reads x and the seed again and writes the gradient."""
    for power in POWERS[kind]:
        size = 1 << power
        limits = {"forward": copying(8 * size), "both": copying(20 * size)}
        held = limits if size > LAUNCHED else {}
        yield from function_cases(f"2^{power}", FORMS, partial(_data, size), **held)
