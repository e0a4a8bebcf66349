"""Models that run without netcl: the folder's two host programs, and ONNX files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, serving
from netcl_core.cli.main import netcl
from netcl_core.errors import FusionError, ReplayError

DEVICES = [each for each in nc.devices() if each.has_kernels and not each.simulator]


class Net(nn.Module):  # type: ignore[misc,name-defined]
    """Convolution, norm, pooling, attention, a table, several results, a write of constants.

    Its weights are always the same: of some, a half result lies between two numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        nc.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.table = nn.Embedding(5, 8)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Any, ids: Any) -> Any:
        x = ag.max_pool2d(ag.silu(self.norm(self.conv(x))), 2).flatten(2).transpose(1, 2)
        x = self.attention(x + self.table(ids)) * nc.tensor([1.0, 2.0] * 4)
        return {"scores": self.out(x[:, 0]), "best": (x.argmax(-1), x.half()[:, ::2])}


def given() -> list[Any]:
    nc.manual_seed(1)
    return [nc.rand(2, 3, 8, 8), nc.tensor(np.arange(32).reshape(2, 16) % 5)]


def run(folder: Path, *command: str) -> str:
    """The output of a program, whose world has no netcl."""
    env = {**os.environ, "PYTHONPATH": "", "PYOPENCL_COMPILER_OUTPUT": "0"}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def largest(output: str) -> list[float]:
    return [float(line.rpartition(" ")[2]) for line in output.splitlines()]


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_folder_runs_without_netcl(device: Any, tmp_path: Path) -> None:
    """In Python and, where there is a compiler, in C; written twice, by other kernels first."""
    with nc.use_device(device):
        serving.export(ag.sinh, nc.rand(3), folder=tmp_path)
        serving.export(Net().eval(), *given(), folder=tmp_path)
    block = "import sys; sys.modules['netcl_core'] = None; import runpy; "
    python = run(tmp_path, sys.executable, "-c", block + "runpy.run_path('run.py', {}, '__main__')")
    assert len(largest(python)) == 3 and max(largest(python)) <= 1e-6
    assert "float32(2, 4)" in python and "int64(2, 16)" in python and "float16(2, 8, 8)" in python
    weights = nc.load(tmp_path / "weights.safetensors", "numpy")
    assert weights["conv.weight"].shape == (8, 3, 3, 3)
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include/CL/cl.h").exists():
        pytest.skip("no C compiler with OpenCL's headers: apt install gcc ocl-icd-opencl-dev")
    command = [compiler, "-O2", "-Wall", "-Werror", "run.c", "-lOpenCL", "-lm", "-o", "run"]
    assert run(tmp_path, *command) == ""
    assert len(largest(run(tmp_path, "./run"))) == 3
    assert max(largest(run(tmp_path, "./run"))) <= 1e-6


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: nn.functional.dropout(x), "such as random numbers"),
        (lambda x: nn.functional.batch_norm(x, x.new_zeros(4), STATE, training=True), "changes"),
        (lambda x: nc.linalg.inv(x), "a function of the host"),
        (lambda x: [3.0], "a result of type float"),
    ],
    ids=["random", "state", "host", "number"],
)
def test_what_cannot_be_exported(function: Callable[..., Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=text):
        serving.export(function, nc.rand(4, 4), folder=tmp_path / "served")


STATE = nc.ones(4)


def several(x: Any) -> Any:
    """Structured ops and their attributes."""
    a, b = x.split(2, -1)
    rows = [x[:, 1:, None], x[0, ..., ::2], a.unbind(0)[1], x.repeat(2, 1, 1), ag.stack([x, x])]
    sums = [x.sum(), x.argmax(-1), x.std(), x.amax(1), x.prod(-1, keepdim=True), x.cumsum(1)]
    found = [x @ x.transpose(1, 2), x.log_softmax(1), ag.pad(x, (1, 1)), (x > 0).any(), b.half()]
    kinds = [ag.where(x > 0, x, 0.0), x % 2, x.clamp(0, 1), x.round(), x.long() // 2, x**2]
    return rows + sums + found + kinds


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (Net().eval(), given()),
        (several, [nc.randn(2, 4, 4)]),
        (lambda x: [getattr(ag, each)(x) for each in ELEMENTWISE], [nc.rand(3, 4) * 0.9]),
    ],
    ids=["net", "structured", "elementwise"],
)
def test_onnxruntime_agrees(function: Any, inputs: list[Any], tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = serving.export_onnx(function, *inputs, path=tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {f"input{i}": x.numpy() for i, x in enumerate(inputs)})
    with nc.no_grad():
        expected = [each.numpy() for each in flat(function(*inputs))]
    for got, wanted in zip(found, expected, strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


ELEMENTWISE = [
    *("gelu", "sigmoid", "expm1", "log1p", "rsqrt", "erfc", "atan", "sinh", "round", "trunc"),
    *("sign", "mish", "elu", "hardswish", "asinh", "atanh", "log2", "exp2", "isfinite"),
]


def flat(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = list(result.values())
    return [y for x in result for y in flat(x)] if isinstance(result, (list, tuple)) else [result]


def test_an_op_that_onnx_has_not(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    with pytest.raises(FusionError, match=r"sort at .*test_export.py:\d+.*no counterpart"):
        serving.export_onnx(lambda x: x.sort()[0], nc.rand(4), path=tmp_path / "x.onnx")
    with pytest.raises(FusionError, match="random numbers"):
        serving.export_onnx(nn.Dropout(), nc.rand(4), path=tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("from netcl_core import nn\nnet = nn.Linear(3, 2)\n")
    target = f"{tmp_path}/model.py:net"
    call = lambda *more: CliRunner().invoke(netcl, ["export", target, *more])  # noqa: E731
    result = call("--shapes", "2x3", "--out", f"{tmp_path}/a", "--onnx", f"{tmp_path}/a.onnx")
    assert result.exit_code == 0, result.output
    assert result.output.split() == [f"{tmp_path}/a", f"{tmp_path}/a.onnx"]
    assert (tmp_path / "a/plan.txt").exists() and (tmp_path / "a.onnx").exists()
    assert np.fromfile(tmp_path / "a/example/input0.bin", np.float32).any()
    assert call("--shapes", "2x3").exit_code == 2
    result = call("--shapes", "2x3", "--out", f"{tmp_path}/b", "--device", "numpy")
    assert result.exit_code == 1 and "an OpenCL device" in result.output
