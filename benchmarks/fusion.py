"""A fused chain of elementwise ops beside PyTorch's and JAX's, in one run.

    python benchmarks/fusion.py [device] [--sizes 10,20,24] [--chart FILE.svg]

The chain is y = sigmoid(gelu(relu(x)) + 0.5) in float32, GELU by tanh; sizes are powers of
two. Ours is the function under `jit_compile`, called and recorded as in training. "forward"
computes y of an x without a gradient; "forward+backward" computes y and the gradient of x for a
given gradient of y; "sum" computes the sum of y. Every call makes fresh results through its
library's own allocator (ours is a pool, JAX's too; PyTorch on the CPU takes large results from
the system) and ends when they are there. All take turns, round after round, so that a busy
machine slows all alike; the best time of each counts.

On a CPU device PyTorch runs with two threads, and JAX if it is installed. On a GPU PyTorch runs
on CUDA, calls are timed in batches that end with one wait, and "copy" is the driver's copy of x
("read": half its time, what reading x once takes at that rate).

Prints microseconds and, per peer, ours / theirs.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.device.device import opencl_module

THREADS = 2
#: Seconds that the rounds of one row take; per turn a contender is timed for so many stretches
#: of at least so many seconds (short ones, since only an undisturbed one counts).
BUDGET, STRETCHES, SHORTEST = 8.0, 8, 2e-4


Call = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """Calls by phase, each of which returns its results, and what waits for them."""

    name: str
    calls: dict[str, Call]
    wait: Call = lambda: None


def data(size: int) -> tuple[Any, Any]:
    """An x and a gradient of y."""
    random = np.random.default_rng(0)
    x, seed = random.standard_normal((2, size), dtype=np.float32)
    return x, seed


@ag.jit_compile
def chain(x: Any) -> Any:
    """The chain."""
    return ag.sigmoid(ag.gelu(ag.relu(x)) + 0.5)


@ag.jit_compile
def total(x: Any) -> Any:
    """The sum of the chain: one kernel that reads x once, and a small one."""
    return ag.sum(ag.sigmoid(ag.gelu(ag.relu(x)) + 0.5))


def ours(size: int) -> Contender:
    """The compiled functions on the default device."""
    host, host_seed = data(size)
    x, leaf, seed = nc.tensor(host), nc.tensor(host).requires_grad_(), nc.tensor(host_seed)

    def forward() -> Any:
        return chain(x)

    def both() -> Any:
        leaf.grad = None
        y = chain(leaf)
        y.backward(seed)
        return y, leaf.grad

    queue = x.device.queue
    wait = (lambda: None) if queue is None else queue.finish
    calls = {"forward": forward, "forward+backward": both, "sum": lambda: total(x)}
    return Contender("ours", calls, wait)


def copies(size: int) -> Contender:
    """The driver's copy of x."""
    x = nc.tensor(data(size)[0])
    target, queue, copy = nc.Tensor.empty(x.shape), x.device.queue, opencl_module().enqueue_copy

    def run() -> None:
        copy(queue, target.buffer, x.buffer, byte_count=4 * size)

    return Contender("copy", {"forward": run, "sum": run}, queue.finish)


def with_torch(size: int, cuda: bool) -> Iterator[Contender]:
    """PyTorch, eager and compiled for this size."""
    import torch

    torch.set_num_threads(THREADS)
    functional = torch.nn.functional

    def plain(x: Any) -> Any:
        return torch.sigmoid(functional.gelu(torch.relu(x), approximate="tanh") + 0.5)

    def plain_sum(x: Any) -> Any:
        return plain(x).sum()

    where = "cuda" if cuda else "cpu"
    x, seed = (torch.from_numpy(array).to(where) for array in data(size))
    leaf = x.clone().requires_grad_()
    for name, function, summed in (
        ("torch eager", plain, plain_sum),
        ("torch.compile", torch.compile(plain, dynamic=False),
         torch.compile(plain_sum, dynamic=False)),
    ):  # fmt: skip

        def forward(function: Any = function) -> Any:
            return function(x)

        def both(function: Any = function) -> Any:
            leaf.grad = None
            y = function(leaf)
            y.backward(seed)
            return y, leaf.grad

        def add_up(summed: Any = summed) -> Any:
            return summed(x)

        calls = {"forward": forward, "forward+backward": both, "sum": add_up}
        yield Contender(name, calls, torch.cuda.synchronize if cuda else lambda: None)


def with_jax(size: int) -> Iterator[Contender]:
    """JAX, compiled; forward and backward in one program."""
    import jax

    jax.config.update("jax_platforms", "cpu")

    def plain(x: Any) -> Any:
        return jax.nn.sigmoid(jax.nn.gelu(jax.nn.relu(x), approximate=True) + 0.5)

    def with_gradient(x: Any, seed: Any) -> Any:
        y, pull = jax.vjp(plain, x)
        return y, pull(seed)[0]

    x, seed = (jax.numpy.asarray(array) for array in data(size))
    forward, both = jax.jit(plain), jax.jit(with_gradient)
    add_up = jax.jit(lambda x: plain(x).sum())
    calls = {
        "forward": lambda: jax.block_until_ready(forward(x)),
        "forward+backward": lambda: jax.block_until_ready(both(x, seed)),
        "sum": lambda: jax.block_until_ready(add_up(x)),
    }
    yield Contender("JAX", calls)


def contenders(size: int, gpu: bool) -> Iterator[Contender]:
    """Ours first, then every library that is installed."""
    yield ours(size)
    if importlib.util.find_spec("torch") is not None:
        yield from with_torch(size, gpu)
    if not gpu and importlib.util.find_spec("jax") is not None:
        yield from with_jax(size)


def host(values: Any) -> Any:
    """Results of any of the libraries as NumPy arrays."""
    if isinstance(values, tuple):
        return tuple(host(value) for value in values)
    if isinstance(values, (nc.Tensor, ag.Node)):
        return values.to_host()
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def check(rivals: list[Contender]) -> None:
    """All compute the same, or the comparison is worth nothing."""
    for phase in ("forward+backward", "sum"):
        wanted = host(rivals[0].calls[phase]())
        for rival in rivals[1:]:
            found = host(rival.calls[phase]())
            pairs = zip(found, wanted, strict=True) if phase != "sum" else [(found, wanted)]
            for given, right in pairs:
                # torch.compile adds up 2^20 numbers with an error of 4e-5, the others within 1e-6
                loose = 1e-4 if phase == "sum" else 1e-5
                np.testing.assert_allclose(given, right, loose, 1e-5, err_msg=rival.name)


def seconds(call: Call, wait: Call, calls: int) -> float:
    """Seconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def synced(call: Call, wait: Call) -> Call:
    """A call that ends when its results are there."""

    def run() -> None:
        call()
        wait()

    return run


def best(rivals: list[Contender], phase: str, batches: bool) -> dict[str, float]:
    """Seconds per call, the best of many rounds in which all take turns."""
    calls = {
        rival.name: rival.calls[phase] if batches else synced(rival.calls[phase], rival.wait)
        for rival in rivals
        if phase in rival.calls
    }
    waits = {rival.name: rival.wait for rival in rivals}
    counts = {}
    for name, call in calls.items():
        seconds(call, waits[name], 3)
        counts[name] = max(1, round(SHORTEST / seconds(call, waits[name], 3)))
        if batches:
            counts[name] = max(20, counts[name])
    found = dict.fromkeys(calls, float("inf"))
    stop = time.perf_counter() + BUDGET
    while time.perf_counter() < stop:
        for name, call in calls.items():
            stretches = [seconds(call, waits[name], counts[name]) for _ in range(STRETCHES)]
            found[name] = min(found[name], *stretches)
    return found


def report(size: int, phase: str, times: dict[str, float]) -> None:
    """One row of the table."""
    own = times["ours"]
    cells = [f"{name} {time * 1e6:9.1f} ({own / time:5.2f})" for name, time in times.items()]
    cells[0] = f"ours {own * 1e6:9.1f}"
    print(f"2^{size.bit_length() - 1:<3} {phase:17}" + "  ".join(cells), flush=True)


def draw(rows: dict[str, dict[str, float]], file: str, title: str) -> None:
    """A bar chart: for each row the times as multiples of ours."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.7 * len(rows) + 1.5), layout="constrained")
    names = list(dict.fromkeys(name for times in rows.values() for name in times))
    height = 0.8 / len(names)
    for k, name in enumerate(names):
        lengths = [times.get(name, 0) / times["ours"] for times in rows.values()]
        places = [row + k * height for row in range(len(rows))]
        bars = axes.barh(places, lengths, height, label=name)
        axes.bar_label(bars, [f"{x:.1f}" if x else "" for x in lengths], padding=3, fontsize=8)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rows))], list(rows))
    axes.invert_yaxis()
    axes.set_xlabel("time as a multiple of ours (longer is slower)")
    axes.set_title(title)
    axes.legend()
    figure.savefig(file)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("device", nargs="?")
    parser.add_argument("--sizes", default="10,20,24")
    parser.add_argument("--chart")
    options = parser.parse_args()
    if options.device:
        nc.use_device(options.device)
    device = nc.default_device()
    gpu = device.kind == "gpu"
    print(f"{device!r}: microseconds (ours / theirs)")
    rows: dict[str, dict[str, float]] = {}
    for size in (1 << int(power) for power in options.sizes.split(",")):
        rivals = list(contenders(size, gpu))
        check(rivals)
        if gpu:
            rivals.append(copies(size))
        for phase in ("forward", "forward+backward", "sum"):
            times = best(rivals, phase, gpu)
            if phase == "sum" and "copy" in times:
                times["read"] = times.pop("copy") / 2
            report(size, phase, times)
            rows[f"2^{size.bit_length() - 1} {phase}"] = times
    if options.chart:
        draw(rows, options.chart, f"sigmoid(gelu(relu(x)) + 0.5), float32, {device.name}")


if __name__ == "__main__":
    main()
