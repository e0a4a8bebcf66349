"""A training step of an LSTM and of a GRU: many small steps, and few larger ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from harness import RaceCase, model_case, multiplying


class Size(NamedTuple):
    """The sizes of a sequence and of a layer."""

    steps: int
    batch: int
    inputs: int
    hidden: int


SIZES: Final = {
    "cpu": (Size(32, 16, 64, 128), Size(16, 64, 256, 256)),
    "gpu": (Size(128, 64, 256, 512), Size(64, 256, 512, 1024)),
}
#: Rows of weights for each element of the hidden state.
GATES: Final = {"LSTM": 4, "GRU": 3}


def model(name: str, size: Size, nn: Any) -> Any:
    """One layer, in one direction."""
    return getattr(nn, name)(size.inputs, size.hidden)


def loss(ops: Any, layer: Any, x: Any) -> Any:
    """The mean square of the outputs."""
    output = layer(x)[0]
    return ops.mean(output * output)


def _data(size: Size) -> list[Any]:
    shape = (size.steps, size.batch, size.inputs)
    return [np.random.default_rng(1).standard_normal(shape).astype(np.float32)]


def cases(kind: str) -> Iterator[RaceCase]:
    """Limited by the products: a forward and two backward."""
    for name, gates in GATES.items():
        for size in SIZES[kind]:
            rows, columns = size.steps * size.batch, gates * size.hidden
            products = 2 * rows * columns * (size.inputs + size.hidden)
            yield model_case(
                f"{name} {size.inputs} -> {size.hidden}, {size.steps} x {size.batch}, Adam step",
                partial(model, name, size),
                loss,
                partial(_data, size),
                limit=multiplying(3 * products, kind),
                needs=[f"nn.{name}"],
                by_jax=False,
            )
