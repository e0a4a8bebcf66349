"""`netcl train`: files, table, exit codes, and what registering the plugin does not import."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from netcl_plugin_train import models, report, tasks
from netcl_plugin_train.files import running_mean
from netcl_plugin_train.loop import History
from netcl_plugin_train.report import Display
from rich.console import Console
from tensorboardX.proto.event_pb2 import Event

import netcl_core as nc
from netcl_core.cli.main import netcl

#: They start processes.
pytestmark = pytest.mark.turns(2)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(netcl, ["train", *arguments], catch_exceptions=False)


def points(path: Path) -> list[tuple[str, int]]:
    """The curves' names and steps in a file of TensorBoard's: records with their length first."""
    data, begin, found = path.read_bytes(), 0, []
    while begin < len(data):
        end = begin + 12 + int.from_bytes(data[begin : begin + 8], "little")
        event = Event.FromString(data[begin + 12 : end])
        found += [(value.tag, event.step) for value in event.summary.value]
        begin = end + 4
    return found


def test_a_run_leaves_model_and_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = ("digits", "--device", "numpy", "--epochs", "3", "--batch-size", "64")
    result = call(*run, "--plot", "--profile", "--log", "json", "--log", "tensorboard")
    assert result.exit_code == 0, result.output
    model, curves = Path("runs/digits/model.safetensors"), Path("runs/digits/curves.png")
    assert model.stat().st_size > 60_000
    assert curves.read_bytes().startswith(b"\x89PNG") and curves.stat().st_size > 10_000
    for text in (
        "epoch 3/3",
        "NumPy",
        "netcl-plugin-optim 0.",
        "steps per second",
        "test accuracy",
    ):
        assert text in result.output
    assert f"{model} (loads back, same accuracy)" in result.output
    assert str(curves) in result.output and "\x1b" not in result.output
    trace = json.loads(Path("runs/digits/trace.json").read_text())["traceEvents"]
    ran = [each["name"] for each in trace if each["ph"] == "X"]
    assert ran.count("host: cross_entropy_rows") == 12  # steps 11 to 22, and no evaluation
    assert "host: linear" in Path("runs/digits/profile.txt").read_text()
    rows = [json.loads(line) for line in Path("runs/digits/metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [10, 20, 22, 32, 42, 44, 54, 64, 66]
    assert [row["epoch"] for row in rows if "accuracy" in row] == [1, 2, 3]
    (events,) = Path("runs/digits/tensorboard").iterdir()
    assert {"loss", "lr", "accuracy"} <= {tag for tag, _ in points(events)}


def test_json_alone_is_on_stdout(tmp_path: Path) -> None:
    result = call("digits", "--device", "numpy", "--epochs", "1", "--out", str(tmp_path), "--json")
    data = json.loads(result.stdout)
    assert data["device"] == "numpy" and data["model"] == str(tmp_path / "model.safetensors")
    assert 0 < data["test_accuracy"] == data["test_accuracy_reloaded"]
    assert "epoch 1/1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["flowers"], "'flowers' is not one of 'digits'"),
        (["mnist"], "mnist takes a FOLDER with the four .gz files of https://"),
        (["digits", "folder"], "digits takes no second argument"),
        ([], "Missing argument"),
        (["digits", "--epochs", "0"], "--epochs"),
        (["digits", "--lr", "0"], "--lr"),
    ],
)
def test_wrong_usage(arguments: list[str], text: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2 and text in result.output


def test_the_environment(tmp_path: Path) -> None:
    result = call("digits", "--device", "opencl:999", "--out", str(tmp_path))
    assert result.exit_code == 3 and "'opencl:999' names no usable device" in result.output
    (tmp_path / "file").write_text("")
    result = call("digits", "--device", "numpy", "--out", str(tmp_path / "file" / "out"))
    assert result.exit_code == 3 and "cannot be written" in result.output


def test_a_run_that_diverges(tmp_path: Path) -> None:
    result = call("digits", "--device", "numpy", "--lr", "1e38", "--out", str(tmp_path))
    assert result.exit_code == 1 and "Lower the learning rate" in result.output


#: The command, killed before it writes its second checkpoint.
KILLED = """
import os, signal
from netcl_core.cli.main import netcl
from netcl_plugin_train import checkpoints
write = checkpoints.save
def save(state, path):
    if len(state["history"]["seconds"]) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(state, path)
checkpoints.save = save
netcl()
"""


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """And in two processes to the same model."""
    run = ["digits", "--device", "numpy", "--epochs", "3", "--batch-size", "96", "--out"]
    whole, there, two = (str(tmp_path / name) for name in ("whole", "there", "two"))
    assert call(*run, whole, "--resume").exit_code == 0  # without a checkpoint it begins
    done = subprocess.run([sys.executable, "-c", KILLED, "train", *run, there], check=False)
    assert done.returncode == -9
    shutil.copytree(there, two)
    result = call(*run, there, "--resume", "--seed", "1")
    assert result.exit_code == 1 and "Give --seed 0" in result.output
    result = call(*run, there, "--resume")
    assert result.exit_code == 0 and "epoch 2/3" in result.output
    assert "epoch 1/3" not in result.output
    ends = [nc.load(Path(each, "checkpoint.safetensors")) for each in (whole, there)]
    assert ends[0]["history"]["losses"] == ends[1]["history"]["losses"]
    models = [Path(each, "model.safetensors") for each in (whole, there, two)]
    assert models[0].read_bytes() == models[1].read_bytes()

    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec, netcl = (shutil.which(name, path=places) for name in ("mpiexec", "netcl"))
    if mpiexec is None:
        pytest.skip("no mpiexec: pip install mpich")
    command = [mpiexec, "-n", "2", str(netcl), "train", *run, two, "--resume", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2
    losses = nc.load(Path(two, "checkpoint.safetensors"))["history"]["losses"]
    expected = ends[0]["history"]["losses"]
    assert len(losses) == len(expected) == 42  # rounding grows with the steps
    np.testing.assert_allclose(losses[14:28], expected[14:28], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "run", [["text", "words", "--device", "numpy"], ["digits", "--graph", "--amp"]], ids=str
)
def test_ctrl_c_in_an_epoch(
    run: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropout, the order of samples and the scaler go on where they were; so do the metrics."""
    monkeypatch.chdir(tmp_path)
    Path("words").write_text("to be or not to be. " * 200)
    if run[0] == "text":
        small = partial(models.GPT2, 256, 64, width=16, layers=1, heads=2)
        monkeypatch.setitem(tasks.TASKS, "text", replace(tasks.TASKS["text"], model=small))
    run += ["--epochs", "2", "--batch-size", "4" if run[0] == "text" else "96", "--log", "json"]
    assert call(*run, "--out", "whole").exit_code == 0
    tell = Display.step

    def interrupted(display: Any, steps: int, loss: float, rate: float) -> None:
        if 20 <= steps < 25:
            os.kill(os.getpid(), signal.SIGINT)
        tell(display, steps, loss, rate)

    monkeypatch.setattr(Display, "step", interrupted)
    result = call(*run, "--out", "there")
    assert result.exit_code == 130 and "--resume" in result.output
    rows = Path("there/metrics.jsonl").read_text()
    Path("there/metrics.jsonl").write_text(rows + '{"step": 99}\n{"step":')  # of a killed run
    assert call(*run, "--out", "there", "--resume").exit_code == 0
    models_ = [Path(each, "model.safetensors").read_bytes() for each in ("whole", "there")]
    assert models_[0] == models_[1]
    steps = [
        json.loads(row)["step"] for row in Path("there/metrics.jsonl").read_text().splitlines()
    ]
    assert steps == sorted(steps) and steps[-1] < 99


def test_help_needs_no_training_libraries() -> None:
    code = """
import sys
from click.testing import CliRunner
from netcl_core.cli.main import netcl
result = CliRunner().invoke(netcl, ["train", "--help"])
assert result.exit_code == 0 and "--batch-size" in result.output, result.output
heavy = {"matplotlib", "sklearn", "safetensors", "netcl_plugin_nn.api", "netcl_plugin_train.run"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_registering_imports_no_command_line() -> None:
    code = """
import sys
import netcl_core as nc
assert {"nn", "optim", "data", "train"} <= {plugin.name for plugin in nc.plugins.list()}
ours = ("netcl_plugin_train", "netcl_plugin_nn", "netcl_plugin_optim", "netcl_plugin_data")
loaded = {name for name in sys.modules if name.partition(".")[0] in ours}
# records of a pattern, and of the ops of recurrent steps
records = {"netcl_plugin_optim.written_out", *("netcl_plugin_nn." + name
           for name in ("gates", "sequences"))}
assert loaded == {*ours, *records}, loaded
assert not {"click", "rich", "sklearn"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Console(force_terminal=True, width=100)
    history = History(losses=[1.0, 0.5], accuracies=[0.25], seconds=[1.0], steps=[2])
    with report.Display(shown, "digits on cpu", 1) as display:
        display.step(2, 0.5, 0.1)
        display.epoch(1, history)
        display.step(2, 0.5, 0.1)
    text = capsys.readouterr().out
    for part in ("digits on cpu", "100%", "loss 0.5000", "accuracy 0.2500", "steps/s"):
        assert part in text


def test_running_mean() -> None:
    assert running_mean([1.0, 3.0], 0.5) == [1.0, 2.0]
    assert running_mean([]) == []
