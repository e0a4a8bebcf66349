"""Matrix products on a GPU beside cuBLAS (through PyTorch), in one run.

    python benchmarks/gemm_gpu.py [device] [--json FILE] [--part N] [--settings] [--prefer LABEL]

Each product is compared with float64 first; a wrong one ends the run. Prints a table of
microseconds, TFLOP/s, the error, and cuBLAS' time / ours, and writes the same as JSON. Without CUDA
the column of cuBLAS is empty. A CPU device is taken for a GPU, which shows that the kernels are
right and nothing about their speed; `--part 32` makes the large sizes so many times smaller then.
`--settings` also prints the tile and the slices that were taken; `--prefer
netcl-plugin-tensorcore:matmul` takes the kernels of that plugin where they serve.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import DeviceError
from netcl_core.ops.tuning import decide_settings
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec

#: What the result may differ from float64, as norms.
BOUNDS = {"float32": 5e-6, "float16": 1e-3, "bfloat16": 8e-3}
NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
#: The products of a step of the MLP 784-512-256-10 with a batch of 128: of the layers, of what goes
#: back through them, and of the weights' gradients.
MLP = (
    ("x W1", 128, 512, 784, False, True),
    ("h W2", 128, 256, 512, False, True),
    ("h W3", 128, 10, 256, False, True),
    ("g W2", 128, 512, 256, False, False),
    ("g W3", 128, 256, 10, False, False),
    ("g^T x", 512, 784, 128, True, False),
    ("g^T h", 256, 512, 128, True, False),
    ("g^T h, 10", 10, 256, 128, True, False),
)


@dataclass(frozen=True)
class Item:
    """A product: op(A) op(B) of m x k and k x n."""

    name: str
    m: int
    n: int
    k: int
    trans_a: bool = False
    trans_b: bool = False
    dtype: str = "float32"


@dataclass
class Result:
    """What was measured of an item; times in microseconds."""

    name: str
    sizes: tuple[int, int, int]
    dtype: str
    error: float
    ours: float
    tflops: float
    cublas: float | None
    ratio: float | None
    settings: dict[str, Any]


def items(part: int) -> Iterator[Item]:
    """The list of the shapes, the large ones divided."""
    large, middle = 4096 // part, 1024 // part
    for a in (False, True):
        for b in (False, True):
            name = f"{large} A{'^T' if a else ''} B{'^T' if b else ''}"
            yield Item(name, large, large, large, a, b)
    yield Item(f"{middle}", middle, middle, middle)
    m, n, k = (max(1, middle - less) for less in (23, 25, 21))
    yield Item("odd", m, n, k)
    for row in MLP:
        yield Item(*row)
    for dtype in ("float16", "bfloat16"):
        for size in (large, middle):
            yield Item(f"{size} {dtype}", size, size, size, dtype=dtype)


def operands(item: Item) -> tuple[Any, Any]:
    """Random matrices, as they are stored."""
    random = np.random.default_rng(0)
    shapes = [(item.k, item.m) if item.trans_a else (item.m, item.k),
              (item.n, item.k) if item.trans_b else (item.k, item.n)]  # fmt: skip
    a, b = (random.standard_normal(shape, np.float32).astype(NUMPY[item.dtype]) for shape in shapes)
    return a, b


def error_of(given: Any, item: Item, a: Any, b: Any) -> float:
    """The norm of the difference from the product in float64, to that one's."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    exact = (first.T if item.trans_a else first) @ (second.T if item.trans_b else second)
    return float(np.linalg.norm(given.astype(np.float64) - exact) / np.linalg.norm(exact))


def elapsed(call: Callable[[], Any], long: Callable[[], Any], count: int, device: Any) -> float:
    """Seconds until `count` calls are done, behind calls that take longer than to enqueue them."""
    device.queue.finish()
    start = time.perf_counter()
    for _ in range(2):
        long()
    for _ in range(count):
        call()
    device.queue.finish()
    return time.perf_counter() - start


def back_to_back(call: Callable[[], Any], long: Callable[[], Any], device: Any) -> float:
    """Microseconds of a call among its like, without what it costs to enqueue it."""
    few, many = 20, 120
    call()
    best = {n: min(elapsed(call, long, n, device) for _ in range(5)) for n in (few, many)}
    return (best[many] - best[few]) * 1e6 / (many - few)


def alone(call: Callable[[], Any], device: Any) -> float:
    """Microseconds of a long call."""
    call()
    return min(elapsed(call, lambda: None, 3, device) for _ in range(5)) * 1e6 / 3


def cublas(torch: Any, item: Item, a: Any, b: Any) -> float:
    """Microseconds of PyTorch's product on CUDA, by its events, behind a kernel that sleeps."""
    dtype = getattr(torch, item.dtype)
    x, y = (torch.from_numpy(array.astype(np.float32)).to("cuda", dtype) for array in (a, b))
    x, y = (x.t() if item.trans_a else x), (y.t() if item.trans_b else y)
    out = torch.empty(item.m, item.n, device="cuda", dtype=dtype)
    multiply = partial(torch.matmul, x, y, out=out)
    multiply()
    times = []
    for _ in range(5):
        torch.cuda._sleep(8_000_000)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(20):
            multiply()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / 20)
    return min(times)


def settings_of(item: Item, device: nc.Device, specs: tuple[Spec, ...]) -> dict[str, Any]:
    """The tile and the slices of the product."""
    operator = registry.find_op("matmul").record
    attrs = {"trans_a": item.trans_a, "trans_b": item.trans_b}
    out = (Spec((item.m, item.n), item.dtype),)
    request = ag.Request("matmul", device, specs, out, attrs, (True, True))
    return dict(decide_settings(operator, operator.select(request), request).settings)


def measured(item: Item, device: nc.Device, long: Callable[[], Any], torch: Any) -> Result:
    """One item, after it was found right."""
    a, b = operands(item)
    x, y = nc.tensor(a), nc.tensor(b)
    call = partial(ag.matmul, x, y, item.trans_a, item.trans_b)
    error = error_of(call().to_host(), item, a, b)
    assert error < BOUNDS[item.dtype], f"{item.name}: the error is {error:.1e}"
    work = 2.0 * item.m * item.n * item.k
    ours = alone(call, device) if work > 1 << 33 else back_to_back(call, long, device)
    theirs = None if torch is None else cublas(torch, item, a, b)
    specs = (Spec(x.shape, item.dtype), Spec(y.shape, item.dtype))
    return Result(
        item.name,
        (item.m, item.n, item.k),
        item.dtype,
        error,
        ours,
        work / ours * 1e-6,
        theirs,
        None if theirs is None else theirs / ours,
        settings_of(item, device, specs),
    )


def shown(result: Result, settings: bool) -> str:
    """A line of the table."""
    m, n, k = result.sizes
    theirs = "" if result.cublas is None else f"{result.cublas:9.2f}"
    ratio = "" if result.ratio is None else f"{result.ratio:6.2f}"
    line = f"{result.name:18s} {f'{m}x{n}x{k}':16s} {result.ours:11.2f} {result.tflops:7.2f}"
    line += f" {result.error:8.1e} {theirs:>9s} {ratio:>6s}"
    return f"{line}  {result.settings}" if settings else line


def cuda() -> Any:
    """PyTorch where it has CUDA, in plain float32; else None."""
    if importlib.util.find_spec("torch") is None:
        return None
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--part", type=int, default=1)
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--prefer", default="")
    given = parser.parse_args()
    if given.device:
        nc.use_device(given.device)
    device, torch = nc.default_device(), cuda()
    if device.kind != "gpu":
        print(f"{device!r} is no GPU: it plays one, and the times say nothing")
        device.kind = "gpu"
    print(f"{device!r}, driver {device.driver_version}, cuBLAS: {torch is not None}")
    heading = f"{'product':18s} {'m x n x k':16s} {'us':>11s} {'TFLOP/s':>7s}"
    print(f"{heading} {'error':>8s} {'cuBLAS us':>9s} {'ratio':>6s}")
    size = 4096 // given.part
    big = nc.Tensor.ones((size, size))
    results = []
    with ag.no_grad(), nc.prefer(given.prefer) if given.prefer else nullcontext():
        for item in items(given.part):
            try:
                results.append(measured(item, device, partial(ag.matmul, big, big), torch))
            except DeviceError as error:
                print(f"{item.name:18s} not served: {error}")
                continue
            print(shown(results[-1], given.settings), flush=True)
    if given.json:
        record = {"device": device.name, "driver": device.driver_version,
                  "results": [asdict(result) for result in results]}  # fmt: skip
        given.json.write_text(json.dumps(record, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
