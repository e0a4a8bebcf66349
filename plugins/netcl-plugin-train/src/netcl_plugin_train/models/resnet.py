"""ResNet, with the names of torchvision's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from netcl_plugin_nn.module import Module

from netcl_core import autograd as ag
from netcl_core import nn


@final
class _Residual(Module):
    """Convolutions of 3 x 3 twice, or of 1, 3 and 1 (a bottleneck), and the way around."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        rows = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        if bottleneck:
            rows = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        self.count = len(rows)
        for i, (given, channels, size, step) in enumerate(rows, start=1):
            conv = nn.Conv2d(given, channels, size, step, padding=size // 2, bias=False)
            setattr(self, f"conv{i}", conv)
            setattr(self, f"bn{i}", nn.BatchNorm2d(channels))
        self.downsample = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Any) -> Any:
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = ag.relu(y) if i < self.count else y
        return ag.relu(y + (x if self.downsample is None else self.downsample(x)))


@final
class ResNet(Module):
    """A residual network (He et al. 2015, arXiv:1512.03385): scores of classes.

    >>> model = models.ResNet((1, 1), classes=10, width=8, small=True)
    >>> model(nc.rand(2, 3, 32, 32)).shape
    (2, 10)

    Args:
        blocks: How many residual blocks each stage has: (2, 2, 2, 2) is ResNet-18, (3, 4, 6, 3)
            ResNet-34, with `bottleneck` ResNet-50.
        classes: How many there are.
        width: Channels of the first stage; each further one has twice as many.
        bottleneck: Whether a block has three convolutions and gives 4 times the channels.
        small: For pictures of 32 x 32: the first convolution is 3 x 3 and keeps their size.
    """

    def __init__(
        self,
        blocks: Sequence[int] = (2, 2, 2, 2),
        classes: int = 1000,
        width: int = 64,
        bottleneck: bool = False,
        small: bool = False,
    ) -> None:
        super().__init__()
        size, stride = (3, 1) if small else (7, 2)
        self.conv1 = nn.Conv2d(3, width, size, stride, padding=size // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.small = small
        self.stages, inputs = len(blocks), width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                step = 2 if stage and not i else 1
                layers.append(_Residual(inputs, width << stage, step, bottleneck))
                inputs = (width << stage) * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, pictures: Any) -> Any:
        """Scores (N, classes) of pictures (N, 3, height, width)."""
        x = ag.relu(self.bn1(self.conv1(pictures)))
        x = x if self.small else ag.max_pool2d(x, 3, stride=2, padding=1)
        for stage in range(1, self.stages + 1):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(ag.adaptive_avg_pool2d(x, 1).flatten(1))
