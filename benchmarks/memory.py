"""The most memory that a training step of each model needs, beside PyTorch's on CUDA.

    python benchmarks/memory.py [TEXT ...]

Models with one of the texts in their names; all by default. Each step runs three times, eagerly,
after one whose commands may have waited, with their memory, for programs to be built.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import models
from harness.models import ours, theirs
from harness.peers import library

import netcl_core as nc

STEPS = 3


def peak(training: Any, cuda: Any) -> float:
    """The most bytes in use during some steps, after the first."""
    training.step(*training.inputs)
    cuda.synchronize()
    cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        training.step(*training.inputs)
    cuda.synchronize()
    return float(cuda.max_memory_allocated())


def main() -> None:
    """Measure and print."""
    torch, wanted = library("torch"), sys.argv[1:] or [""]
    print(f"{'model':34} {'netcl':>8} {'PyTorch':>8} ratio")
    for name, model, dtype in models.trained("gpu"):
        if not any(text in name for text in wanted):
            continue
        given = (model.build, models.loss_of(model, dtype, "gpu"), model.data, model.optimizer)
        mine = peak(ours(*given), nc.cuda)
        gc.collect()
        nc.cuda.empty_cache()
        other = peak(theirs(*given, "cuda", "float32", False), torch.cuda)
        gc.collect()
        torch.cuda.empty_cache()
        print(f"{name:34} {mine / 2**30:8.2f} {other / 2**30:8.2f} {mine / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
