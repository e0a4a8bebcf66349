"""Weights in files, by netcl and by PyTorch, and states of both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both import DEVICES

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import ArgumentError, CheckpointError

torch = pytest.importorskip("torch")


def net(library: Any) -> Any:
    return library.Sequential(
        library.Conv1d(2, 3, 2), library.BatchNorm1d(3), library.LSTM(3, 4), library.Linear(4, 2)
    )


def arrays(model: Any) -> dict[str, Any]:
    return {name: np.array(x.tolist()) for name, x in model.state_dict().items()}


def check_equal(one: Any, other: Any) -> None:
    found, wanted = arrays(one), arrays(other)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_file_makes_another_model_the_same(device: nc.Device, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with nc.use_device(device):
        one, other = net(nn), net(nn)
        nn.save(one, path, {"kind": "test"})
        assert nn.load(other, path) == ([], [])
        check_equal(other, one)
        state = nn.load(path)
        assert {x.device for x in state.values()} == {device}
        assert state["1.num_batches_tracked"].dtype == "int64"
        nn.save({"again": state["0.weight"], "bf16": nc.ones(2).bfloat16()}, str(path))
        again = nn.load(str(path), device="numpy")
        assert again["bf16"].dtype == "bfloat16" and list(again) == ["again", "bf16"]


def test_files_of_pytorch_load_as_they_are(tmp_path: Path) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    theirs = net(torch.nn)
    save_file(theirs.state_dict(), tmp_path / "a.safetensors")
    torch.save(theirs.state_dict(), tmp_path / "b.pt")
    torch.save(theirs.state_dict(), tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    for name in ("a.safetensors", "b.pt", "c.pt"):
        ours = net(nn)
        assert nn.load(ours, tmp_path / name) == ([], [])
        check_equal(ours, theirs)


def test_states_go_both_ways() -> None:
    ours, theirs = net(nn), net(torch.nn)
    theirs.load_state_dict(nn.torch_state_dict(ours))
    check_equal(theirs, ours)
    nn.init.zeros_(ours[3].weight)
    ours.load_state_dict(theirs.state_dict())
    check_equal(ours, theirs)
    wrapped = {"module." + name: value for name, value in theirs.half().state_dict().items()}
    state = nn.from_torch_state_dict(wrapped, "numpy", prefix="module.")
    assert list(state) == list(ours.state_dict()) and state["3.weight"].dtype == "float16"
    low = nn.Linear(2, 2, dtype="bfloat16", device="numpy")
    there = nn.torch_state_dict(low)
    assert there["weight"].dtype == torch.bfloat16
    back = nn.from_torch_state_dict(there)["weight"]
    np.testing.assert_array_equal(back.float().numpy(), low.weight.float().numpy())


def test_what_does_not_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = nn.Linear(2, 3), tmp_path / "x"
    nn.save({"weight": nc.zeros(3, 3), "scale": nc.zeros(1)}, path)
    with pytest.raises(nn.StateError) as caught:
        nn.load(model, path)
    assert str(path) in caught.value.__notes__[0]
    for text in (
        "missing bias",
        "unexpected scale",
        "weight (shape (3, 3) given, (3, 2) expected)",
    ):
        assert text in str(caught.value)
    nn.save({"weight": nc.ones(3, 2)}, path)
    assert nn.load(model, path, strict=False) == (["bias"], [])
    with pytest.raises(ArgumentError, match=r"nn\.load\(model, path\)"):
        nn.load(model)
    with pytest.raises(ArgumentError, match="a dict of tensors"):
        nn.save(3, path)
    with pytest.raises(FileNotFoundError):
        nn.load(model, tmp_path / "none")
    path.write_bytes(b"no tensors at all")
    with pytest.raises(CheckpointError, match="cannot be read"):
        nn.load(model, path)
    torch.save({"model": {}, "epoch": 3}, path)
    with pytest.raises(nn.StateError, match="holds model, epoch; expected tensors by name"):
        nn.load(model, path)
    torch.save(torch.ones(2), path)
    with pytest.raises(nn.StateError, match="take the state out"):
        nn.load(model, path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(nn.TorchMissingError, match="PyTorch is not installed"):
        nn.torch_state_dict(model)
