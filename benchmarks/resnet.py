"""A training step of ResNet-18 on pictures of 32 x 32: convolutions, batch norm, SGD.

As for CIFAR: the first convolution is 3 x 3 with stride 1, and no pooling follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, model_case, multiplying

WIDTHS, CLASSES, SIDE = (64, 128, 256, 512), 10, 32
BATCHES = {"cpu": 16, "gpu": 128}
#: A value near 0 may pass relu in float32 and not in float64: PyTorch is off by 2e-2 itself.
TOLERANCE = 0.1
NEEDS = ("conv2d", "nn.Conv2d", "nn.BatchNorm2d", "nn.AdaptiveAvgPool2d")


def model(nn: Any) -> Any:
    """Two blocks of each width."""

    class Block(nn.Module):  # type: ignore[misc]  # of either library
        """Two convolutions, around which the input goes."""

        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
            self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
            self.relu, self.around = nn.ReLU(), nn.Identity()
            if stride > 1:
                narrow = nn.Conv2d(before, after, 1, stride=stride, bias=False)
                self.around = nn.Sequential(narrow, nn.BatchNorm2d(after))

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norms[0](self.first(x)))
            return self.relu(self.norms[1](self.second(y)) + self.around(x))

    layers = [nn.Conv2d(3, WIDTHS[0], 3, padding=1, bias=False), nn.BatchNorm2d(WIDTHS[0])]
    layers.append(nn.ReLU())
    before = WIDTHS[0]
    for width in WIDTHS:
        layers += [Block(before, width, 1 if width == before else 2), Block(width, width, 1)]
        before = width
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers, *ends)


def loss(ops: Any, model: Any, x: Any, y: Any) -> Any:
    """Of pictures and labels."""
    return ops.cross_entropy(model(x), y)


def _data(batch: int) -> list[Any]:
    random = np.random.default_rng(1)
    pictures = random.standard_normal((batch, 3, SIDE, SIDE), np.float32)
    return [pictures, random.integers(0, CLASSES, batch)]


def _operations(batch: int) -> float:
    """Of the convolutions' forward."""
    total, side, before = 2.0 * batch * SIDE**2 * 9 * 3 * WIDTHS[0], SIDE, WIDTHS[0]
    for width in WIDTHS:
        side = side if width == before else side // 2
        inner = 3 * 9 * width**2 + 9 * before * width + (width != before) * before * width
        total += 2.0 * batch * side**2 * inner
        before = width
    return total


def case(kind: str, cast: Callable[[Any], Any] = lambda loss: loss, **options: Any) -> RaceCase:
    """Limited by its convolutions as products: a forward and two backward."""
    batch = BATCHES[kind]
    limit = multiplying(3 * _operations(batch), kind)
    given: dict[str, Any] = {"limit": limit, "tolerance": TOLERANCE, **options}
    return model_case(
        f"batch {batch}, SGD step",
        model,
        cast(loss),
        partial(_data, batch),
        optimizer="SGD",
        needs=NEEDS,
        **given,
    )


def cases(kind: str) -> Iterator[RaceCase]:
    """The one of the batch for this kind of device."""
    yield case(kind)
