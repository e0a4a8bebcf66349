"""Layers under the names of `torch.nn`, in JAX: what models here are built of, as plain objects.

A parameter is an attribute, first its shape, then its value: `Parameters` puts values in, those of
a trace as well, so that a model with attributes becomes a function of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from harness.peers import library


@final
@dataclass(frozen=True)
class Shape:
    """A parameter that has no value yet."""

    sizes: tuple[int, ...]


class Part:
    """What has parameters, or parts that have."""

    def children(self) -> Iterable[tuple[str, Any]]:
        """The parts of it by name."""
        return [value for value in vars(self).items() if isinstance(value[1], Part)]


class Module(Part, ABC):
    """A part that computes something."""

    def __call__(self, *inputs: Any) -> Any:
        return self.forward(*inputs)

    @abstractmethod
    def forward(self, *inputs: Any) -> Any:
        """What it computes."""


class ModuleList(Part):
    """Parts by number."""

    def __init__(self, parts: Iterable[Any]) -> None:
        self.parts = list(parts)

    def children(self) -> Iterable[tuple[str, Any]]:
        return [(str(number), part) for number, part in enumerate(self.parts)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def __getitem__(self, number: int) -> Any:
        return self.parts[number]


class Sequential(ModuleList, Module):
    """Parts one after the other."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(parts)

    def forward(self, *inputs: Any) -> Any:
        (x,) = inputs
        for part in self.parts:
            x = part(x)
        return x


@final
class Parameters:
    """Where a model keeps its parameters, in PyTorch's order and under its names."""

    def __init__(self, model: Module) -> None:
        self.places = list(_places(model, ""))
        self.shapes = {name: getattr(owner, key).sizes for name, owner, key in self.places}

    def put(self, values: Sequence[Any]) -> None:
        """Let the model have these."""
        for (_, owner, key), value in zip(self.places, values, strict=True):
            setattr(owner, key, value)


def _places(model: Part, prefix: str) -> Iterator[tuple[str, Part, str]]:
    for key, value in vars(model).items():
        if isinstance(value, Shape):
            yield f"{prefix}{key}", model, key
    for name, child in model.children():
        yield from _places(child, f"{prefix}{name}.")


# -- layers ------------------------------------------------------------------------------


class Linear(Module):
    """x W^T + b."""

    def __init__(self, before: int, after: int) -> None:
        self.weight: Any = Shape((after, before))
        self.bias: Any = Shape((after,))

    def forward(self, *inputs: Any) -> Any:
        return inputs[0] @ self.weight.T + self.bias


class Embedding(Module):
    """Rows by their numbers."""

    def __init__(self, count: int, width: int) -> None:
        self.weight: Any = Shape((count, width))

    def forward(self, *inputs: Any) -> Any:
        return self.weight[inputs[0]]


class LayerNorm(Module):
    """Over the last dimension."""

    def __init__(self, width: int) -> None:
        self.weight: Any = Shape((width,))
        self.bias: Any = Shape((width,))

    def forward(self, *inputs: Any) -> Any:
        return _normalized(inputs[0], (-1,)) * self.weight + self.bias


class BatchNorm2d(Module):
    """By the statistics of the batch; the running ones, which no loss reads, are left out."""

    def __init__(self, channels: int) -> None:
        self.weight: Any = Shape((channels,))
        self.bias: Any = Shape((channels,))

    def forward(self, *inputs: Any) -> Any:
        weight, bias = (parameter[:, None, None] for parameter in (self.weight, self.bias))
        return _normalized(inputs[0], (0, 2, 3)) * weight + bias


class Conv2d(Module):
    """Without a bias."""

    def __init__(
        self,
        before: int,
        after: int,
        size: int,
        *,
        bias: bool,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        assert not bias, "the models here have none"
        self.weight: Any = Shape((after, before, size, size))
        self.stride, self.padding = (stride, stride), [(padding, padding)] * 2

    def forward(self, *inputs: Any) -> Any:
        convolve = library("jax").lax.conv_general_dilated
        return convolve(inputs[0], self.weight, self.stride, self.padding)


class AdaptiveAvgPool2d(Module):
    """To one value per channel."""

    def __init__(self, size: int) -> None:
        assert size == 1, "the models here have no other"

    def forward(self, *inputs: Any) -> Any:
        return inputs[0].mean((2, 3), keepdims=True)


class Flatten(Module):
    """All dimensions but the first as one."""

    def forward(self, *inputs: Any) -> Any:
        return inputs[0].reshape(len(inputs[0]), -1)


class Identity(Module):
    """What it is given."""

    def forward(self, *inputs: Any) -> Any:
        return inputs[0]


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, *inputs: Any) -> Any:
        return library("jax").nn.relu(inputs[0])


class GELU(Module):
    """By tanh."""

    def __init__(self, approximate: str) -> None:
        assert approximate == "tanh", "the models here have no other"

    def forward(self, *inputs: Any) -> Any:
        return library("jax").nn.gelu(inputs[0])


def _normalized(x: Any, axes: tuple[int, ...]) -> Any:
    jax = library("jax")
    mean = x.mean(axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)
