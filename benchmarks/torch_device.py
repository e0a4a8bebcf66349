"""Training steps on PyTorch's device `netcl` beside PyTorch itself and netcl's own layers.

    python benchmarks/torch_device.py [gpt] [resnet] [mlp] [dispatch] [--json FILE] [--rounds 7]

Each contender is a process that holds one model with the same weights. First their losses of four
steps are compared, then the steps are timed in turn, so that a busy machine is as busy for all.
A row is written to the file as soon as it is known. With an OpenCL GPU PyTorch needs CUDA; else it
computes on the CPU. Importing netcl_torch ends CUDA's backward passes, hence the processes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What trains, and how: the library, the place, whether its loss is compiled, a fused optimizer.
CONTENDERS = {
    "torch": ("torch", False, False),
    "torch-fused": ("torch", False, True),
    "torch-compile": ("torch", True, True),
    "netcl": ("netcl", False, False),
    "netcl-fused": ("netcl", False, True),
    "netcl-compile": ("netcl", True, True),
    "own": ("own", False, False),
}
#: Of the loss, relative: what float32 gives after some steps.
TOLERANCE = 2e-3
STEPS = 4


# -- one contender, in a process of its own ----------------------------------------------------


def _place() -> str:
    import netcl_core as nc

    return "gpu" if nc.default_device().kind == "gpu" else "cpu"


def _training(item: str, name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A step, which gives its loss, and what waits for it."""
    import torch
    from harness import models
    from harness.training import Training

    library, compiled, fused = CONTENDERS[name]
    kind = _place()
    case = importlib.import_module(item)
    captured: dict[str, Any] = {}

    def note(title: str, build: Any, loss: Any, data: Any, *, optimizer: str = "Adam",
             **_: Any) -> None:  # fmt: skip
        captured.update(build=build, loss=loss, data=data, optimizer=optimizer)

    setattr(case, "model_case", note)  # noqa: B010 - a module of the harness
    next(iter(case.cases(kind)), None)
    given = (captured["build"], captured["loss"], captured["data"], captured["optimizer"])
    if library == "own":
        import netcl_core as nc

        training: Training = models.ours(*given)
        return lambda: training.step(*training.inputs), nc.cuda.synchronize
    place = "netcl" if library == "netcl" else {"gpu": "cuda", "cpu": "cpu"}[kind]
    if place == "netcl":
        import netcl_torch  # noqa: F401
    training = models.theirs(*given, place, "float32", fused)
    if compiled:
        backend = "netcl" if place == "netcl" else "inductor"
        training = training.compiled(
            lambda loss: torch.compile(loss, backend=backend, dynamic=False)
        )
    wait: Any = {"netcl": lambda: torch.netcl.synchronize(),
                 "cuda": torch.cuda.synchronize}.get(place, lambda: None)  # fmt: skip
    return lambda: training.step(*training.inputs), wait


def _dispatch(name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A hundred additions of 1,000 numbers."""
    import torch

    import netcl_core as nc
    import netcl_core.autograd as ag

    library = CONTENDERS[name][0]
    if library == "own":
        x = nc.tensor([1.0] * 1000)

        def ours() -> Any:
            with ag.no_grad():
                for _ in range(100):
                    y = ag.add(x, x)
            return y[0]

        return ours, nc.cuda.synchronize
    place = "netcl" if library == "netcl" else {"gpu": "cuda", "cpu": "cpu"}[_place()]
    if place == "netcl":
        import netcl_torch  # noqa: F401
    z = torch.ones(1000, device=place)

    def theirs() -> Any:
        for _ in range(100):
            y = torch.add(z, z)
        return y[0]

    wait: Any = {"netcl": nc.cuda.synchronize, "cuda": torch.cuda.synchronize}
    return theirs, wait.get(place, lambda: None)


def work(item: str, name: str) -> None:
    """Answer the parent: `losses`, or a number of steps to time."""
    warnings.simplefilter("ignore")
    out = sys.stdout
    sys.stdout = sys.stderr
    start = time.perf_counter()
    step, wait = _dispatch(name) if item == "dispatch" else _training(item, name)
    for line in sys.stdin:
        if line.strip() == "losses":
            answer: Any = {"losses": [float(step()) for _ in range(STEPS)]}
            answer["first_seconds"] = time.perf_counter() - start
            if CONTENDERS[name][0] == "netcl":
                import torch

                answer["fallbacks"] = torch.netcl.fallbacks()
        else:
            wait()
            begun = time.perf_counter()
            for _ in range(int(line)):
                step()
            wait()
            answer = (time.perf_counter() - begun) / int(line)
        print(json.dumps(answer), file=out, flush=True)


# -- the parent ------------------------------------------------------------------------------------


class Worker:
    """A contender's process."""

    def __init__(self, item: str, name: str) -> None:
        command = [sys.executable, __file__, "--worker", item, name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(self, line: str) -> Any:
        """Its answer; raises RuntimeError if it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"its process ended with {self._process.wait()}, see above")
        return json.loads(reply)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def _race(item: str, rounds: int, note: Callable[[dict[str, Any]], None]) -> None:
    workers: dict[str, Worker] = {}
    expected: list[float] = []
    try:
        for name in CONTENDERS:
            if item == "dispatch" and name not in ("torch", "netcl", "own"):
                continue
            worker = Worker(item, name)
            row = {"item": item, "contender": name}
            try:
                answer = worker.ask("losses")
            except RuntimeError as error:
                note({**row, "error": str(error)})
                worker.end()
                continue
            workers[name] = worker
            expected = expected or answer["losses"]
            worst = max(abs(a - b) / (abs(b) + 1e-9)
                        for a, b in zip(answer["losses"], expected, strict=True))  # fmt: skip
            note({**row, **answer, "loss_difference": worst, "correct": worst < TOLERANCE})
        times: dict[str, list[float]] = {name: [] for name in workers}
        counts = {}
        for name, worker in workers.items():
            worker.ask("3")  # whatever is chosen by being tried is chosen now
            counts[name] = str(max(2, min(200, round(0.5 / worker.ask("2")))))
        for _ in range(rounds):
            for name, worker in workers.items():
                times[name].append(worker.ask(counts[name]))
        for name, ours in times.items():
            ratios = {other: statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
                      for other, theirs in times.items() if other != name}  # fmt: skip
            note({"item": item, "contender": name, "milliseconds": 1e3 * min(ours),
                  "ratio_to": ratios})  # fmt: skip
    finally:
        for worker in workers.values():
            worker.end()


def main() -> None:
    """Race the items, and write a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("items", nargs="*", default=["dispatch", "gpt", "resnet", "mlp"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(*given.items)
        return
    rows: list[dict[str, Any]] = []

    def note(row: dict[str, Any]) -> None:
        rows.append(row)
        numbers = {key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()}
        if "ratio_to" in numbers:
            numbers["ratio_to"] = {key: round(x, 3) for key, x in row["ratio_to"].items()}
        print(json.dumps(numbers), flush=True)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    import torch

    import netcl_core as nc

    note({"device": nc.default_device().name, "kind": nc.default_device().kind,
          "torch": torch.__version__, "cuda": torch.cuda.is_available()})  # fmt: skip
    for item in given.items:
        _race(item, given.rounds, note)


if __name__ == "__main__":
    main()
