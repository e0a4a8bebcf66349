"""The scenarios of the scaler: a script of finite and other gradients, eagerly and captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from netcl_plugin_kit.testing import Scenario

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor, optim
from netcl_plugin_amp.grad_scaler import GradScaler

#: One element, none, an odd size, several blocks with a tail.
SHAPES: Final[tuple[tuple[int, ...], ...]] = ((), (0, 3), (7, 5), (3, 1371))
#: 16-bit parameters are roundings of masters.
TOLERANCE: Final = {"bfloat16": 5e-3, "float16": 6e-4, "float32": 2e-6, "float64": 1e-13}
#: What the gradient of a step has somewhere besides finite numbers.
SCRIPT: Final = (None, None, np.inf, None, np.nan, -np.inf, None, None, None)
#: The scale after each step: it doubles after two clean steps in a row.
SCALES: Final = (8.0, 16.0, 8.0, 8.0, 4.0, 2.0, 2.0, 4.0, 4.0)


class _Training:
    """Parameters of all floating dtypes and some shapes, and a float64 copy on the host."""

    def __init__(self, device: Device) -> None:
        self.random = np.random.default_rng(0)
        dtypes = [name for name in TOLERANCE if name != "float64" or device.supports_fp64]
        kinds = [(shape, dtype) for dtype in dtypes for shape in SHAPES]
        self.wanted = [self.drawn(*kind).astype("float64") for kind in kinds]
        self.params = [
            Tensor.from_host(
                np.asarray(value).astype(DTYPES[dtype].numpy), device, requires_grad=True
            )
            for value, (_, dtype) in zip(self.wanted, kinds, strict=True)
        ]
        self.momentum = [np.zeros_like(value) for value in self.wanted]
        self.optimizer = optim.SGD(self.params, lr=0.125, momentum=0.5)
        self.scaler = GradScaler(8.0, growth_interval=2)

    def drawn(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.asarray(self.random.integers(-64, 65, shape) / 64).astype(DTYPES[dtype].numpy)

    def step(self, *gradients: Tensor) -> Tensor:
        """Backward of the sum of parameter times gradient, and a step."""
        self.optimizer.zero_grad()
        for parameter, gradient in zip(self.params, gradients, strict=True):
            scaled = self.scaler.scale_loss(ag.mul(parameter, gradient))
            scaled.backward(Tensor.ones(scaled.shape, scaled.dtype, scaled.device))
        self.scaler.step(self.optimizer)
        return gradients[0]

    def batch(self, bad: float | None) -> list[Any]:
        """Gradients, one of them with a bad element; a clean step's formula on the host."""
        gradients = [self.drawn(param.shape, param.dtype) for param in self.params]
        if bad is None:
            for value, moved, gradient in zip(self.wanted, self.momentum, gradients, strict=True):
                moved[...] = 0.5 * moved + gradient.astype("float64")
                value -= 0.125 * moved
        else:
            spoilt = gradients[int(self.random.choice([0, 2, 3, 6, 7]))].reshape(-1)
            spoilt[self.random.integers(spoilt.size)] = bad
        return gradients

    def compare(self) -> None:
        for parameter, right in zip(self.params, self.wanted, strict=True):
            limit, actual = TOLERANCE[parameter.dtype], parameter.to_host().astype("float64")
            np.testing.assert_allclose(actual, right, rtol=limit, atol=limit)


def _play(device: Device, begin: Callable[[_Training, list[Any]], Callable[..., Any]]) -> None:
    """The script; `begin` takes its first step, and returns what takes the others."""
    training = _Training(device)
    run = begin(training, [Tensor.from_host(array, device) for array in training.batch(SCRIPT[0])])
    for number, bad in enumerate(SCRIPT):
        if number:
            run(*[Tensor.from_host(array, device) for array in training.batch(bad)])
        assert training.scaler.get_scale() == SCALES[number]
        training.compare()


def eager(device: Device) -> None:
    """Steps as they are called."""

    def begin(training: _Training, first: list[Any]) -> Callable[..., Any]:
        training.step(*first)
        return training.step

    _play(device, begin)


def captured(device: Device) -> None:
    """Replays, in which the device decides."""

    def begin(training: _Training, first: list[Any]) -> Callable[..., Any]:
        given = [tensor for tensor in first if tensor.size]  # what a graph never reads is no input

        def step(*others: Tensor) -> Tensor:
            rest = iter(others)
            return training.step(*[next(rest) if tensor.size else tensor for tensor in first])

        graph = ag.capture(step, *given, device=device)
        return lambda *gradients: graph(*[gradient for gradient in gradients if gradient.size])

    _play(device, begin)


SCALER: Final = [
    Scenario("amp", "GradScaler", eager),
    Scenario("amp", "GradScaler-captured", captured),
]
