"""A training step of an MLP 784-512-256-10 (batch 128, Adam) beside PyTorch's, in one run.

    python benchmarks/mlp.py [device]

Prints medians in microseconds per step and the ratio; PyTorch is skipped where it is missing.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, optim

SIZES, BATCH, STEPS, ROUNDS = (784, 512, 256, 10), 128, 20, 11


def batch() -> tuple[Any, Any]:
    """Random pictures and labels."""
    random = np.random.default_rng(0)
    pictures = random.standard_normal((BATCH, SIZES[0])).astype(np.float32)
    return pictures, random.integers(0, SIZES[-1], BATCH)


def training() -> Callable[[Any, Any], Any]:
    """One step of netcl on the default device, of pictures and labels."""
    layers: list[Any] = []
    for before, after in pairwise(SIZES):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ag.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def netcl_step() -> Callable[[], Any]:
    """The same with tensors on the device."""
    x, y = (nc.tensor(array) for array in batch())
    return partial(training(), x, y)


def torch_step() -> Callable[[], Any]:
    """The same step of PyTorch on the CPU."""
    import torch

    layers: list[Any] = []
    for before, after in pairwise(SIZES):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = (torch.from_numpy(array) for array in batch())

    def step() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main() -> None:
    """Measure both in turn, so that a busy machine slows both alike."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    steps = {f"netcl on {nc.default_device()!r}": netcl_step()}
    if importlib.util.find_spec("torch") is not None:
        steps["PyTorch on the CPU"] = torch_step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            step().item()
            start = time.perf_counter()
            for _ in range(STEPS):
                loss = step()
            loss.item()
            times[name].append((time.perf_counter() - start) / STEPS * 1e6)
    middle = {name: median(rounds) for name, rounds in times.items()}
    for name, time_us in middle.items():
        print(f"{name:60} {time_us:9.0f} us")
    if len(middle) == 2:
        ours, theirs = middle.values()
        print(f"netcl / PyTorch: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
