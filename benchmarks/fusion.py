"""A fused chain of elementwise ops beside PyTorch's and JAX's, in one run.

    python benchmarks/fusion.py [device]

The chain is y = sigmoid(gelu(relu(x)) + 0.5) in float32, GELU by tanh. "forward" computes y
of an x without a gradient; "forward+backward" computes y and the gradient of x for a given
gradient of y, of which ours is bound to the tape as in training. Every call makes fresh
results through its library's own allocator (ours is a pool, JAX's too; PyTorch on the CPU takes
large results from the system) and ends when they are there. All take turns, round after round,
so that a busy machine slows all alike; the best time of each counts. PyTorch and JAX run on the
CPU, PyTorch with two threads; a library that is not installed is left out.

Prints microseconds and, per peer, ours / theirs.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd.elementwise import plan_gradients
from netcl_core.autograd.kernels import run_plan
from netcl_core.autograd.lowering import Plan
from netcl_core.autograd.region import Region, Signature, Step
from netcl_core.registry import registry

SIZES = (1 << 10, 1 << 20, 1 << 24)
THREADS = 2
#: Seconds that the rounds of one row take; per turn a contender is timed for so many stretches
#: of at least so many seconds (short ones, since only an undisturbed one counts).
BUDGET, STRETCHES, SHORTEST = 8.0, 8, 2e-4


@dataclass(frozen=True)
class Contender:
    """Two calls that return when their results are there; each returns them."""

    name: str
    forward: Callable[[], Any]
    both: Callable[[], Any]


def data(size: int) -> tuple[Any, Any]:
    """An x and a gradient of y."""
    random = np.random.default_rng(0)
    x, seed = random.standard_normal((2, size)).astype(np.float32)
    return x, seed


def region() -> Region:
    """The chain as the tracer would record it; 0.5 is a kernel argument."""
    ops = (("relu", ()), ("gelu", (("approximate", "tanh"),)), ("add", ()), ("sigmoid", ()))
    steps: list[Step] = []
    for name, choices in ops:
        row = registry.find_op(name)
        assert row is not None
        before = ("step", len(steps) - 1) if steps else ("in", 0)
        operands = (before, ("scalar", 0)) if name == "add" else (before,)
        steps.append(Step(row.record, operands, choices))
    return Region(1, 1, tuple(steps), (("step", 3),))


def ours(size: int) -> Contender:
    """The bare plan of the chain on the default device, without a tape."""
    host, host_seed = data(size)
    x, seed = nc.tensor(host), nc.tensor(host_seed)
    device = x.device
    made = Plan(region(), device, Signature(((x.shape, x.dtype),), (2,)))
    finish = (lambda: None) if device.queue is None else device.queue.finish

    def forward() -> Any:
        (y,) = run_plan(made, (x.buffer,), (0.5,))
        finish()
        return y

    def both() -> Any:
        (y,) = run_plan(made, (x.buffer,), (0.5,))
        (gradient,) = plan_gradients(made, (x,), (0.5,), (True,), seed)
        finish()
        return y, gradient

    return Contender("ours", forward, both)


def with_torch(size: int) -> Iterator[Contender]:
    """PyTorch, eager and compiled for this size."""
    import torch

    torch.set_num_threads(THREADS)
    functional = torch.nn.functional

    def chain(x: Any) -> Any:
        return torch.sigmoid(functional.gelu(torch.relu(x), approximate="tanh") + 0.5)

    x, seed = (torch.from_numpy(array) for array in data(size))
    leaf = x.clone().requires_grad_()
    for name, function in (
        ("torch eager", chain),
        ("torch.compile", torch.compile(chain, dynamic=False)),
    ):

        def forward(function: Any = function) -> Any:
            return function(x)

        def both(function: Any = function) -> Any:
            leaf.grad = None
            y = function(leaf)
            y.backward(seed)
            return y, leaf.grad

        yield Contender(name, forward, both)


def with_jax(size: int) -> Iterator[Contender]:
    """JAX, compiled; forward and backward in one program."""
    import jax

    jax.config.update("jax_platforms", "cpu")

    def chain(x: Any) -> Any:
        return jax.nn.sigmoid(jax.nn.gelu(jax.nn.relu(x), approximate=True) + 0.5)

    def with_gradient(x: Any, seed: Any) -> Any:
        y, pull = jax.vjp(chain, x)
        return y, pull(seed)[0]

    x, seed = (jax.numpy.asarray(array) for array in data(size))
    forward, both = jax.jit(chain), jax.jit(with_gradient)
    yield Contender(
        "JAX",
        lambda: jax.block_until_ready(forward(x)),
        lambda: jax.block_until_ready(both(x, seed)),
    )


def contenders(size: int) -> Iterator[Contender]:
    """Ours first, then every library that is installed."""
    yield ours(size)
    for module, make in (("torch", with_torch), ("jax", with_jax)):
        if importlib.util.find_spec(module) is not None:
            yield from make(size)


def host(values: Any) -> Any:
    """Results of any of the libraries as NumPy arrays."""
    if isinstance(values, tuple):
        return tuple(host(value) for value in values)
    if isinstance(values, nc.Tensor):
        return values.to_host()
    return np.asarray(values.detach() if hasattr(values, "detach") else values)


def check(rivals: list[Contender]) -> None:
    """All compute the same, or the comparison is worth nothing."""
    wanted = host(rivals[0].both())
    for rival in rivals[1:]:
        for given, right in zip(host(rival.both()), wanted, strict=True):
            np.testing.assert_allclose(given, right, 1e-5, 1e-5, err_msg=rival.name)


def seconds(call: Callable[[], Any], calls: int) -> float:
    """Seconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def best(calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds per call, the best of many rounds in which all take turns."""
    counts = {}
    for name, call in calls.items():
        seconds(call, 3)
        counts[name] = max(1, round(SHORTEST / seconds(call, 3)))
    found = dict.fromkeys(calls, float("inf"))
    stop = time.perf_counter() + BUDGET
    while time.perf_counter() < stop:
        for name, call in calls.items():
            stretches = [seconds(call, counts[name]) for _ in range(STRETCHES)]
            found[name] = min(found[name], *stretches)
    return found


def report(size: int, phase: str, times: dict[str, float]) -> None:
    """One row of the table."""
    own = times["ours"]
    cells = [f"{name} {time * 1e6:9.1f} ({own / time:5.2f})" for name, time in times.items()]
    cells[0] = f"ours {own * 1e6:9.1f}"
    print(f"2^{size.bit_length() - 1:<3} {phase:17}" + "  ".join(cells), flush=True)


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    print(f"{nc.default_device()!r}: microseconds (ours / theirs)")
    for size in SIZES:
        rivals = list(contenders(size))
        check(rivals)
        with ag.no_grad():
            report(size, "forward", best({rival.name: rival.forward for rival in rivals}))
        report(size, "forward+backward", best({rival.name: rival.both for rival in rivals}))


if __name__ == "__main__":
    main()
