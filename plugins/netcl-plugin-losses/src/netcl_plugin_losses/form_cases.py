"""How cases of losses are made: what they are called with, a case for each reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, normal, uniform

import netcl_core.autograd as ag

Arrays = Sequence[Any]
Shape = tuple[int, ...]
X, LOGITS, P = normal(), normal(3), uniform(0.05, 0.95)
WEIGHT = uniform(0.25, 3)
REDUCTIONS = ("mean", "sum", "none")
#: Odd sizes, one element, five dimensions.
PAIRS: Sequence[Sequence[Shape]] = [[(5, 7)] * 2, [(1,)] * 2, [(2, 3, 1, 5, 7)] * 2]
AT_TIES = {"gradient": "equal inputs are kinks"}
BEYOND = {
    "non-finite": "PyTorch refuses probabilities beyond 0 to 1; here they are clamped, or give NaN"
}
AT_EDGES = BEYOND | {
    "gradient": "0 and 1 are the edges of the domain",
    "values in float64": "PyTorch's bounds are rounded there: its 1e-12 to float32, its 1 - 1e-7",
}
INFINITE = {
    "non-finite": "PyTorch's (1 - target) * input is NaN at -inf, where the loss is infinite"
}


def distribution(random: np.random.Generator, shape: Shape) -> Any:
    """Probabilities of classes along axis 1."""
    values = random.uniform(0.1, 1, shape)
    return values / values.sum(min(1, len(shape) - 1), keepdims=True)


def edges(random: np.random.Generator, shape: Shape) -> Any:
    """Probabilities of which half are 0 or 1, where logarithms are clamped."""
    return random.choice([0.0, 1.0, 0.25, 0.75], shape)


def logarithms(random: np.random.Generator, shape: Shape) -> Any:
    """Logarithms of probabilities."""
    return -random.uniform(0.05, 0.95, shape)


def with_ignored(classes: int, ignored: int = -100) -> Any:
    """Class indices, every third of them ignored."""

    def sample(random: np.random.Generator, shape: Shape) -> Any:
        labels = np.asarray(random.integers(0, classes, shape))
        labels.reshape(-1)[::3] = ignored
        return labels  # fmt: skip

    return sample


def loss(
    op: str,
    inputs: Arrays,
    shapes: Sequence[Sequence[Shape]] = PAIRS,
    names: Sequence[str] = (),
    torch: Callable[..., Any] | None = None,
    note: str = "",
    reductions: Sequence[str] = REDUCTIONS,
    gradients: Sequence[int] | None = None,
    skip: Any = None,
    **attrs: Any,
) -> Iterator[Case]:
    """A case per reduction; the last inputs go by `names`, as `weight` does."""
    first = len(inputs) - len(names)

    def split(tensors: Arrays) -> tuple[Arrays, dict[str, Any]]:
        return tensors[:first], attrs | dict(zip(names, tensors[first:], strict=True))

    for reduction in reductions:

        def ours(*tensors: Any, reduction: str = reduction) -> Any:
            data, rest = split(tensors)
            return getattr(ag, op)(*data, **rest, reduction=reduction)  # fmt: skip

        def theirs(t: Any, *tensors: Any, reduction: str = reduction) -> Any:
            data, rest = split(tensors)
            function = torch or getattr(t.nn.functional, op)
            data = (t, *data) if torch else data
            return function(*data, **rest, reduction=reduction)

        words = [*names, *(f"{k}={v}" for k, v in attrs.items()), note, reduction]
        title = "-".join(filter(None, words))
        yield Case(op, inputs, theirs, call=ours, shapes=shapes, skip=skip or {},
                   gradients=gradients or range(first), note=title)  # fmt: skip


TRIPLES: Sequence[Sequence[Shape]] = [[(5, 7)] * 3, [(1,)] * 3, [(2, 3, 1, 5, 7)] * 3]
