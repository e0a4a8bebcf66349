"""What the tests run under mpiexec: `python job.py SCENARIOS FOLDER`, in every process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, autodiff, data, distributed, nn, optim
from netcl_core.errors import NetclError

ROWS, STEPS = 16, 50


def raised(call: Any) -> str:
    """The text of the error that a call raises."""
    try:
        call()
    except NetclError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def network(norm: bool = True) -> Any:
    """A convolution, a batch norm, and layers; other weights in every process."""
    nc.manual_seed(distributed.rank() + 7)
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)]
    return nn.Sequential(*(layers if norm else layers[:1] + layers[2:]))


def batch(step: int) -> tuple[Any, Any]:
    """The whole batch of a step."""
    rng = np.random.default_rng(step)
    return rng.standard_normal((ROWS, 1, 6, 6), np.float32), rng.integers(0, 5, ROWS)


def train(model: Any, optimizer: Any, steps: range, parts: int, part: int, **more: Any) -> None:
    """Steps on this process' rows of each batch."""
    for step in steps:
        images, labels = (nc.tensor(a[part::parts]) for a in batch(step))
        optimizer.zero_grad()
        ag.cross_entropy(model(images), labels).backward()
        optimizer.step()


def sgd(model: Any) -> Any:
    return optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def numbers(model: Any) -> Any:
    """All parameters in a row."""
    return np.concatenate([p.numpy().ravel() for p in model.parameters()])


def equal(folder: Path) -> None:
    """The parameters of one process on the whole batch, also by way of a checkpoint."""
    size, rank = distributed.size(), distributed.rank()
    model = distributed.DistributedDataParallel(network(norm=False), bucket_cap_mb=0.001)
    start = {name: x.numpy() for name, x in model.module.state_dict().items()}
    optimizer = sgd(model)
    train(model, optimizer, range(STEPS // 2), size, rank)
    if rank == 0:
        nc.save({"model": model.module.state_dict(), "sgd": optimizer.state_dict()}, folder / "c")
    train(model, optimizer, range(STEPS // 2, STEPS), size, rank)
    alone = network(norm=False)
    alone.load_state_dict(start)
    train(alone, sgd(alone), range(STEPS), 1, 0)
    np.testing.assert_allclose(numbers(model), numbers(alone), rtol=0, atol=1e-6)
    seen = distributed.all_gather(nc.tensor(numbers(model)).reshape(1, -1)).numpy()
    assert (seen == seen[0]).all()
    if rank == 0:
        np.save(folder / "end.npy", seen[0])


def resumed(folder: Path) -> None:
    """The checkpoint of other processes, however many they were, leads to what they came to."""
    model = distributed.DistributedDataParallel(network(norm=False))
    optimizer = sgd(model)
    known = nc.load(folder / "c")
    model.module.load_state_dict(known["model"])
    optimizer.load_state_dict(known["sgd"])
    train(model, optimizer, range(STEPS // 2, STEPS), distributed.size(), distributed.rank())
    np.testing.assert_allclose(numbers(model), np.load(folder / "end.npy"), rtol=0, atol=1e-6)


def train_by(model: Any, optimizer: Any, scheduler: Any, steps: range) -> None:
    """Steps on this process' rows, each with a step of the schedule."""
    for step in steps:
        train(model, optimizer, range(step, step + 1), distributed.size(), distributed.rank())
        scheduler.step()


def kept(path: Path, state: Any) -> Any:
    """What rank 0 writes, read by all."""
    if distributed.rank() == 0:
        nc.save(state, path)
    distributed.barrier()
    return nc.load(path)


def sharded(folder: Path) -> None:
    """States shared out over the processes lead where one optimizer does, also by a checkpoint."""
    size, rank = distributed.size(), distributed.rank()
    model, other = (distributed.DistributedDataParallel(network(norm=False)) for _ in range(2))
    other.load_state_dict(model.state_dict())

    def shares() -> tuple[Any, Any]:
        weights, biases = ([p for p in model.parameters() if (p.ndim > 1) == k] for k in (1, 0))
        optimizer = distributed.ZeroRedundancyOptimizer(weights, optim.AdamW, lr=0.01)
        optimizer.add_param_group({"params": biases, "lr": 0.02})
        return optimizer, optim.lr_scheduler.StepLR(optimizer, 10)

    optimizer, _ = parts = shares()
    assert "Call consolidate_state_dict" in raised(optimizer.state_dict)
    train_by(model, *parts, range(STEPS // 2))
    held = sum(np.size(e["exp_avg"]) for e in optimizer._own.state_dict()["state"].values())
    assert held == optimizer._loads[rank] < sum(p.size for p in model.parameters()) or size == 1
    optimizer.consolidate_state_dict()
    known = kept(folder / "z", optimizer.state_dict() if rank == 0 else None)
    optimizer, scheduler = shares()
    optimizer.load_state_dict(known)
    scheduler.last_epoch = STEPS // 2
    train_by(model, optimizer, scheduler, range(STEPS // 2, STEPS))

    groups = [[p for p in other.parameters() if (p.ndim > 1) == k] for k in (1, 0)]
    alone = optim.AdamW([{"params": groups[0]}, {"params": groups[1], "lr": 0.02}], lr=0.01)
    train_by(other, alone, optim.lr_scheduler.StepLR(alone, 10), range(STEPS))
    np.testing.assert_allclose(numbers(model), numbers(other), rtol=0, atol=1e-6)
    alone.load_state_dict(known)
    assert "LBFGS" in raised(
        lambda: distributed.ZeroRedundancyOptimizer(model.parameters(), optim.LBFGS)
    )


def normed(folder: Path) -> None:
    """A batch norm by each process' rows: as one process that averages the parts' gradients."""
    size, rank = distributed.size(), distributed.rank()
    model = distributed.DistributedDataParallel(network())
    start = {name: x.numpy() for name, x in model.module.state_dict().items()}
    train(model, sgd(model), range(STEPS), size, rank)
    alone = network()
    alone.load_state_dict(start)
    optimizer = sgd(alone)
    for step in range(STEPS):
        images, labels = batch(step)
        optimizer.zero_grad()
        for part in range(size):
            rows = nc.tensor(images[part::size]), nc.tensor(labels[part::size])
            (ag.cross_entropy(alone(rows[0]), rows[1]) / size).backward()
        optimizer.step()
    np.testing.assert_allclose(numbers(model), numbers(alone), rtol=0, atol=1e-6)
    model(nc.zeros(1, 1, 6, 6))  # takes over the buffers of rank 0, then changes them alike
    means = distributed.all_gather(model.module[1].running_mean.reshape(1, -1)).numpy()
    assert (means == means[0]).all()


def collectives(folder: Path) -> None:
    """Every collective on every dtype, and what they refuse."""
    size, rank = distributed.size(), distributed.rank()
    for dtype in nc.DTYPES:
        x = nc.tensor(np.arange(2 * size) % 2 + rank % 2, dtype=dtype)
        rows = [
            (np.arange(2 * size) % 2 + r % 2).astype(nc.DTYPES[dtype].numpy) for r in range(size)
        ]
        total = np.sum(np.array(rows, np.float64), 0)
        total = total > 0 if dtype == "bool" else total
        made = distributed.all_reduce(x)
        assert made.dtype == dtype and made.numpy().astype(np.float64).tolist() == list(total)
        assert distributed.broadcast(x, size - 1).tolist() == rows[-1].tolist()
        assert distributed.all_gather(x).tolist() == np.concatenate(rows).tolist()
        part = distributed.reduce_scatter(x).numpy().astype(np.float64)
        assert part.tolist() == list(total[2 * rank : 2 * rank + 2])
    strided = nc.tensor([[1.0, 2.0], [3.0, 4.0]]).T
    assert distributed.all_reduce(strided, "mean").tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert distributed.all_reduce(nc.tensor(float(rank)), "MAX").item() == size - 1
    for call in (distributed.all_reduce, distributed.all_gather, distributed.reduce_scatter):
        assert call(nc.zeros(0, 3)).shape == (0, 3)
    distributed.barrier()
    assert "floating" in raised(lambda: distributed.all_reduce(nc.tensor([1]), "MEAN"))
    if size > 1:  # one process is at odds with nobody, and everything is divisible by one
        uneven = nc.zeros(2 + rank)
        assert "of shape (2,) SUM in rank 0 and" in raised(lambda: distributed.all_reduce(uneven))
        assert "divisible" in raised(lambda: distributed.reduce_scatter(nc.zeros(size + 1)))
        assert "differ" not in raised(
            lambda: distributed.DistributedDataParallel(nn.Linear(2 + rank, 1))
        )
    gm = autodiff.GradManager()
    w = nc.tensor([1.0])
    gm.attach(w, callbacks=[distributed.make_allreduce_cb("MEAN")])
    with gm:
        gm.backward(w * rank)
    assert w.grad.item() == (size - 1) / 2


def gradients(folder: Path) -> None:
    """Unused parameters, no_sync, ag.grad, a scaler, and samplers."""
    size, rank = distributed.size(), distributed.rank()

    class Choosing(nn.Module):
        def __init__(self) -> None:
            self.ones = nn.ParameterList([nc.ones(2, requires_grad=True) for _ in range(4)])

        def forward(self, *which: int) -> Any:
            return sum(self.ones[n].sum() * (rank + 1.0) for n in which)

    model = distributed.DistributedDataParallel(Choosing(), bucket_cap_mb=4e-6)
    total = size * (size + 1) / 2 / size
    for _ in range(2):  # before and after the buckets follow the order of the first pass
        model.zero_grad()
        model(0, 1 + rank % 2).backward()
        own = [None if p.grad is None else p.grad.numpy()[0] for p in model.parameters()]
        evens, odds = (sum(r + 1.0 for r in range(k, size, 2)) / size for k in (0, 1))
        assert own == [total, evens, odds or None, None]
    model.zero_grad()
    with model.no_sync():
        model(0, 3).backward()
    assert model.module.ones[0].grad.numpy()[0] == rank + 1
    [loose] = ag.grad(model(0), [model.module.ones[0]])
    assert loose.numpy()[0] == rank + 1
    model(0).backward()
    assert model.module.ones[0].grad.numpy()[0] == 2 * total
    assert model.module.ones[3].grad.numpy()[0] == total
    model.zero_grad()
    optimizer, scaler = optim.SGD(model.parameters(), lr=1.0), amp.GradScaler(init_scale=4.0)
    factor = float("inf") if rank == size - 1 else 1.0
    scaler.scale(model(0) * factor).backward()
    scaler.step(optimizer)
    assert model.module.ones[0].tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    for drop_last in (False, True):
        sampler = data.DistributedSampler(range(10), seed=3, drop_last=drop_last)
        sampler.set_epoch(1)
        mine = nc.tensor(list(sampler))
        assert len(sampler) == mine.size
        seen = distributed.all_gather(mine).tolist()
        assert drop_last or set(seen) == set(range(10))
        assert not drop_last or len(set(seen)) == len(seen) == 10 // size * size


def killed(folder: Path) -> None:
    """The last rank is killed while the others wait."""
    if distributed.rank() == distributed.size() - 1:
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.barrier()


def killed_first(folder: Path) -> None:
    """Rank 0 is killed."""
    if distributed.rank() == 0:
        time.sleep(0.7)
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.barrier()


def hanging(folder: Path) -> None:
    """The last rank does something else."""
    if distributed.rank() == distributed.size() - 1:
        time.sleep(60)
    distributed.barrier()


def raising(folder: Path) -> None:
    """The last rank has an error."""
    if distributed.rank() == distributed.size() - 1:
        raise ValueError("no such file")
    distributed.barrier()


if __name__ == "__main__":
    chosen = sys.argv[1].split(",")
    distributed.init(timeout=2.0 if chosen == ["hanging"] else 20.0)
    for name in chosen:
        globals()[name](Path(sys.argv[2]))
        print(f"{name} of rank {distributed.rank()}: ok")
