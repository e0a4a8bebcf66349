"""Collectives and DistributedDataParallel by gloo: `python two_ranks.py RANK FOLDER`."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import netcl_torch  # noqa: F401 - brings the device
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(device: str, rank: int, **options: Any) -> torch.Tensor:
    """The parameters and buffers after some steps on every second row, with a batch norm."""
    torch.manual_seed(rank)
    parts = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    module = nn.Sequential(*parts).to(device)
    model = DistributedDataParallel(module, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    for step in range(5):
        x = torch.randn(8, 1, 6, 6, generator=generator)[rank::2].to(device)
        optimizer.zero_grad()
        if step == 3:
            with model.no_sync():
                model(x).square().mean().backward()
        model(x).square().mean().backward()
        optimizer.step()
    return torch.cat([x.detach().cpu().ravel() for x in module.state_dict().values()])


def collectives(rank: int) -> None:
    """Those that gloo has."""
    mine = torch.full((2,), rank + 1.0, device="netcl")
    rows = torch.zeros(3, 3, device="netcl")
    rows[:2, 1] = mine
    dist.all_reduce(rows[:, 1])
    assert rows.tolist() == [[0, 3, 0], [0, 3, 0], [0, 0, 0]]
    parts = [torch.zeros(2, device="netcl") for _ in range(2)]
    work = dist.all_gather(parts, mine, async_op=True)
    work.wait()
    assert [x.tolist() for x in parts] == [[1, 1], [2, 2]]
    if rank == 0:
        dist.send(mine, 1)
    else:
        dist.recv(mine, 0)
    assert mine.tolist() == [1, 1]
    seen: list[Any] = [None, None]
    dist.all_gather_object(seen, mine * rank)
    assert [x.tolist() for x in seen] == [[0, 0], [1, 1]]


def main(rank: int, folder: Path) -> None:
    """What each of the two processes does."""
    store, limit = f"file://{folder}/store", timedelta(seconds=30)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=limit)
    try:
        collectives(rank)
        expected = train("cpu", rank)
        for options in ({}, {"gradient_as_bucket_view": True, "bucket_cap_mb": 1e-4}):
            made = train("netcl", rank, **options)
            torch.testing.assert_close(made, expected, rtol=0, atol=1e-6)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
