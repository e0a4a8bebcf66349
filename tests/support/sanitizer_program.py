"""Run by test_sanitizer.py under Oclgrind: the calls of sanitizer_cases.py, or seeded faults.

    sanitizer_program.py LOG cpu|gpu        every op, with the kernels of that kind of device
    sanitizer_program.py LOG seeded         one kernel per fault of `templates/`

Prints one JSON object: what ran, and what the log gained by which case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from sanitizer_cases import (
    CLIPPING,
    FLOATING,
    FUSED,
    OPTIMIZERS,
    STRUCTURED,
    Call,
    T,
    layout_calls,
    made,
    primitive_calls,
)

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import rendering
from netcl_core.autograd.operators import Operator
from netcl_core.backends.opencl import OpenCLBackend
from netcl_core.registry import functions, registry
from netcl_core.runtime import memory
from netcl_core.runtime.kernels import Bound, Kernel, Kernels
from netcl_core.runtime.launch import Launch


class ExactAllocator:
    """Buffers of exactly the wanted size: the pool rounds up, which would hide an overrun.

    None is ever freed: the simulator forgets what was written to an address that it uses again.
    """

    def __init__(self, device: Any) -> None:
        self.context = device.context
        self.held: list[Any] = []

    def allocate(self, nbytes: int) -> Any:
        self.held.append(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes))
        return self.held[-1]

    def free_held(self) -> None:
        """Nothing is held for later use."""


def fill(own: OpenCLBackend, buffer: Any, size: int, dtype: Any, value: Any) -> None:
    """Fill by a copy from the host: the simulator takes what clEnqueueFillBuffer wrote as unset."""
    if size:
        cl.enqueue_copy(own.device.queue, buffer, np.full(size, value, dtype.numpy))


class Recorder:
    """Notes launches by op, implementations, templates, and what the log gained by which case."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.launched: dict[str, int] = {}
        self.used: set[str] = set()
        self.idle: set[str] = set()
        self.templates: set[str] = set()
        self.findings: dict[str, str] = {}
        self._launches = 0
        self._seen = 0

    def install(self) -> None:
        launch, loader = Launch.__call__, rendering.environment().loader
        load = loader.load

        def counted(own: Launch, *args: Any) -> None:
            self._launches += 1
            launch(own, *args)

        def noted(environment: Any, name: str, *rest: Any) -> Any:
            self.templates.add(name)
            return load(environment, name, *rest)

        Launch.__call__ = counted
        loader.load = noted

    def end(self, device: Any, name: str, label: str) -> None:
        """End a case: its launches count for the op, what the log gained belongs to it."""
        device.queue.finish()
        self.launched[name] = self.launched.get(name, 0) + self._launches
        self._launches = 0
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        if len(text) > self._seen:
            self.findings[label] = text[self._seen : self._seen + 1000]
        self._seen = len(text)

    def report(self) -> dict[str, Any]:
        return {
            "launched": self.launched,
            "idle": sorted(self.idle - self.used),
            "templates": sorted(self.templates),
            "findings": self.findings,
        }


def run(name: str, each: Call, dtype: str) -> None:
    """One call and its gradient."""
    args = [made(value, dtype) for value in each.args]
    result = getattr(ag, name)(*args, **each.kwargs)
    for part in result if isinstance(result, tuple) else (result,):
        if part.requires_grad:
            part.backward(nc.Tensor.ones(part.shape, part.dtype))


def calls() -> Iterator[tuple[str, Call]]:
    """Every call with its op's name."""
    for row in registry.rows("primitive"):
        for each in primitive_calls(row.record.name, row.record.arity):
            yield row.record.name, each
    for each in layout_calls():
        yield "maximum", each
    for name, some in STRUCTURED.items():
        for each in some:
            yield name, each


def choose(rank: int, recorder: Recorder) -> None:
    """Let every operator use its `rank`-th fitting implementation (or its last)."""

    def select(operator: Operator, request: Any, chosen: Any = ()) -> Any:
        candidates = [offer.item for offer in operator.offers()]
        fitting = [each for each in candidates if each.requires.unmet(request) is None]
        found = fitting[min(rank, len(fitting) - 1)]
        recorder.idle |= {each.label for each in candidates}
        recorder.used.add(found.label)
        return found

    Operator.select = select
    functions.clear()
    vars(ag).update({name: functions[name] for name in registry.op_names()})


def candidates_of(name: str) -> int:
    """How many implementations an op has; one for those that choose none."""
    row = registry.find_op(name)
    is_operator = row is not None and isinstance(row.record, Operator)
    return len(row.record.offers()) if is_operator else 1


def every_op(device: Any, recorder: Recorder) -> None:
    """All calls, in all their dtypes, with each implementation."""
    for rank in range(max(candidates_of(name) for name in registry.op_names())):
        choose(rank, recorder)
        for name, each in calls():
            for dtype in FLOATING if each.everywhere else FLOATING[:1]:
                if rank < candidates_of(name):
                    run(name, each, dtype)
                    recorder.end(device, name, f"{name}{each.args} {each.kwargs} {dtype}")


def engine(device: Any, recorder: Recorder) -> None:
    """Gradients that are added up, in a buffer of their own and in place."""
    for dtype in FLOATING:
        x = made(T((37,)), dtype)
        for _ in range(2):
            ag.sum(x * x * x + x).backward()
        recorder.end(device, "backward", f"a leaf used four times, twice, {dtype}")


def fused(device: Any, recorder: Recorder) -> None:
    """Compiled functions, with and without a gradient."""
    for number, (function, given) in enumerate(FUSED):
        for dtype in FLOATING:
            compiled = ag.jit_compile(function)
            args = [made(value, dtype) for value in given]
            with ag.no_grad():
                compiled(*args)
            results = compiled(*args)
            for part in results if isinstance(results, tuple) else (results,):
                if part.requires_grad:
                    part.backward(nc.Tensor.ones(part.shape, part.dtype))
            recorder.end(device, "jit_compile", f"fused function {number} in {dtype}")


def with_gradients(sizes: Any, dtype: str) -> list[nc.Tensor]:
    """Parameters of these sizes that have gradients."""
    params = [nc.Tensor.ones((size,), dtype) for size in sizes]
    for p in params:
        p.grad = nc.Tensor.ones(p.shape, dtype)
    return params


def optimizers(device: Any, recorder: Recorder) -> None:
    """A step of every optimizer with its settings, and the clipping of gradients."""
    optim = nc.optim
    known = {
        name: value
        for name, value in vars(optim).items()
        if isinstance(value, type) and issubclass(value, optim.Optimizer)
    }
    for name in known.keys() - {"Optimizer"}:
        for settings, sizes, dtypes in OPTIMIZERS[name]:
            for dtype in dtypes:
                known[name](with_gradients(sizes, dtype), **settings).step()
                recorder.end(device, f"optim.{name}", f"optim.{name} {settings} {dtype}")
    for name, settings, sizes, dtypes in CLIPPING:
        for dtype in dtypes:
            getattr(optim, name)(with_gradients(sizes, dtype), **settings)
            recorder.end(device, f"optim.{name}", f"optim.{name} {settings} {dtype}")


def seeded(device: Any, recorder: Recorder) -> None:
    """One faulty kernel after the other."""
    rendering.add_prefix("seeded", Path(__file__).with_name("templates"))
    whole, target = nc.Tensor.ones((37,)), nc.Tensor.zeros((37,))
    untouched = nc.Tensor.empty((37,))
    both: tuple[Any, ...] = (("in", 0), ("out", 0))
    faults: tuple[tuple[str, Any, Any], ...] = (
        ("overrun", whole, {"args": (*both, ("ulong", 37)), "global_size": (40,)}),
        ("race", whole, {"args": both[1:], "global_size": (37,)}),
        ("divergence", whole, {"args": both, "global_size": (32,), "local_size": (32,),
                               "context": {"local": 32}}),
        ("uninitialized", untouched, {"args": both, "global_size": (37,)}),
    )  # fmt: skip
    for name, source, launch in faults:
        kernel = Kernel(f"seeded/{name}.cl.j2", name, **launch)
        Bound(device, Kernels((kernel,)), (), ())((source.buffer,), (target.buffer,))
        recorder.end(device, name, name)


def main(log: str, what: str) -> None:
    """Run one of the programs and print its report."""
    with nc.use_device("opencl:oclgrind") as device:
        memory._pools[device] = ExactAllocator(device)
        OpenCLBackend.fill = fill
        recorder = Recorder(Path(log))
        recorder.install()
        registry.load()
        if what == "seeded":
            seeded(device, recorder)
        else:
            device.kind = what
            every_op(device, recorder)
            engine(device, recorder)
            fused(device, recorder)
            optimizers(device, recorder)
        print(json.dumps(recorder.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
