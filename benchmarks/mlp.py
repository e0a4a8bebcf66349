"""A training step of an MLP 784-512-256-10: cross_entropy, backward, Adam."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from harness import RaceCase, model_case, multiplying

SIZES = (784, 512, 256, 10)
BATCHES = {"cpu": (128,), "gpu": (128, 1024)}


def model(nn: Any) -> Any:
    """Linear layers with relu between them."""
    layers = []
    for before, after in pairwise(SIZES):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def loss(ops: Any, model: Any, x: Any, y: Any) -> Any:
    """Of pictures and labels."""
    return ops.cross_entropy(model(x), y)


def _data(batch: int) -> list[Any]:
    random = np.random.default_rng(1)
    pictures = random.standard_normal((batch, SIZES[0]), np.float32)
    return [pictures, random.integers(0, SIZES[-1], batch)]


def case(
    kind: str, batch: int, cast: Callable[[Any], Any] = lambda loss: loss, **options: Any
) -> RaceCase:
    """Limited by its products: one forward, two backward, none for the gradient of pictures."""
    products = [2 * batch * before * after for before, after in pairwise(SIZES)]
    given: dict[str, Any] = {"limit": multiplying(3 * sum(products) - products[0], kind), **options}
    return model_case(
        f"batch {batch}, Adam step", model, cast(loss), partial(_data, batch), **given
    )


def cases(kind: str) -> Iterator[RaceCase]:
    """The batches for this kind of device."""
    return (case(kind, batch) for batch in BATCHES[kind])
