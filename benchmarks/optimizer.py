"""An optimizer's step alone, with and without a GradScaler, beside PyTorch's fused form."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, RaceWork, copying

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, optim

#: Of weights and biases of the MLP 784-512-256-10.
MLP = [(512, 784), (512,), (256, 512), (256,), (10, 256), (10,)]
RATE, DECAY, EPS = 1e-3, 0.01, 1e-8
Shapes = list[tuple[int, ...]]


def _data(shapes: Shapes) -> tuple[list[Any], list[Any]]:
    """Parameters and their gradients."""
    random = np.random.default_rng(0)
    both = ([random.standard_normal(shape, np.float32) for shape in shapes] for _ in range(2))
    return next(both), next(both)


def _right(shapes: Shapes) -> list[Any]:
    """After the first step of AdamW, where both averages are those of one gradient."""
    params, grads = ([x.astype(np.float64) for x in arrays] for arrays in _data(shapes))
    kept = (1 - RATE * DECAY) * np.float64(1)
    return [kept * p - RATE * g / (np.abs(g) + EPS) for p, g in zip(params, grads, strict=True)]


def _work(params: list[Any], call: Callable[[], Any], host: Callable[[Any], Any]) -> RaceWork:
    """Its results are those of a step."""

    def results() -> list[Any]:
        call()
        return [host(param) for param in params]

    return RaceWork(call, results)


def _ours(shapes: Shapes, scaled: bool, replayed: bool, device: nc.Device) -> RaceWork:
    arrays, gradients = _data(shapes)
    params = [nc.tensor(array, requires_grad=True) for array in arrays]
    held = [nc.tensor(each) for each in gradients]
    optimizer = optim.AdamW(params, lr=RATE, weight_decay=DECAY)
    scaler = amp.GradScaler(1.0, growth_interval=10**9)

    def step() -> None:
        for param, gradient in zip(params, held, strict=True):
            param.grad = gradient
        if scaled:
            scaler.step(optimizer)
        else:
            optimizer.step()

    if not replayed:
        return _work(params, step, lambda each: each.numpy())
    given, graphs = nc.Tensor.ones((1,)), list[Any]()

    def captured(one: Any) -> Any:
        for param, gradient in zip(params, held, strict=True):
            param.grad = gradient.detach()
        scaler.step(optimizer) if scaled else optimizer.step()
        return one * 1.0

    def call() -> None:
        if graphs:
            graphs[0](given)
        else:
            graphs.append(ag.capture(captured, given))

    return _work(params, call, lambda each: each.numpy())


def _theirs(shapes: Shapes, scaled: bool, device: nc.Device) -> RaceWork:
    torch = importlib.import_module("torch")
    place = "cuda" if device.kind == "gpu" else "cpu"
    arrays, gradients = _data(shapes)
    params = [torch.nn.Parameter(torch.from_numpy(array).to(place)) for array in arrays]
    for param, gradient in zip(params, gradients, strict=True):
        param.grad = torch.from_numpy(gradient).to(place)
    optimizer = torch.optim.AdamW(params, lr=RATE, weight_decay=DECAY, fused=True)
    scaler = torch.amp.GradScaler(place, init_scale=1.0, growth_interval=10**9)
    scaler.scale(torch.ones((), device=place))

    def step() -> None:
        if scaled:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    return _work(params, step, lambda each: each.detach().cpu().numpy())


def cases(kind: str) -> Iterator[RaceCase]:
    """Limited by a copy: four arrays are read and three written."""
    sizes: dict[str, Shapes] = {"2^22": [(1 << 22,)], "the MLP's parameters": MLP}
    for name, shapes in sizes.items():
        size = sum(int(np.prod(shape)) for shape in shapes)
        for scaled in (False, True):
            yield RaceCase(
                f"AdamW {name}{', GradScaler' if scaled else ''}",
                {
                    "netcl": partial(_ours, shapes, scaled, False),
                    "netcl-replay": partial(_ours, shapes, scaled, True),
                    "torch": partial(_theirs, shapes, scaled),
                },
                partial(_right, shapes),
                copying(28 * size),
            )
