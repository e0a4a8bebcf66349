"""Single elementwise ops, which can be no faster than a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, copying, function_cases

SIZES = {"cpu": 22, "gpu": 26}


def _by_numpy(np: Any, x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


#: Op -> (its forms, how many arrays it takes).
OPS: dict[str, tuple[dict[str, Any], int]] = {
    "relu": (
        {
            "netcl": lambda ag, x: ag.relu(x),
            "torch": lambda torch, x: torch.relu(x),
            "jax": lambda jax, x: jax.nn.relu(x),
            "tinygrad": lambda tensor, x: x.relu(),
            "numpy": lambda np, x: np.maximum(x, 0),
        },
        1,
    ),
    "gelu": (
        {
            "netcl": lambda ag, x: ag.gelu(x),
            "torch": lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
            "jax": lambda jax, x: jax.nn.gelu(x),
            "tinygrad": lambda tensor, x: x.gelu(),
            "numpy": _by_numpy,
        },
        1,
    ),
    "add": (
        {name: lambda library, x, y: x + y for name in ("netcl", "torch", "jax", "tinygrad")}
        | {"numpy": lambda np, x, y: x + y},
        2,
    ),
}


def _data(count: int, size: int) -> list[Any]:
    return list(np.random.default_rng(0).standard_normal((count, size), dtype=np.float32))


def cases(kind: str) -> Iterator[RaceCase]:
    """Forwards alone: the backward of one op is an op like it."""
    size = 1 << SIZES[kind]
    for name, (forms, count) in OPS.items():
        limit = copying(4 * (count + 1) * size)
        title, data = f"{name} 2^{SIZES[kind]}", partial(_data, count, size)
        yield from function_cases(title, forms, data, gradients=0, forward=limit)
