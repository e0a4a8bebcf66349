"""Normalisation per channel, pooling and interpolation at the sizes of ResNets, beside PyTorch.

    python benchmarks/pictures.py [device] [--batch N] [--seconds S] [--only NAME]

Prints forward, and forward with backward: the best time of several in milliseconds, and the ratio
of ours to PyTorch's eager mode (on CUDA if the device is a GPU and CUDA is there). Calls of both
are made in turn, so that whatever else the machine does meets both; results are compared before.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag

Function = Callable[..., Any]


@dataclass(frozen=True)
class Item:
    """A function here and there, of x and, if it has channels' weights, of these."""

    name: str
    shape: tuple[int, ...]
    ours: Function
    theirs: Function
    weights: int = 0


def torch_functions() -> Any:
    """PyTorch's functions."""
    return importlib.import_module("torch").nn.functional


def normalised(batch: int) -> list[Item]:
    """batch_norm in training and group_norm."""
    there = torch_functions()
    items = []
    for shape in ((64, 56, 56), (256, 14, 14), (512, 7, 7), (64, 32, 32), (512, 4, 4)):
        items.append(Item("batch_norm", (batch, *shape), with_statistics(ag.batch_norm),
                          with_statistics(there.batch_norm), 4))  # fmt: skip
    grouped = called(ag.group_norm, (32,)), called(there.group_norm, (32,))
    items += [Item("group_norm 32", (batch, *shape), *grouped, 2)
              for shape in ((64, 56, 56), (512, 7, 7))]  # fmt: skip
    return items


def with_statistics(batch_norm: Function) -> Function:
    """batch_norm in training, which moves the last two of its weights."""
    return lambda x, w, b, m, v: batch_norm(x, m, v, w, b, True)


def pooled(batch: int) -> list[Item]:
    """Pooling as in ResNets and others."""
    there = torch_functions()
    rows: Sequence[tuple[str, tuple[int, ...], str, tuple[Any, ...]]] = (
        ("max_pool2d 3, 2, 1", (64, 112, 112), "max_pool2d", (3, 2, 1)),
        ("max_pool2d 2", (64, 32, 32), "max_pool2d", (2,)),
        ("avg_pool2d 2", (64, 56, 56), "avg_pool2d", (2,)),
        ("avg_pool2d 3, 1, 1", (64, 28, 28), "avg_pool2d", (3, 1, 1)),
        ("adaptive_avg_pool2d 7", (64, 56, 56), "adaptive_avg_pool2d", (7,)),
        ("adaptive_avg_pool2d 1", (512, 7, 7), "adaptive_avg_pool2d", (1,)),
    )
    return [
        Item(name, (batch, *shape), called(getattr(ag, op), args), called(getattr(there, op), args))
        for name, shape, op, args in rows
    ]


def called(function: Function, args: tuple[Any, ...], **given: Any) -> Function:
    """A function of x with settings, before its weights."""
    return lambda x, *weights: function(x, *args, *weights, **given)


def resized(batch: int) -> list[Item]:
    """Twice the size, in each mode."""
    there = torch_functions()
    shape = (batch, 64, 28, 28)
    return [
        Item(f"interpolate {mode}", shape, called(ag.interpolate, (None, 2, mode)),
             called(there.interpolate, (None, 2, mode)))
        for mode in ("nearest", "bilinear", "bicubic")
    ]  # fmt: skip


Calls = tuple[Callable[[], Any], Callable[[], Any]]


def drawn(shape: tuple[int, ...]) -> Any:
    """The same random numbers each time."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def ours(item: Item, data: Sequence[Any], device: nc.Device) -> tuple[Calls, Callable[[], Any]]:
    """netcl's forward, and forward with backward; and what waits for the device."""
    leaves = [nc.Tensor.from_host(array, device) for array in data]
    wanted = [leaf.requires_grad_() for leaf in leaves[:3]]
    upstream = nc.Tensor.from_host(drawn(item.ours(*leaves).shape), device)

    def alone() -> Any:
        with ag.no_grad():
            return item.ours(*leaves)

    both = lambda: ag.grad(item.ours(*leaves), wanted, upstream)  # noqa: E731 - as alone
    return (alone, both), device.queue.finish if device.queue is not None else lambda: None


def theirs(item: Item, data: Sequence[Any], place: str) -> tuple[Calls, Callable[[], Any]]:
    """The same in PyTorch."""
    torch = importlib.import_module("torch")
    leaves = [torch.tensor(array, device=place) for array in data]
    wanted = [leaf.requires_grad_() for leaf in leaves[:3]]
    upstream = torch.tensor(drawn(tuple(item.theirs(*leaves).shape)), device=place)

    def alone() -> Any:
        with torch.no_grad():
            return item.theirs(*leaves)

    both = lambda: torch.autograd.grad(item.theirs(*leaves), wanted, upstream)  # noqa: E731
    return (alone, both), torch.cuda.synchronize if place == "cuda" else lambda: None


def best(
    pairs: Sequence[tuple[Callable[[], Any], Callable[[], Any]]], seconds: float
) -> list[float]:
    """The least milliseconds of each call, made in turn for a while."""
    best = [float("inf")] * len(pairs)
    for call, finish in pairs:
        call()
        finish()
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < 5 or time.perf_counter() < end:
        rounds += 1
        for i, (call, finish) in enumerate(pairs):
            begin = time.perf_counter()
            call()
            finish()
            best[i] = min(best[i], 1e3 * (time.perf_counter() - begin))
    return best


def agree(item: Item, mine: Calls, other: Calls) -> None:
    """Raise AssertionError unless results and gradients are equal."""
    results = [(mine[0](), other[0]())]
    results += list(zip(mine[1](), other[1](), strict=True))
    for given, wanted in results:
        right = wanted.detach().cpu().numpy()
        limit = 1e-4 * max(1.0, float(abs(right).max()))
        np.testing.assert_allclose(given.to_host(), right, atol=limit, rtol=1e-3, err_msg=item.name)


def measure(item: Item, device: nc.Device, place: str, seconds: float) -> None:
    """One line of the table."""
    data = [drawn(item.shape)]
    channels = item.shape[1]
    starts = (np.ones, np.zeros, np.zeros, np.ones)[: item.weights]
    data += [start(channels, np.float32) for start in starts]
    (mine, finish), (other, wait) = ours(item, data, device), theirs(item, data, place)
    agree(item, mine, other)
    print(f"{item.name:24}{'x'.join(map(str, item.shape)):>16}", end="")
    for own, peer in zip(mine, other, strict=True):
        a, b = best([(own, finish), (peer, wait)], seconds)
        print(f"{a:10.3f}{b:10.3f}{a / b:7.2f}", end="")
    print()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?", default="")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: there is nothing to compare with")
        return
    if given.device:
        nc.use_device(given.device)
    device = nc.default_device()
    torch = importlib.import_module("torch")
    place = "cuda" if device.kind == "gpu" and torch.cuda.is_available() else "cpu"
    print(f"{device!r} and PyTorch {torch.__version__} on {place}, float32, ms")
    head = "".join(f"{name:>10}{'PyTorch':>10}{'ratio':>7}" for name in ("forward", "f+b"))
    print(f"{'':24}{'x':>16}{head}")
    for item in (*normalised(given.batch), *pooled(given.batch), *resized(given.batch)):
        if given.only in item.name:
            measure(item, device, place, given.seconds)


if __name__ == "__main__":
    main()
