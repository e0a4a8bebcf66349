"""Special functions beside PyTorch's on the same device: errors in ulp, first call, speed.

    python benchmarks/special_functions.py

Errors are of 2^20 float32 numbers against PyTorch's float64 on the CPU, in units of the last place;
times of 2^24 numbers, forward. On a GPU PyTorch needs CUDA; elsewhere it computes on the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import netcl_core as nc
import netcl_core.autograd as ag

#: Where each function is tried.
RANGES = {
    "lgamma": (0.01, 30), "digamma": (0.05, 30), "erfinv": (-0.999, 0.999), "ndtri": (0.001, 0.999),
    "ndtr": (-6, 6), "log_ndtr": (-15, 6), "entr": (0.01, 4), "sinc": (-5, 5), "i0": (-20, 20),
    "i0e": (-30, 30), "i1": (-20, 20), "i1e": (-30, 30), "erfcx": (-9, 50),
    "modified_bessel_k0": (0.01, 60), "modified_bessel_k1": (0.01, 60),
    "scaled_modified_bessel_k0": (0.01, 60), "scaled_modified_bessel_k1": (0.01, 60),
    "erf": (-4, 4), "erfc": (-4, 8), "expit": (-20, 20), "logit": (0.01, 0.99), "exp2": (-20, 20),
    "expm1": (-5, 5), "log1p": (-0.9, 10), "spherical_bessel_j0": (0.01, 30),
}  # fmt: skip


def seconds(call: Callable[[], Any], wait: Callable[[], Any], times: int = 20) -> float:
    """The fastest of five means of a call's time."""
    call()
    wait()
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            call()
        wait()
        rounds.append((time.perf_counter() - start) / times)
    return min(rounds)


def ulps(given: Any, wanted: Any) -> Any:
    """How far float32 numbers are off, in units of the last place."""
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    return np.abs(given.astype(np.float64) - wanted) / unit


def main() -> None:
    """Print a row for each function."""
    device = nc.default_device()
    place = "cuda" if device.kind == "gpu" else "cpu"
    wait = torch.cuda.synchronize if device.kind == "gpu" else lambda: None
    print(device.name, "PyTorch", torch.__version__)
    random = np.random.default_rng(0)
    for op, (low, high) in RANGES.items():
        numbers = random.uniform(low, high, 1 << 20).astype(np.float32)
        mine, his = getattr(ag, op), getattr(torch.special, {"lgamma": "gammaln"}.get(op, op))
        x = nc.tensor(numbers).requires_grad_(True)
        start = time.perf_counter()
        y = mine(x)
        y.sum().backward()
        x.grad.numpy()
        first = time.perf_counter() - start
        wanted = his(torch.tensor(numbers, dtype=torch.float64)).numpy()
        other = his(torch.tensor(numbers, device=place)).cpu().numpy()
        worst = [ulps(values, wanted).max() for values in (y.detach().numpy(), other)]
        many, there = (
            nc.tensor(np.tile(numbers, 16)),
            torch.tensor(np.tile(numbers, 16), device=place),
        )
        with ag.no_grad():
            ours = seconds(lambda f=mine, x=many: f(x), nc.cuda.synchronize)
        theirs = seconds(lambda f=his, x=there: f(x), wait)
        print(f"{op:25} first call {first:5.2f} s, at most {worst[0]:.1f} ulp ({worst[1]:.1f}), "
              f"{ours * 1e6:.0f} us, {ours / theirs:.2f} of PyTorch's")  # fmt: skip


if __name__ == "__main__":
    main()
