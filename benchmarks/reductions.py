"""Sums, and the ops on rows: softmax, log_softmax, layer_norm."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, copying, function_cases

#: Rows and columns.
SHAPES = {"cpu": (4096, 1024), "gpu": (65536, 1024)}


def _sums(axis: int | None) -> dict[str, Any]:
    return {
        "netcl": lambda ag, x: ag.sum(x, axis),
        "torch": lambda torch, x: torch.sum(x, axis),
        "jax": lambda jax, x: x.sum(axis),
        "tinygrad": lambda tensor, x: x.sum(axis),
        "numpy": lambda np, x: x.sum(axis),
    }


def _log_softmax(np: Any, x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _norm(np: Any, x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred / spread * weight + bias


def _jax_norm(jax: Any, x: Any, weight: Any, bias: Any) -> Any:
    return _norm(jax.numpy, x, weight, bias)


SOFTMAX = {
    "netcl": lambda ag, x: ag.softmax(x),
    "torch": lambda torch, x: torch.softmax(x, -1),
    "jax": lambda jax, x: jax.nn.softmax(x),
    "tinygrad": lambda tensor, x: x.softmax(),
    "numpy": lambda np, x: np.exp(_log_softmax(np, x)),
}
LOG_SOFTMAX = {
    "netcl": lambda ag, x: ag.log_softmax(x),
    "torch": lambda torch, x: torch.log_softmax(x, -1),
    "jax": lambda jax, x: jax.nn.log_softmax(x),
    "tinygrad": lambda tensor, x: x.log_softmax(),
    "numpy": _log_softmax,
}
LAYER_NORM = {
    "netcl": lambda ag, x, w, b: ag.layer_norm(x, w.shape, w, b),
    "torch": lambda torch, x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b),
    "jax": _jax_norm,
    "numpy": _norm,
}


def _data(shape: tuple[int, int], count: int) -> list[Any]:
    """A matrix, and as many rows as there are further arguments."""
    random = np.random.default_rng(0)
    rows = [random.standard_normal(shape[1], dtype=np.float32) for _ in range(count - 1)]
    return [random.standard_normal(shape, dtype=np.float32), *rows]


def cases(kind: str) -> Iterator[RaceCase]:
    """A sum reads the matrix; the others write one, and their backwards read two and write one."""
    shape = SHAPES[kind]
    nbytes, text = 4 * shape[0] * shape[1], f"{shape[0]}x{shape[1]}"
    for name, axis in (("all", None), ("last axis", 1), ("first axis", 0)):
        data, limit = partial(_data, shape, 1), copying(nbytes)
        title = f"sum {name} {text}"
        yield from function_cases(title, _sums(axis), data, gradients=0, forward=limit)
    rows = (("softmax", SOFTMAX, 1), ("log_softmax", LOG_SOFTMAX, 1), ("layer_norm", LAYER_NORM, 3))
    for name, forms, count in rows:
        yield from function_cases(
            f"{name} {text}",
            forms,
            partial(_data, shape, count),
            gradients=count,
            forward=copying(2 * nbytes),
            both=copying(5 * nbytes),
        )
