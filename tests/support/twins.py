"""Training steps with state of their own, for captures: two of a kind begin alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, optim

Arrays: TypeAlias = tuple[Any, ...]


def floats(shape: Any, seed: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def leaf(shape: Any, seed: int) -> nc.Tensor:
    return nc.tensor(floats(shape, seed), requires_grad=True)


def equal(first: Any, second: Any) -> None:
    np.testing.assert_array_equal(first.numpy(), second.numpy())


class Twin(ABC):
    """A step with state of its own; two of them begin alike."""

    def __init__(self) -> None:
        self.params: list[nc.Tensor] = []
        self.companions: list[Any] = []

    @abstractmethod
    def step(self, *inputs: Any) -> Any:
        """One step; gives what it computed."""

    @staticmethod
    @abstractmethod
    def inputs(turn: int) -> Arrays:
        """What the step of a turn is given."""


class WeightedSum(Twin):
    def __init__(self) -> None:
        super().__init__()
        self.params = [leaf((7, 33), 0)]

    def step(self, *inputs: Any) -> Any:
        loss = ag.sum(inputs[0] * self.params[0])
        loss.backward()
        with ag.no_grad():
            self.params[0].overwrite(self.params[0] - self.params[0].grad * 0.01)
        return loss

    @staticmethod
    def inputs(turn: int) -> Arrays:
        return (floats((7, 33), turn + 1),)


class Classifier(Twin):
    def __init__(self) -> None:
        super().__init__()
        self.params = [leaf((12, 5), 0)]
        self.companions = [optim.SGD(self.params, lr=0.1, momentum=0.9)]

    def step(self, *inputs: Any) -> Any:
        self.companions[0].zero_grad()
        loss = ag.cross_entropy(inputs[0] @ self.params[0], inputs[1])
        loss.backward()
        self.companions[0].step()
        return loss

    @staticmethod
    def inputs(turn: int) -> Arrays:
        labels = np.random.default_rng(turn).integers(0, 5, 9)
        return floats((9, 12), turn + 1), labels


class Network(Twin):
    def __init__(self) -> None:
        super().__init__()
        layers = nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 5)
        self.model = nn.Sequential(*layers)
        for number, parameter in enumerate(self.model.parameters()):
            parameter.overwrite(floats(parameter.shape, number) * 0.3)
        self.params = list(self.model.parameters())
        optimizer = optim.Adam(self.params, lr=1e-2)
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
        self.companions = [optimizer, schedule]

    def step(self, *inputs: Any) -> Any:
        optimizer, schedule = self.companions
        loss = ag.cross_entropy(self.model(inputs[0]), inputs[1], label_smoothing=0.1)
        loss.backward()
        optim.clip_grad_norm_(self.params, 1.0)
        optimizer.step()
        schedule.step()
        gradient = self.params[0].grad * 1.0
        optimizer.zero_grad()
        return loss, gradient

    inputs = staticmethod(Classifier.inputs)


def values(twin: Twin, result: Any) -> list[Any]:
    """The outputs, parameters and gradients on the host."""
    outputs = result if isinstance(result, tuple) else (result,)
    gradients = [param.grad for param in twin.params]
    arrays = [*outputs, *twin.params, *gradients]
    return [None if array is None else array.numpy() for array in arrays]


def same(actual: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(actual, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


def alike(first: Any, second: Any) -> None:
    """Two states are the same."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            alike(first[name], second[name])
    elif isinstance(first, nc.Tensor):
        equal(first, second)
    else:
        np.testing.assert_array_equal(first, second)
