"""conv2d and depthwise_conv2d beside PyTorch in one run: forward, and forward with all gradients.

    python benchmarks/conv.py [device [dtype]]

Prints the best of several interleaved runs in milliseconds, and the ratio of our time to PyTorch's
(on CUDA if the device is a GPU and CUDA is there, else on the CPU), which may not round float32 to
TF32. The dtype is float32 unless another is named.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag

RUNS = 20


class Shape(NamedTuple):
    """x (batch, channels, size, size), and the kernel's side."""

    batch: int
    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    groups: int = 1

    def __str__(self) -> str:
        kind = f"{self.kernel}x{self.kernel} / {self.stride}"
        kind += " depthwise" if self.groups > 1 else ""
        x = f"{self.batch} x {self.channels} x {self.size} x {self.size}"
        return f"{x} -> {self.outputs}, {kind}"


#: How many times as large batches are on GPUs.
SCALE = {"cpu": 1, "gpu": 8}
#: The shape that the targets name, and those of ResNet-18 on 32 x 32.
SHAPES = (
    Shape(8, 64, 56, 64, 3, 1, 1),
    Shape(32, 3, 32, 64, 3, 1, 1),
    Shape(32, 64, 32, 64, 3, 1, 1),
    Shape(32, 64, 32, 128, 3, 2, 1),
    Shape(32, 128, 16, 128, 3, 1, 1),
    Shape(32, 128, 16, 128, 3, 2, 1),
    Shape(32, 64, 32, 128, 1, 2, 0),
    Shape(32, 256, 8, 256, 3, 1, 1),
    Shape(32, 512, 4, 512, 3, 1, 1),
    Shape(16, 128, 28, 128, 3, 1, 1, groups=128),
    Shape(16, 128, 28, 128, 3, 2, 1, groups=128),
)


def ours(shape: Shape, arrays: list[Any], device: nc.Device, dtype: str) -> list[Callable[[], Any]]:
    """Our forward alone, and with gradients; `x` gets one if it is no picture."""
    x, w, b, above = (nc.tensor(array, dtype=dtype, device=device) for array in arrays)
    wanted = [leaf.requires_grad_() for leaf in ([x, w, b] if shape.channels > 3 else [w, b])]
    assert device.queue is not None  # not measured on NumPy's path

    def forward() -> Any:
        return ag.conv2d(x, w, b, shape.stride, shape.padding, 1, shape.groups)

    def alone() -> None:
        with ag.no_grad():
            forward()
        device.queue.finish()

    def both() -> None:
        ag.grad(forward(), wanted, above)
        device.queue.finish()

    return [alone, both]


def theirs(
    shape: Shape, arrays: list[Any], torch: Any, cuda: bool, dtype: str
) -> list[Callable[[], Any]]:
    """The same by PyTorch."""
    place = {"device": "cuda" if cuda else "cpu", "dtype": getattr(torch, dtype)}
    x, w, b, above = (torch.from_numpy(array).to(**place) for array in arrays)
    wanted = [leaf.requires_grad_() for leaf in ([x, w, b] if shape.channels > 3 else [w, b])]
    finish = torch.cuda.synchronize if cuda else lambda: None

    def forward() -> Any:
        return torch.conv2d(x, w, b, shape.stride, shape.padding, 1, shape.groups)

    def alone() -> None:
        with torch.no_grad():
            forward()
        finish()

    def both() -> None:
        torch.autograd.grad(forward(), wanted, above)
        finish()

    return [alone, both]


def fastest(calls: list[Callable[[], Any]]) -> list[float]:
    """The shortest time of each in milliseconds; they take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(RUNS):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], 1e3 * (time.perf_counter() - start))
    return best


def main() -> None:
    """Measure and print."""
    torch = importlib.import_module("torch")
    device = nc.get_device(sys.argv[1]) if len(sys.argv) > 1 else nc.default_device()
    dtype = sys.argv[2] if len(sys.argv) > 2 else "float32"
    cuda = device.kind == "gpu" and torch.cuda.is_available()
    torch.backends.cudnn.allow_tf32 = False
    random = np.random.default_rng(0)
    print(f"{device!r}, {dtype}: milliseconds, and ours / PyTorch's ({torch.__version__})")
    for each in SHAPES:
        shape = each._replace(batch=each.batch * SCALE.get(device.kind, 1))
        side = (shape.size + 2 * shape.padding - shape.kernel) // shape.stride + 1
        forms = [
            (shape.batch, shape.channels, shape.size, shape.size),
            (shape.outputs, shape.channels // shape.groups, shape.kernel, shape.kernel),
            (shape.outputs,),
            (shape.batch, shape.outputs, side, side),
        ]
        arrays = [random.standard_normal(form).astype(np.float32) for form in forms]
        times = fastest([*ours(shape, arrays, device, dtype),
                         *theirs(shape, arrays, torch, cuda, dtype)])  # fmt: skip
        columns = [f"{name} {times[i]:7.2f} {times[i] / times[i + 2]:5.2f}"
                   for i, name in enumerate(("forward", "f+b"))]  # fmt: skip
        print(f"{shape!s:42}", *columns, sep="  ", flush=True)


if __name__ == "__main__":
    main()
