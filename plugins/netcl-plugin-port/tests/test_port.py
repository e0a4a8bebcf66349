"""PyTorch's further names, what they answer, and `netcl port`."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from netcl_plugin_port.command import port
from netcl_plugin_port.names import NAMES

import netcl_core as nc
from netcl_core.errors import AttributeValueError, DtypeError


@pytest.mark.parametrize("place", NAMES)
def test_every_name_of_the_table_is_found(place: str) -> None:
    for plugin in ("amp", "autodiff", "data", "nn", "optim", "tensor"):  # whose names it has
        pytest.importorskip(f"netcl_plugin_{plugin}")
    for name in NAMES[place]:
        assert nc.port.find(place, name) is not None, name


def test_module_paths() -> None:
    for path in ("nn.modules.batchnorm", "nn.parameter", "nn.modules.utils", "optim.optimizer",
                 "autograd.function", "autograd.functional", "distributions.normal"):  # fmt: skip
        importlib.import_module(f"netcl_core.{path}")
    assert nc.nn.modules.conv.Conv2d is nc.nn.Conv2d
    from netcl_core.utils.data.dataloader import DataLoader

    assert DataLoader is nc.data.DataLoader
    checkpoint = importlib.import_module("netcl_core.utils.checkpoint").checkpoint
    x = nc.tensor([2.0], requires_grad=True)
    checkpoint(lambda y: y * y, x, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == [4.0]
    assert isinstance(nc.nn.BatchNorm2d(3), nc.nn.modules.batchnorm._BatchNorm)


def test_constants_limits_and_types() -> None:
    assert (nc.inf, nc.pi, nc.e) == (math.inf, math.pi, math.e) and math.isnan(nc.nan)
    for name in ("float16", "float32", "float64"):
        ours, theirs = nc.finfo(name), np.finfo(name)
        assert (ours.min, ours.max, ours.eps, ours.tiny, ours.bits) == (
            theirs.min, theirs.max, theirs.eps, theirs.tiny, theirs.bits)  # fmt: skip
    assert (nc.iinfo(nc.long).max, nc.iinfo("uint8").min) == (2**63 - 1, 0)
    with pytest.raises(DtypeError, match="finfo or iinfo: the dtype int64; expected floating"):
        nc.finfo("int64")
    assert nc.LongTensor([1, 2]).dtype == "int64" and nc.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(nc.ones(1), nc.FloatTensor) and not isinstance(nc.ones(1), nc.LongTensor)
    assert nc.Tensor([1, 2]).dtype == "float32" and nc.Tensor(2, 3).shape == (2, 3)
    assert nc.Tensor().shape == (0,) and nc.Tensor(2, 3, 4, 5, 6).shape == (2, 3, 4, 5, 6)


def test_a_tensors_further_names(either: nc.Device) -> None:
    x: Any = nc.ones(2, 3)
    assert x.is_cuda is (either.kind == "gpu") and x.cuda().device is either
    assert x.type("torch.LongTensor").dtype == x.type(nc.LongTensor).dtype == "int64"
    assert x.type() == "torch.FloatTensor" and x.type(nc.float16).dtype == "float16"
    assert x.mT.shape == (3, 2) and x.pin_memory() is x and x.nbytes == 24
    assert x.new_tensor([1]).dtype == x.new(2).dtype == "float32" and x.layout == nc.strided


def test_cuda_answers_for_the_default_device(either: nc.Device) -> None:
    gpu = either.kind == "gpu"
    assert nc.cuda.is_available() is gpu and bool(nc.cuda.device_count()) is gpu
    assert nc.accelerator.is_available() is gpu
    assert (nc.accelerator.current_accelerator() is either) is gpu
    nc.cuda.synchronize()
    nc.cuda.manual_seed_all(0)
    assert nc.cuda.memory_allocated() >= 0 and nc.cuda.get_device_name() == either.name
    nc.backends.cudnn.benchmark = True
    assert not nc.backends.mps.is_available() and not nc.distributed.is_available()
    assert not nc.jit.is_scripting() and nc.fx.wrap(len) is len


def test_inference_mode_is_a_context_and_a_decorator() -> None:
    x = nc.tensor([1.0], requires_grad=True)

    @nc.inference_mode()
    def one() -> Any:
        return x * 2

    @nc.inference_mode
    def other() -> Any:
        return x * 2

    assert not one().requires_grad and not other().requires_grad
    with nc.inference_mode(mode=False):
        assert (x * 2).requires_grad


def test_compile_takes_functions_and_modules() -> None:
    layer, x = nc.nn.Linear(2, 3), nc.ones(4, 2)
    right = layer(x).tolist()
    assert nc.compile(layer, mode="max-autotune")(x).tolist() == right

    @nc.compile(fullgraph=True)
    def double(y: Any) -> Any:
        return y * 2

    assert double(x).tolist() == (x * 2).tolist()


def test_samplers(either: nc.Device) -> None:
    nc.manual_seed(0)
    x: Any = nc.empty(20_000)
    found = {
        "uniform": x.uniform_(2, 4).numpy().copy(),
        "normal": x.normal_(3, 2).numpy().copy(),
        "exponential": x.exponential_(0.5).numpy().copy(),
        "bernoulli": x.bernoulli_(0.25).numpy().copy(),
        "geometric": x.geometric_(0.5).numpy().copy(),
        "log_normal": x.log_normal_(0, 0.5).numpy().copy(),
        "random": x.random_(3, 6).numpy().copy(),
    }
    means = {"uniform": 3, "normal": 3, "exponential": 2, "bernoulli": 0.25, "geometric": 2,
             "log_normal": math.exp(0.125), "random": 4}  # fmt: skip
    for name, values in found.items():
        assert abs(values.mean() - means[name]) < 0.07, name
    assert found["uniform"].min() >= 2 and found["uniform"].max() < 4
    assert set(found["random"]) == {3, 4, 5} and set(found["bernoulli"]) == {0, 1}
    whole: Any = nc.zeros(1000, dtype="uint8")
    assert whole.random_().numpy().max() > 200
    assert abs(np.median(x.cauchy_(1, 2).numpy()) - 1) < 0.2
    with pytest.raises(DtypeError, match="uniform_: a uint8 tensor"):
        whole.uniform_()
    with pytest.raises(AttributeValueError, match="normal_: std=-1"):
        x.normal_(0, -1)


def test_a_generator_repeats_itself() -> None:
    one, other = (nc.Generator().manual_seed(3) for _ in range(2))
    assert nc.randn(5, generator=one).tolist() == nc.randn(5, generator=other).tolist()
    assert nc.randperm(9, generator=one).tolist() == nc.randperm(9, generator=other).tolist()


def test_elements_by_a_condition(either: nc.Device) -> None:
    x: Any = nc.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
    rows, columns = nc.where(x > 0)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert nc.nonzero(x).tolist() == nc.argwhere(x).tolist() == [[0, 1], [1, 0]]
    assert nc.nonzero(nc.tensor(3)).shape == (1, 0) and nc.nonzero(nc.tensor(0)).shape == (0, 0)
    nc.masked_select(x, x > 0).sum().backward()
    assert x.grad.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(DtypeError, match="masked_select: a float32 mask"):
        nc.masked_select(x, x)
    y: Any = nc.zeros(3, 2)
    assert y.index_add_(0, nc.tensor([2, 2]), nc.ones(2, 2), alpha=2)[2].tolist() == [4, 4]
    assert y.index_fill_(1, nc.tensor([0]), 7)[:, 0].tolist() == [7, 7, 7]


def test_parameters_as_a_vector() -> None:
    layer = nc.nn.Linear(2, 1)
    vector = nc.nn.utils.parameters_to_vector(layer.parameters())
    nc.nn.utils.vector_to_parameters(vector * 0 + 1, layer.parameters())
    assert [each.tolist() for each in layer.parameters()] == [[[1, 1]], [1]]


# -- netcl port ------------------------------------------------------------------------

PROGRAM = '''"""A program."""
import os, torch
import torch.nn as nn, torch.optim
from torch.utils.data import (
    DataLoader,
)
from torch.nn.functional import grouped_mm as loss  # a comment
import torchvision

name = "import torch"
torch.cuda.Stream()
nn.Linear(1, 2).weight.anything
'''


def test_port_changes_imports_and_names_what_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    told = CliRunner().invoke(port, ["--check", str(file)])
    assert told.exit_code == 1 and file.read_text() == PROGRAM
    lines = [line.removeprefix(f"{file}:") for line in told.output.splitlines()]
    assert [line.split(": ")[:2] for line in lines] == [
        ["7", "torch.nn.functional.grouped_mm"],
        ["8", "torchvision"],
        ["11", "torch.cuda.Stream"],
    ]
    assert lines[2].endswith("A device has one queue, in order: nothing waits for another.")
    assert CliRunner().invoke(port, [str(file)]).exit_code == 1
    changed = file.read_text().splitlines()
    assert changed[1:4] == [
        "import os, netcl_core as torch",
        "import netcl_core.nn as nn, netcl_core as torch, netcl_core.optim",
        "from netcl_core.utils.data import (",
    ]
    assert "from netcl_core.nn.functional import grouped_mm as loss  # a comment" in changed
    same = [line for line in PROGRAM.splitlines() if not line.startswith(("import", "from"))]
    assert [line for line in changed if line in same] == same


def test_port_of_what_is_no_program(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def")
    told = CliRunner().invoke(port, [str(file)])
    assert told.exit_code == 2 and "it is no Python program" in told.output


# -- what waits until a loss is read ---------------------------------------------------


def test_binary_cross_entropy_of_no_probabilities_raises_when_it_is_read(
    either: nc.Device,
) -> None:
    target = nc.ones(3)
    wrong = nc.tensor([0.5, 1.5, 0.0], requires_grad=True)
    loss = nc.nn.functional.binary_cross_entropy(wrong, target)
    loss.backward()  # nothing has been read
    with pytest.raises(AttributeValueError, match=r"an input of 1\.5; expected prob"):
        loss.item()
    assert math.isnan(loss.item())  # it is said once
    fine = nc.nn.BCELoss()(nc.tensor([0.5, 1.0, 0.25]), target)
    assert fine.item() == pytest.approx((math.log(2) + math.log(4)) / 3)
    assert math.isnan(nc.tensor(math.nan).item())  # of something else


def test_modules_by_pytorchs_words() -> None:
    layer, x = nc.nn.Linear(2, 3), nc.ones(4, 2)
    right = layer(x).tolist()
    assert layer.cuda().share_memory().to(memory_format=nc.channels_last)(x).tolist() == right
    layer.compile(mode="default")
    assert layer(x).tolist() == right
    assert layer.type(nc.float64).weight.dtype == "float64"


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shape", [(3, 3), (7, 3), (3, 5), (3, 3, 3)])
def test_a_diagonal_is_filled_as_pytorchs(shape: tuple[int, ...], wrap: bool) -> None:
    torch = pytest.importorskip("torch")
    rows = [each.zeros(shape).fill_diagonal_(2, wrap).tolist() for each in (torch, nc)]
    assert rows[0] == rows[1]
    with pytest.raises(nc.errors.ShapeError, match="fill_diagonal_"):
        nc.zeros(2, 3, 3).fill_diagonal_(1)


def test_dtypes_are_texts_that_tell_of_themselves() -> None:
    torch = pytest.importorskip("torch")
    for name in nc.DTYPES:
        theirs = getattr(torch, name)
        for ours in (nc.zeros(1, dtype=name).dtype, getattr(nc, name)):
            assert ours == name and ours.itemsize == theirs.itemsize
            assert ours.is_floating_point == theirs.is_floating_point
            assert (ours.is_signed, ours.is_complex) == (theirs.is_signed, theirs.is_complex)
