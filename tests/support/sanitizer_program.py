"""Run by test_sanitizer.py under Oclgrind: the calls of sanitizer_cases.py, or seeded faults.

    sanitizer_program.py LOG cpu|gpu        every op, with the kernels of that kind of device
    sanitizer_program.py LOG "sample I/N"   the first call of every Nth op, with those of GPUs
    sanitizer_program.py LOG seeded         one kernel per fault of `templates/`

Prints one JSON object: what ran, and what the log gained by which case.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netcl_plugin_kit.faults import simulated
from netcl_plugin_kit.faults.simulated import candidates_of, choose
from sanitizer_calls import Call, T, made
from sanitizer_cases import (
    CLIPPING,
    FLOATING,
    FUSED,
    OPTIMIZERS,
    SIZES,
    STRUCTURED,
    layout_calls,
    primitive_calls,
)
from sanitizer_parts import PARTS, WRONG

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering
from netcl_core.runtime.kernels import Bound, Kernel, Kernels
from netcl_core.tensors.functions import functions


class Recorder:
    """Notes launches by op, implementations, templates, and what the log gained by which case."""

    def __init__(self, own: simulated.SimulatedStream) -> None:
        self.own = own
        self.launched: dict[str, int] = {}
        self.used: set[str] = set()
        self.idle: set[str] = set()
        self.templates: set[str] = set()
        self.findings: dict[str, str] = {}

    def note_templates(self) -> None:
        environment: Any = rendering.environment()
        get = environment.get_template

        def noted(name: str, *rest: Any, **more: Any) -> Any:
            self.templates.add(name)
            return get(name, *rest, **more)

        environment.get_template = noted

    def note_choice(self, candidates: Any, chosen: Any) -> None:
        self.idle |= {candidate.label for candidate in candidates}
        self.used.add(chosen.label)

    def end(self, device: Any, name: str, label: str) -> None:
        """End a case: its launches count for the op, what the log gained belongs to it."""
        launches, errors = self.own.news()
        self.launched[name] = self.launched.get(name, 0) + launches
        if errors:
            self.findings[label] = errors[:1000]

    def report(self) -> dict[str, Any]:
        return {
            "launched": self.launched,
            "idle": sorted(self.idle - self.used),
            "templates": sorted(self.templates),
            "findings": self.findings,
        }


def run(name: str, each: Call, dtype: str) -> None:
    """One call and its gradient; labels beyond the classes are for the kernels alone to bear."""
    args = [made(value, dtype) for value in each.args]
    rows = registry.op_rows(name, parts=True)  # none of a cast, which is the core's
    function = functions.of_record(rows[0].record) if rows else functions[name]
    with ag.no_grad() if WRONG in each.args else ag.enable_grad():
        result = function(*args, **each.kwargs)
    for part in result if isinstance(result, tuple) else (result,):
        if part.requires_grad:
            part.backward(nc.Tensor.ones(part.shape, part.dtype), retain_graph=True)


def calls() -> Iterator[tuple[str, Call]]:
    """Every call with its op's name."""
    for row in registry.rows("primitive"):
        for call in primitive_calls(row.record.name, row.record.arity):
            yield row.record.name, call
    for call in layout_calls():
        yield "maximum", call
    for name, some in (STRUCTURED | PARTS).items():
        for case in some:
            yield name, case


def sample(device: Any, recorder: Recorder, part: int, parts: int) -> None:
    """The first call of some ops in float32, each with its best implementation."""
    choose(0, recorder.note_choice)
    first: dict[str, Call] = {}
    for name, case in calls():
        first.setdefault(name, case)
    for name, case in list(first.items())[part::parts]:
        run(name, case, FLOATING[0])
        recorder.end(device, name, f"{name}{case.args} {case.kwargs}")


def every_op(device: Any, recorder: Recorder) -> None:
    """All calls, in all their dtypes, with each implementation."""
    for rank in range(max(candidates_of(name) for name in registry.op_names())):
        choose(rank, recorder.note_choice)
        functions.clear()
        vars(ag).update({name: functions[name] for name in registry.op_names()})
        for name, case in calls():
            for dtype in FLOATING if case.everywhere else FLOATING[:1]:
                if rank < candidates_of(name):
                    run(name, case, dtype)
                    recorder.end(device, name, f"{name}{case.args} {case.kwargs} {dtype}")


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
                    part.backward(nc.Tensor.ones(part.shape, part.dtype), retain_graph=True)
            recorder.end(device, "jit_compile", f"fused function {number} in {dtype}")


def with_gradients(sizes: Any, dtype: str) -> list[nc.Tensor]:
    """Parameters of these sizes that have gradients."""
    params = [nc.Tensor.ones((size,), dtype) for size in sizes]
    for p in params:
        p.grad = nc.Tensor.ones(p.shape, dtype)
    return params


def optimizers(device: Any, recorder: Recorder) -> None:
    """Steps of every optimizer with its settings, averages, clipping of gradients, and a scaler."""
    optim = nc.optim
    known = {
        name: value
        for name, value in vars(optim).items()
        if isinstance(value, type) and issubclass(value, optim.Optimizer)
    }
    for name in known.keys() - {"Optimizer", "LBFGS"}:  # the latter's vectors lie on the host
        for settings, sizes, dtypes in OPTIMIZERS[name]:
            for dtype in dtypes:
                optimizer = known[name](with_gradients(sizes, dtype), **settings)
                optimizer.step()
                for skipped in (0, 1):
                    optimizer.step(found_inf=nc.tensor([skipped], dtype="int32"))
                recorder.end(device, f"optim.{name}", f"optim.{name} {settings} {dtype}")
    for name, settings, sizes, dtypes in CLIPPING:
        for dtype in dtypes:
            getattr(optim, name)(with_gradients(sizes, dtype), **settings)
            recorder.end(device, f"optim.{name}", f"optim.{name} {settings} {dtype}")
    for dtype in FLOATING:
        optim.EMA(with_gradients(SIZES, dtype)).update()
        recorder.end(device, "optim.EMA", f"optim.EMA {dtype}")
        captured_scaler(with_gradients(SIZES, dtype))
        recorder.end(device, "amp.GradScaler", f"amp.GradScaler {dtype}")


def captured_scaler(params: list[nc.Tensor]) -> None:
    """A captured step of a scaler, whose gradients are judged in two parts."""
    optimizer, scaler = nc.optim.SGD(params), nc.amp.GradScaler()

    def step(x: Any) -> Any:
        scaler.unscale_grads(params[:1])
        scaler.unscale_grads(params[1:])
        scaler.step(optimizer)
        return scaler.scale(x)

    ag.capture(step, nc.Tensor.ones((3,)))


def seeded(device: Any, recorder: Recorder) -> None:
    """A kernel without a fault in the first buffers, then one faulty kernel after the other."""
    rendering.add_prefix("seeded", Path(__file__).with_name("templates"))
    whole, fresh = nc.Tensor.ones((37,)), nc.Tensor.empty((37,))
    target, untouched = nc.Tensor.zeros((37,)), nc.Tensor.empty((37,))
    both: tuple[Any, ...] = (("in", 0), ("out", 0))
    faults: tuple[tuple[str, Any, Any, Any], ...] = (
        ("overrun", whole, target, {"args": (*both, ("ulong", 37)), "global_size": (40,)}),
        ("race", whole, target, {"args": both[1:], "global_size": (37,)}),
        ("divergence", whole, target, {"args": both, "global_size": (32,), "local_size": (32,),
                               "context": {"local": 32}}),
        ("uninitialized", untouched, target, {"args": both, "global_size": (37,)}),
    )  # fmt: skip
    faultless = ("faultless", whole, fresh, {"args": both, "global_size": (37,)})
    for name, source, into, launch in (faultless, *faults):
        kernel = Kernel(f"seeded/{name}.cl.j2", name, **launch)
        Bound(device, Kernels((kernel,)), (), ())((source.buffer,), (into.buffer,))
        recorder.end(device, name, name)


def main(log: str, what: str) -> None:
    """Run one of the programs and print its report."""
    with (
        nc.use_device("opencl:oclgrind") as device,
        simulated.watched(device, Path(log)) as stream,
    ):
        recorder = Recorder(stream)
        recorder.note_templates()
        if what == "seeded":
            seeded(device, recorder)
        elif what.startswith("sample "):
            device.kind = "gpu"
            part, parts = map(int, what.removeprefix("sample ").split("/"))
            sample(device, recorder, part, parts)
        else:
            device.kind = what
            if what == "gpu":  # a simulated work-item takes as long as any other, used or not
                device.max_work_group_size = 64
            every_op(device, recorder)
            engine(device, recorder)
            fused(device, recorder)
            optimizers(device, recorder)
        print(json.dumps(recorder.report()))


if __name__ == "__main__":
    main(*sys.argv[1:])
