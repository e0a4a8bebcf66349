"""Attention beside PyTorch's scaled_dot_product_attention, forward and forward with backward.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/attention.py [device] [--rounds N] [--dtype NAME]

The calls of both take turns, since other work on the machine slows either. Prints the best
times in milliseconds, and the medians of the ratios of our time to PyTorch's (on CUDA if the device
is a GPU and CUDA is there). Both results and all gradients are compared with float64 before.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag

#: Batches, heads, rows and features, and whether it is causal.
ON_CPUS = (
    ((2, 8, 512, 64), False),
    ((2, 8, 512, 64), True),
    ((1, 4, 1024, 64), False),
    ((1, 4, 1024, 64), True),
    ((8, 4, 128, 48), True),
    ((1, 2, 2048, 128), False),
)
ON_GPUS = (((8, 16, 2048, 64), False), ((8, 16, 2048, 64), True), ((32, 16, 512, 64), False))
#: Errors that are the dtype's own, beside the largest element.
ERRORS = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4}
#: Scores of the comparison with float64 at most: rows and heads of a case are cut to that.
CHECKED = 1 << 22


class Sides:
    """Our calls and PyTorch's for one shape."""

    def __init__(self, shape: tuple[int, ...], causal: bool, dtype: str, device: nc.Device) -> None:
        self.torch = importlib.import_module("torch")
        self.causal, self.device = causal, device
        cuda = device.kind == "gpu" and self.torch.cuda.is_available()
        place = "cuda" if cuda else "cpu"
        self.synchronize = self.torch.cuda.synchronize if cuda else (lambda: None)
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(shape, dtype=np.float32) for _ in range(4)]
        kind = getattr(self.torch, dtype)
        tensors = [self.torch.from_numpy(x).to(place, kind) for x in arrays]
        self.theirs = [x.requires_grad_() for x in tensors[:3]]
        self.their_grad = tensors[3]
        self.ours = [nc.tensor(x, requires_grad=True) for x in self._exact(arrays[:3], dtype)]
        self.our_grad = nc.tensor(self._exact(arrays[3:], dtype)[0])

    @staticmethod
    def _exact(arrays: list[Any], dtype: str) -> list[Any]:
        return [x.astype(nc.DTYPES[dtype].numpy) for x in arrays]

    def forward(self) -> Any:
        with ag.no_grad():
            return ag.scaled_dot_product_attention(*self.ours, is_causal=self.causal)

    def both(self) -> list[Any]:
        attended = ag.scaled_dot_product_attention(*self.ours, is_causal=self.causal)
        return [attended, *ag.grad(attended, self.ours, self.our_grad)]

    def _attend(self, operands: Any) -> Any:
        function = self.torch.nn.functional.scaled_dot_product_attention
        return function(*operands, is_causal=self.causal)

    def their_forward(self) -> Any:
        with self.torch.no_grad():
            return self._attend(self.theirs)

    def their_both(self) -> list[Any]:
        attended = self._attend(self.theirs)
        return [attended, *self.torch.autograd.grad(attended, self.theirs, self.their_grad)]

    def finish(self) -> None:
        """Wait for all that is under way."""
        if self.device.queue is not None:
            self.device.queue.finish()
        self.synchronize()

    def check(self, dtype: str) -> None:
        """Our results and gradients are those of float64, for as many heads as that has room."""
        batch, heads, rows, _ = self.theirs[0].shape
        few = max(1, min(heads, CHECKED // (rows * rows)))
        part = (slice(0, 1), slice(0, few))
        operands = [x.detach()[part].double().cpu().requires_grad_() for x in self.theirs]
        expected = self._attend(operands)
        grad = self.their_grad[part].double().cpu()
        wanted = [expected, *self.torch.autograd.grad(expected, operands, grad)]
        for one, other in zip(self.both(), wanted, strict=True):
            right = other.detach().numpy()
            error = np.abs(one.to_host()[part].astype(np.float64) - right).max()
            assert error <= ERRORS[dtype] * max(1.0, np.abs(right).max()), (batch, error)


def taking_turns(calls: list[Callable[[], Any]], finish: Callable[[], None], rounds: int) -> Any:
    """Seconds of each call in each round."""
    seconds = np.zeros((rounds, len(calls)))
    for call in calls:
        call()
    for row in seconds:
        for i, call in enumerate(calls):
            finish()
            start = time.perf_counter()
            call()
            finish()
            row[i] = time.perf_counter() - start
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?", default="")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--dtype", default="")
    given = parser.parse_args()
    if given.device:
        nc.use_device(given.device)
    device = nc.default_device()
    gpu = device.kind == "gpu"
    dtype = given.dtype or ("float16" if gpu else "float32")
    print(f"{device!r}, {dtype}, ms: best of {given.rounds}, and the median of ours / PyTorch's")
    for shape, causal in ON_GPUS if gpu else ON_CPUS:
        sides = Sides(shape, causal, dtype, device)
        sides.check(dtype)
        calls = [sides.forward, sides.their_forward, sides.both, sides.their_both]
        times = taking_turns(calls, sides.finish, given.rounds)
        best = times.min(0) * 1e3
        name = f"{'x'.join(map(str, shape))}{' causal' if causal else ''}"
        for what, mine, other in (("forward", 0, 1), ("f+b", 2, 3)):
            ratio = np.median(times[:, mine] / times[:, other])
            print(f"{name:22} {what:8} {best[mine]:8.3f}  PyTorch {best[other]:8.3f}  {ratio:5.2f}")


if __name__ == "__main__":
    main()
