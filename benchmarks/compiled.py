"""Whole models compiled beside the same eagerly: inference, gradients, and a step of training.

    python benchmarks/compiled.py [device ...] [--budget SECONDS] [--batch N]

Per device and model, in turn in one run, the best of all rounds: milliseconds eagerly, and a
compiled call in parts of that, so that at most 1 is what one wants. `--batch 1` shows what the
host does, since the kernels are short then.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import gpt
import mlp
import resnet
from harness.models import ours as trained
from harness.training import Training
from netcl_plugin_kit.timing import Timed, best_times

import netcl_core as nc
import netcl_core.autograd as ag


def trainings(batch: int | None) -> Iterator[tuple[str, Callable[[], Training]]]:
    """Each model with what makes it, its optimizer and its batch."""
    size = gpt.Size(4, 192, 6, 128, batch or 4)
    pictures = partial(mlp._data, batch or 128), partial(resnet._data, batch or 16)
    yield "MLP", partial(trained, mlp.model, mlp.loss, pictures[0], "Adam")
    yield (
        "GPT 4 x 192",
        partial(
            trained,
            partial(gpt.model, size),
            partial(gpt.loss, size),
            partial(gpt._data, size),
            "AdamW",
        ),
    )
    yield "ResNet-18", partial(trained, resnet.model, resnet.loss, pictures[1], "SGD")


def ways(training: Training) -> dict[str, Callable[[], Any]]:
    """What is done with a model."""

    def inference() -> Any:
        with ag.no_grad():
            return training.loss(*training.inputs)

    def gradients() -> Any:
        training.optimizer.zero_grad()
        training.loss(*training.inputs).backward()

    return {
        "inference": inference,
        "gradients": gradients,
        "step": lambda: training.step(*training.inputs),
    }


def ratios(make: Callable[[], Training], device: nc.Device, budget: float) -> Iterator[str]:
    """A cell per way: the time eagerly, and what compiled is of it."""
    eager, compiled = make(), make().compiled(ag.jit_compile)
    finish = (lambda _: None) if device.queue is None else lambda _: device.queue.finish()
    for name, call in ways(eager).items():
        both = {"eager": call, "compiled": ways(compiled)[name]}
        best, failed = best_times({k: Timed(v, finish, True) for k, v in both.items()}, budget)
        for error in failed.values():
            raise error
        yield f"{best['eager'] * 1e3:9.3f} ms {best['compiled'] / best['eager']:5.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="*")
    parser.add_argument("--budget", type=float, default=4)
    parser.add_argument("--batch", type=int)
    given = parser.parse_args()
    warnings.simplefilter("ignore", nc.errors.FusionSkipped)
    print(f"{'model':14}{'device':12}{'inference':>18}{'gradients':>18}{'step':>18}")
    for name in given.device or [str(nc.default_device())]:
        with nc.use_device(name) as device:
            for model, make in trainings(given.batch):
                cells = ratios(make, device, given.budget)
                print(f"{model:14}{name:12}{''.join(f'{c:>18}' for c in cells)}", flush=True)


if __name__ == "__main__":
    main()
