"""Time of the first epoch of a small conv net: without built kernels, and in the next process.

    python benchmarks/first_epoch.py [runs] [resnet]

Two convolutions with batch norms, two linear layers, dropout and Adam; 32 batches of 64 pictures
of 28 x 28, op by op and with the loss compiled. Each run is two whole processes that share a new
cache folder. Wall time and the processor time of the process, in seconds, the best of the runs
(three, unless said); builder processes are not in the latter. The target: a cold epoch of three
times a warm one, and of 5 s. With `resnet` the first and the second step of a ResNet-18 take turns
instead, 16 pictures of 224 x 224, from the start of the process on.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

WAYS = ("op by op", "the loss compiled")
STEPS = "steps of ResNet-18"


def _epochs(compiled: bool) -> None:
    """What a process does: two epochs, of which it prints the times and the mean loss."""
    import netcl_core.nn.functional as F  # noqa: N812 - as PyTorch's users write it
    from netcl_core.utils.data import DataLoader, TensorDataset

    import netcl_core as nc
    import netcl_core.autograd as ag
    from netcl_core import nn, optim

    nc.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Dropout(0.25), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = optim.Adam(net.parameters(), lr=1e-3)
    random = np.random.default_rng(0)
    pictures = random.standard_normal((2048, 1, 28, 28), np.float32)
    data = TensorDataset(nc.tensor(pictures), nc.tensor(random.integers(0, 10, 2048)))
    loader = DataLoader(data, batch_size=64, shuffle=True)

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(net(x), y)

    loss_function = ag.jit_compile(loss_of) if compiled else loss_of
    for _ in range(2):
        begin, used, total = time.perf_counter(), time.process_time(), 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_function(x, y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(time.perf_counter() - begin, time.process_time() - used, total)


def _steps() -> None:
    """What the process of `resnet` does: it prints times since its imports began, and losses."""
    begin = time.perf_counter()
    import netcl_core.nn.functional as F  # noqa: N812 - as PyTorch's users write it

    import netcl_core as nc
    from netcl_core import models, optim

    nc.manual_seed(0)
    net = models.ResNet()
    optimizer = optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)
    x, y = nc.rand(16, 3, 224, 224), nc.randint(1000, (16,))
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        print(time.perf_counter() - begin, time.process_time(), loss.item())
        begin = time.perf_counter()


def _measured(way: str, folder: str) -> tuple[list[float], list[float]]:
    """Of the first and of a later epoch: wall time, processor time, loss."""
    environment = {**os.environ, "NETCL_CACHE_DIR": folder}
    environment |= {"CUDA_CACHE_PATH": f"{folder}/driver"}  # what NVIDIA's driver keeps
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # pip compiles what it installs
    command = [sys.executable, __file__, "--epochs", way]
    text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    first, later = (list(map(float, line.split())) for line in text.stdout.splitlines())
    return first, later


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--epochs"]:
        if sys.argv[2] == STEPS:
            _steps()
        else:
            _epochs(sys.argv[2] == WAYS[1])
        return
    ways = (STEPS,) if "resnet" in sys.argv else WAYS
    runs = next((int(count) for count in sys.argv[1:] if count.isdecimal()), 3)
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:  # leaves the compiled modules
            _measured(way, folder)
        times = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                cold, _ = _measured(way, folder)
                warm, later = _measured(way, folder)
            assert cold[2] == warm[2], "a cold process and a warm one gave other losses"
            times.append((cold, warm, later))
        cold, warm, later = (min(column) for column in zip(*times, strict=True))
        ratio = min(cold[0] / warm[0] for cold, warm, _ in times)
        print(f"{way:18} cold {cold[0]:5.2f} ({cold[1]:.2f})  warm {warm[0]:5.2f} ({warm[1]:.2f})  "
              f"later {later[0]:5.2f}  cold / warm {ratio:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
