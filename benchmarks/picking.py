"""Ops that sort, and ops whose results depend on the data: masks, unique, counts, sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, function_cases

#: Elements, and the places that they go to.
SIZES = {"cpu": (1 << 18, 1 << 12), "gpu": (1 << 22, 1 << 16)}


def _numbers(size: int, *_: Any) -> list[Any]:
    return [np.random.default_rng(0).standard_normal(size, np.float32)]


def _places(size: int, places: int) -> list[Any]:
    random = np.random.default_rng(0)
    return [random.standard_normal(size, np.float32), random.integers(0, places, size)]


def _zeros(library: Any, places: int, x: Any) -> Any:
    return library.zeros(places, device=x.device)


def _summed(places: int, np: Any, x: Any, index: Any) -> Any:
    out = np.zeros(places)
    np.add.at(out, index, x)
    return out


#: Name -> the forms of each library, and the data; the result is in order, whatever made it.
FORMS: dict[str, tuple[Callable[[int], dict[str, Any]], Any]] = {
    "sort": (lambda places: {
        "netcl": lambda ag, x: ag.sort(x).values,
        "torch": lambda torch, x: torch.sort(x).values,
        "numpy": lambda np, x: np.sort(x),
    }, _numbers),
    "topk 64": (lambda places: {
        "netcl": lambda ag, x: ag.topk(x, 64).values,
        "torch": lambda torch, x: torch.topk(x, 64).values,
        "numpy": lambda np, x: np.sort(x)[::-1][:64],
    }, _numbers),
    "x[mask]": (lambda places: {
        "netcl": lambda ag, x: x[x > 0],
        "torch": lambda torch, x: x[x > 0],
        "numpy": lambda np, x: x[x > 0],
    }, _numbers),
    "unique": (lambda places: {
        "netcl": lambda ag, x, index: ag.unique(index),
        "torch": lambda torch, x, index: torch.unique(index),
        "numpy": lambda np, x, index: np.unique(index),
    }, _places),
    "bincount": (lambda places: {
        "netcl": lambda ag, x, index: ag.bincount(index),
        "torch": lambda torch, x, index: torch.bincount(index),
        "numpy": lambda np, x, index: np.bincount(index),
    }, _places),
    "scatter_add": (lambda places: {
        "netcl": lambda ag, x, index: _zeros(ag, places, x).scatter_add(0, index, x),
        "torch": lambda torch, x, index: _zeros(torch, places, x).scatter_add(0, index, x),
        "numpy": partial(_summed, places),
    }, _places),
    "scatter_add to 4 places": (lambda places: {
        "netcl": lambda ag, x, index: _zeros(ag, 4, x).scatter_add(0, index % 4, x),
        "torch": lambda torch, x, index: _zeros(torch, 4, x).scatter_add(0, index % 4, x),
        "numpy": lambda np, x, index: _summed(4, np, x, index % 4),
    }, _places),
    "order of random": (lambda places: {
        "netcl": lambda ag, x: ag.sort(ag.randperm(x.shape[0], device=x.device)).values,
        "torch": lambda torch, x: torch.sort(torch.randperm(x.shape[0], device=x.device)).values,
        "numpy": lambda np, x: np.arange(x.shape[0]),
    }, _numbers),
}  # fmt: skip


def cases(kind: str) -> Iterator[RaceCase]:
    """Forwards alone."""
    size, places = SIZES[kind]
    for name, (forms, data) in FORMS.items():
        makers = partial(data, size, places)
        yield from function_cases(name, forms(places), makers, gradients=0, tolerance=1e-4)
