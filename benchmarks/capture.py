"""Replays of captured steps beside eager ones and PyTorch's, in one run.

    python benchmarks/capture.py [device]

A training step of an MLP 784-512-256-10 (batch 128, Adam), and 20 small kernels with a wait behind
them, beside their launches alone. Prints medians in microseconds and ratios; PyTorch is skipped
where it is missing.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from mlp import BATCH, SIZES, batch, torch_step, training

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd.graph import CompiledGraph
from netcl_core.device.device import opencl_module
from netcl_core.runtime.commands import LaunchCommand
from netcl_core.runtime.stream import stream_of

STEPS, ROUNDS = 20, 11
SMALL, KERNELS = 1024, 20
Run = Callable[[], Any]


def training_steps() -> dict[str, Run]:
    """The same step eagerly and replayed, from tensors on the device."""
    x, y = (nc.tensor(array) for array in batch())
    eager, graph = training(), ag.capture(training(), x, y)
    print(f"a captured step launches {graph.launches} kernels")
    return {"eager": lambda: eager(x, y), "replay": lambda: graph(x, y)}


def small_steps() -> dict[str, Run]:
    """Many small kernels, each with a wait for the last one."""
    x = nc.tensor(np.ones(SMALL, np.float32))

    def chain(x: Any) -> Any:
        for _ in range(KERNELS):
            x = ag.relu(x)
        return x

    graph = ag.capture(chain, x)
    stream = stream_of(x.device)

    def eager() -> None:
        chain(x)
        stream.finish()

    def replay() -> None:
        graph(x)
        stream.finish()

    def bare() -> None:
        for launch in launches:
            launch()
        stream.finish()

    launches = bare_launches(graph)
    return {"eager": eager, "replay": replay, "bare launches": bare}


def bare_launches(graph: CompiledGraph) -> list[Run]:
    """The launches of a graph with preset arguments, without anything around them."""
    enqueue, found = opencl_module().enqueue_nd_range_kernel, list[Run]()
    for command in graph._captured().commands:
        if isinstance(command, LaunchCommand):
            launch = command.launch
            kernel = launch.alone(command.buffers, command.scalars)
            sizes = launch.global_size, launch.local_size
            found.append(partial(enqueue, graph.device.queue, kernel, *sizes))
    return found


def measured(steps: dict[str, Run]) -> dict[str, float]:
    """Medians of the time per step in microseconds, in turn, so that all are slowed alike."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(STEPS):
                result = step()
            if hasattr(result, "item"):
                result.item()
            times[name].append((time.perf_counter() - start) / STEPS * 1e6)
    return {name: median(found[1:]) for name, found in times.items()}


def tell(what: str, found: dict[str, float]) -> None:
    """Print times, and the others' ratios to a replay's."""
    print(what)
    for name, each in found.items():
        print(f"  {name:20} {each:9.0f} us   {each / found['replay']:5.2f} of a replay")


def main() -> None:
    """Measure and print."""
    if len(sys.argv) > 1:
        nc.use_device(sys.argv[1])
    print(f"netcl on {nc.default_device()!r}")
    steps = training_steps()
    if importlib.util.find_spec("torch") is not None:
        steps["PyTorch on the CPU"] = torch_step()
    tell(f"MLP {'-'.join(map(str, SIZES))}, batch {BATCH}, Adam: one step", measured(steps))
    tell(f"{KERNELS} kernels of {SMALL} elements, and a wait", measured(small_steps()))


if __name__ == "__main__":
    main()
