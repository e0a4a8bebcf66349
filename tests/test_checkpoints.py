"""Files of nc.save and nc.load, and trainings that are killed and go on from them."""

from __future__ import annotations

import io
import os
import pickle
import random
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core.errors import ArgumentError, AttributeValueError, CheckpointError

NEST = {
    "epoch": 3,
    1: (1.5, None, True, 2**70, -0.0),
    "state": OrderedDict(a=[b"\x00\xff", {2, "x"}, frozenset([1])], b={}),
    "text": "ünï\n",
    ("a", 1): [[], ()],
}


def round_trip(x: Any) -> Any:
    file = io.BytesIO()
    nc.save(x, file)
    file.seek(0)
    return nc.load(file)


def test_a_nest_comes_back_as_it_was() -> None:
    again = round_trip(NEST)
    assert repr(again) == repr(NEST)
    assert np.isnan(round_trip([float("nan")])[0])
    w = nc.tensor([1.0, 2.0], requires_grad=True)
    arrays = {"w": w, "a.b": np.arange(3, dtype=np.uint16), "a": {"b": np.float64(0.1)}, "tied": w}
    again = round_trip(arrays)
    assert again["w"] is again["tied"] and again["w"].requires_grad
    assert again["a.b"].dtype == np.uint16 and again["a"]["b"] == 0.1
    assert again["a.b"].flags.writeable
    for dtype in nc.DTYPES:
        x = nc.tensor([[0, 1, 2]]).astype(dtype)
        for shape in ((), (0, 2), (3, 1)):
            value = x[0, 1] if not shape else x.reshape(3, 1) if shape[0] else x[:0]
            [found] = round_trip([value])
            assert (found.shape, found.dtype) == (value.shape, dtype)
            assert found.to_host().tobytes() == value.to_host().tobytes()


def test_what_cannot_be_saved_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"Linear at \['model'\]\[0\].*Give its state_dict"):
        nc.save({"model": [nc.nn.Linear(2, 2)]}, tmp_path / "x")
    with pytest.raises(ArgumentError, match=r"builtins\.object;.*Give its parts"):
        nc.save(object(), tmp_path / "x")
    with pytest.raises(ArgumentError, match="of dtype complex128"):
        nc.save([np.zeros(2, complex)], tmp_path / "x")
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ArgumentError, match="no value in itself"):
        nc.save(loop, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_whole_or_as_before_and_keeps_its_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "x", []
    nc.save([1], path)
    path.chmod(0o600)
    kept = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number)), kept(number)))
    nc.save([2], path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_ISDIR(each.st_mode) for each in synced] == [False, True]

    def fails(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match=str(path)):
        nc.save([3], path)
    assert nc.load(path) == [2] and list(tmp_path.iterdir()) == [path]


def test_damaged_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    nc.save({"a": np.arange(10.0), "n": [1]}, path)
    whole = path.read_bytes()
    rng = random.Random(0)
    for length in (0, 4, 8, 20, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"cut.*cannot be read"):
            nc.load(path)
    for _ in range(200):  # any byte of the header: an error of ours, or a value
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole) - 80)] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(CheckpointError):
            nc.load(path)


def test_a_header_of_640_bytes_is_no_pickle(tmp_path: Path) -> None:
    about = "x"
    while True:
        file = io.BytesIO()
        nc.save({"w": nc.ones(1)}, file, about={"a": about})
        if (length := int.from_bytes(file.getvalue()[:8], "little")) >= 640:
            break
        about += "x"
    assert length == 640
    file.seek(0)
    assert nc.load(file)["w"].item() == 1


# -- PyTorch's files -----------------------------------------------------------------------


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_pytorch(tmp_path: Path, zipped: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(3, 4)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    dtypes = [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.bool]
    given = {
        "net": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "views": [x.t(), x[1:, ::2], x[0].expand(2, 4), torch.tensor(3), torch.empty(0, 3)],
        "dtypes": [torch.tensor([0, 1]).to(each) for each in dtypes],
        "leaf": torch.nn.Parameter(torch.ones(2)),
        "plain": [None, True, 2**70, 0.1, "é", b"\xff", {1, 2}, (1, (2,)), torch.float16, x.shape],
    }
    path = tmp_path / "x.pt"
    torch.save(given, path, _use_new_zipfile_serialization=zipped)
    found = nc.load(path, map_location=lambda storage, location: storage, weights_only=True)
    assert found["plain"] == [*given["plain"][:8], "float16", (3, 4)]
    assert found["leaf"].requires_grad
    mine, theirs = flat(found), flat(given)
    assert len(mine) == len(theirs) > 20
    for ours, other in zip(mine, theirs, strict=True):
        assert ours.dtype == str(other.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(ours.float().numpy(), other.detach().float().numpy())


def flat(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [y for each in x.values() for y in flat(each)]
    if isinstance(x, list):
        return [y for each in x for y in flat(each)]
    return [x] if hasattr(x, "requires_grad") else []


def test_no_code_of_a_file_runs_and_none_unfolds_without_bound(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path, touched = tmp_path / "evil", tmp_path / "touched"
    for zipped in (True, False):
        torch.save({"x": Evil(touched)}, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(CheckpointError, match=r"evil.*which is not allowed"):
            nc.load(path)
    torch.save([torch.ones(1).expand(10**6, 10**6)], path)
    with pytest.raises(CheckpointError, match="far more than the file holds"):
        nc.load(path)
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.linear\.Linear"):
        nc.load(path)
    built = b"\x80\x02c__builtin__\nset\n}(X\x04\x00\x00\x00callK\x01ub."
    cut = pickle.dumps([1])[:-3]
    for pickled in (built, cut, b"(((", b"N0.", b"\x80\x02r\xff\xff\xff\x7f.", b"h\x05.", b"."):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", pickled)
        with pytest.raises(CheckpointError, match="cannot be read"):
            nc.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"N.")
    with pytest.raises(CheckpointError, match="is compressed"):
        nc.load(path)
    assert not touched.exists()


# -- random numbers, and trainings that go on ------------------------------------------------


def test_random_numbers_go_on_from_a_state() -> None:
    nc.manual_seed(3)
    nc.rand(3)
    nc.host_generator().integers(5)
    state = nc.get_rng_state()

    def draw() -> list[Any]:
        x = nc.nn.functional.dropout(nc.ones(100))
        return [nc.rand(4).tolist(), nc.host_generator().random(), x.tolist()]

    first = draw()
    nc.set_rng_state(round_trip(state))
    assert draw() == first
    with pytest.raises(AttributeValueError, match="what get_rng_state"):
        nc.set_rng_state(nc.zeros(3))


TRAINING = """
import sys
from pathlib import Path
import numpy as np
import netcl_core as nc
from netcl_core import amp, data, nn, optim

path, steps, pause = Path(sys.argv[1]), 40, float(sys.argv[2])
nc.manual_seed(7)
rows = np.random.default_rng(0).normal(size=(37, 6)).astype("float32")
loader = data.DataLoader(data.TensorDataset(rows, rows[:, 0] > 0), 5, shuffle=True)
net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
optimizer = optim.AdamW(net.parameters(), lr=0.01)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
scaler = amp.GradScaler(init_scale=64.0, growth_interval=7)
parts = dict(net=net, optimizer=optimizer, scheduler=scheduler, scaler=scaler, loader=loader)
step = 0
if path.exists():
    saved = nc.load(path)
    step = saved.pop("step")
    nc.set_rng_state(saved.pop("rng"))
    for name, state in saved.items():
        parts[name].load_state_dict(state)
print("ready", step, flush=True)
while step < steps:
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y.long())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        step += 1
        state = {name: part.state_dict() for name, part in parts.items()}
        nc.save({"step": step, "rng": nc.get_rng_state(), **state}, path)
        print(step, flush=True)
        if step == steps:
            break
        if pause:
            __import__("time").sleep(pause)
"""


def test_a_training_that_is_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def run(path: Path, pause: float, until: int | None = None) -> int:
        command = [sys.executable, "-c", TRAINING, str(path), str(pause)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line.startswith("ready"), line
            begun = int(line.split()[1])
            if until is not None:
                for _ in range(until):
                    child.stdout.readline()
                time.sleep(rng.uniform(0.0, 0.04))
                child.send_signal(signal.SIGKILL)
            child.communicate()
            assert child.returncode == (0 if until is None else -signal.SIGKILL)
        return begun

    straight, broken = tmp_path / "straight", tmp_path / "broken"
    rng = random.Random()
    run(straight, 0.0)
    starts = [run(broken, 0.02, until) for until in (3, 6, 5)]
    starts.append(run(broken, 0.0))
    assert starts[0] == 0 and starts[1] >= 3 and starts[3] >= 14
    assert straight.read_bytes() == broken.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".tmp") == [
        "broken", "straight"]  # fmt: skip
