"""Worker processes: the same batches as without, and every way in which one may end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import data
from netcl_core.errors import ArgumentError

#: They start processes.
pytestmark = pytest.mark.turns(2)

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def samples(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module that workers import, too; afterwards no process of ours is left."""
    monkeypatch.syspath_prepend(HERE)
    import worker_samples

    yield worker_samples
    until = time.monotonic() + 20
    while multiprocessing.active_children() and time.monotonic() < until:
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def lists(loader: data.DataLoader) -> list[Any]:
    return [[part.tolist() for part in batch] for batch in loader]


def test_batches_are_those_of_one_process(samples: Any) -> None:
    """Whatever the number of workers, twice, shuffled; and on the device they are wanted on."""
    device = nc.devices()[0]
    settings: dict[str, Any] = {
        "batch_size": 7,
        "shuffle": True,
        "device": device,
        "drop_last": True,
    }
    reference = data.DataLoader(samples.Squares(40), seed=3, **settings)
    wanted = [lists(reference) for _ in range(2)]
    for count, persistent, context in ((1, False, "spawn"), (3, True, "forkserver")):
        loader = data.DataLoader(
            samples.Squares(40), seed=3, num_workers=count, persistent_workers=persistent,
            multiprocessing_context=context, prefetch_factor=1 + persistent, **settings,
        )  # fmt: skip
        assert [lists(loader) for _ in range(2)] == wanted
        assert len(multiprocessing.active_children()) == (count if persistent else 0)
        assert all(part.device is device for part in next(iter(loader)))
        del loader


def test_more_workers_than_batches_and_none_at_all(samples: Any) -> None:
    for count in (0, 2):
        loader = data.DataLoader(samples.Squares(count), 5, num_workers=3, device="numpy")
        assert [len(x) for x, _ in loader] == ([2] if count else [])


def test_a_worker_knows_itself(samples: Any) -> None:
    """Its number, its seed, what was done when it began; and any nest of samples comes through."""
    settings: dict[str, Any] = {
        "num_workers": 2,
        "device": "numpy",
        "worker_init_fn": samples.begin,
    }
    found = [list(data.DataLoader(samples.Who(), 2, seed=seed, **settings)) for seed in (1, 1, 2)]
    workers, names, begun, drawn = [], [], [], []
    for batch in found[0]:
        workers += batch["worker"][0].tolist()
        names += list(batch["pair"].name)
        begun += batch["begun"]
        assert type(batch["pair"]) is samples.Pair and batch["worker"][1].tolist() == [2, 2]
    assert workers == [0, 0, 1, 1, 0, 0] and names == list("012345")
    assert begun == [f"worker {k}" for k in workers]
    drawn = [[batch["drawn"].tolist() for batch in each] for each in found]
    assert drawn[0] == drawn[1] != drawn[2] and len({v for b in drawn[0] for v in b}) == 6
    assert data.get_worker_info() is None


def test_samples_one_after_the_other(samples: Any) -> None:
    """Workers take turns, each with its own share; a collate_fn runs in them."""
    found = [batch.tolist() for batch in data.DataLoader(samples.Shares(), 2, num_workers=3)]
    assert found == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    single = data.DataLoader(samples.Squares(4), 3, num_workers=1, collate_fn=samples.total)
    assert [(x.tolist(), n) for x, n in single] == [([0.0, 3.0, 6.0], 3), ([9.0], 1)]


@pytest.mark.parametrize(
    ("then", "error", "text"),
    [
        ("raise", KeyError, "broken sample"),
        ("odd", data.WorkerError, r"an error in worker 1\n(.|\n)*happen(.|\n)*one and two"),
        (
            "kill",
            data.WorkerError,
            r"worker 1 \(process \d+\) was killed by SIGKILL, exit code -9",
        ),
        ("exit", data.WorkerError, r"worker 1 .* ended by itself, exit code 3"),
        ("nest", ArgumentError, "num_workers=1 in a worker, which can have none"),
    ],
)
def test_what_happens_in_a_worker_arrives(
    samples: Any, then: str, error: type[Exception], text: str
) -> None:
    """After the batches before it, with the worker's number and traceback."""
    dataset = samples.Squares(100, at=50, then=then)
    loader = data.DataLoader(dataset, 10, num_workers=2, device="numpy")
    seen = 0
    with pytest.raises(error, match=text) as caught:
        for _ in loader:
            seen += 1
    assert seen == 5
    if then == "raise":
        assert "an error in worker 1" in str(caught.value.__cause__)
        assert "in happen" in str(caught.value.__cause__)


def test_a_batch_may_take_so_long(samples: Any) -> None:
    dataset = samples.Squares(9, at=0, then="sleep")
    begun = time.monotonic()
    with pytest.raises(data.WorkerError, match=r"no batch of worker 0 within 0\.5 s"):
        list(data.DataLoader(dataset, num_workers=1, device="numpy", timeout=0.5))
    assert time.monotonic() - begun < 60


def test_what_cannot_be_sent(samples: Any) -> None:
    with pytest.raises(ArgumentError, match=r"that cannot be sent to workers: .*<lambda>"):
        list(data.DataLoader([1, 2], collate_fn=lambda batch: batch, num_workers=1))
    with pytest.raises(OSError, match="no such place here") as caught:
        list(data.DataLoader(samples.Unloadable(), num_workers=1))
    assert "an error in worker 0" in str(caught.value.__cause__)


def test_passes_that_are_left(samples: Any) -> None:
    """One that is left ends its workers, or leaves them to the next pass, and only to that."""
    for _ in data.DataLoader(samples.Squares(), 10, num_workers=2, device="numpy"):
        break
    assert multiprocessing.active_children() == []
    kept = data.DataLoader(
        samples.Squares(30), 10, num_workers=1, device="numpy", persistent_workers=True
    )
    first = iter(kept)
    next(first)
    second = iter(kept)
    assert next(second)[1].tolist()[:2] == [0.0, 1.0]
    with pytest.raises(data.WorkerError, match="an iterator of an earlier pass"):
        list(first)
    del kept, first, second


def test_large_tasks_and_batches_do_not_block_each_other(samples: Any) -> None:
    """Lists of numbers and batches that are each more than a pipe holds."""
    rows = np.zeros((2, 50_000), np.float32)
    chosen = [[k % 2] * 300 for k in range(5)]
    indices = [list(range(2)) * 60_000]
    loader = data.DataLoader(
        data.TensorDataset(rows), batch_sampler=chosen, num_workers=1, device="numpy"
    )
    assert [batch[0].shape for batch in loader] == [(300, 50_000)] * 5
    small = data.TensorDataset(rows[:, :4])
    loader = data.DataLoader(small, batch_sampler=indices * 6, num_workers=1, device="numpy")
    assert [batch[0].shape for batch in loader] == [(120_000, 4)] * 6


SCRIPT = """
import sys, time
sys.path.insert(0, {here!r})
from netcl_plugin_data import api as data
from worker_samples import Squares

def main():
    loader = data.DataLoader(Squares(10**6, 30, {then!r}), 10, num_workers=2, device="numpy")
    for k, _ in enumerate(loader):
        if k == 0:
            import multiprocessing
            print(*[each.pid for each in multiprocessing.active_children()], flush=True)

{guard}
    main()
"""


def script(tmp_path: Path, then: str, guard: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(here=str(HERE), then=then, guard=guard))
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


@pytest.mark.parametrize(("sent", "to_all"), [("SIGINT", True), ("SIGKILL", False)])
def test_workers_end_with_their_parent(tmp_path: Path, sent: str, to_all: bool) -> None:
    """Ctrl-C reaches all processes of a terminal; a kill only one. A worker is asleep meanwhile."""
    process = script(tmp_path, "sleep", 'if __name__ == "__main__":')
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    (os.killpg if to_all else os.kill)(process.pid, getattr(signal, sent))
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    if to_all:
        assert "KeyboardInterrupt" in errors and "netcl-data" not in errors
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    process = script(tmp_path, "", "if True:")
    _, errors = process.communicate(timeout=120)
    assert "WorkerError" in errors and 'needs `if __name__ == "__main__":`' in errors
