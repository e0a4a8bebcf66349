"""Lazy layers: what they are before and after the first call, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from both import compare, drawn

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import FusionSkipped, ShapeError

torch = pytest.importorskip("torch")

#: The name without Lazy, the arguments, the shape of an input, the number of its features.
LAYERS = [
    ("Linear", (3,), {}, (2, 5), 5),
    ("Linear", (3, False), {}, (5,), 5),
    ("Conv1d", (4, 3), {"padding": 1}, (2, 5, 7), 5),
    ("Conv2d", (4, 3), {"groups": 2}, (2, 6, 5, 4), 6),
    ("Conv2d", (4, (3, 1)), {"bias": False}, (6, 5, 4), 6),
    ("Conv3d", (2, 2), {}, (1, 3, 3, 4, 2), 3),
    ("ConvTranspose1d", (4, 3), {"stride": 2}, (2, 5, 7), 5),
    ("ConvTranspose2d", (4, 3), {"groups": 2}, (2, 6, 5, 4), 6),
    ("ConvTranspose3d", (2, 2), {"bias": False}, (1, 3, 3, 4, 2), 3),
    ("BatchNorm1d", (), {}, (4, 3), 3),
    ("BatchNorm2d", (1e-3, 0.2), {}, (2, 3, 4, 5), 3),
    ("BatchNorm3d", (), {"affine": False}, (2, 3, 4, 2, 2), 3),
    ("InstanceNorm1d", (), {}, (2, 3, 4), 3),
    ("InstanceNorm2d", (), {"affine": False}, (2, 3, 4, 5), 3),
    ("InstanceNorm3d", (), {"bias": False}, (2, 3, 2, 4, 5), 3),
]


@pytest.mark.parametrize(("name", "args", "settings", "shape", "features"), LAYERS)
def test_the_first_call_makes_the_layer(
    name: str, args: Any, settings: Any, shape: tuple[int, ...], features: int
) -> None:
    ours, theirs = (getattr(each, f"Lazy{name}")(*args, **settings) for each in (nn, torch.nn))
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        assert repr(ours.state_dict()[key]) == repr(value) or value.ndim == 0
    tensors = dict(ours.named_parameters())
    x = drawn(*shape)
    ours(nc.tensor(x)), theirs(torch.tensor(x))
    assert type(ours) is getattr(nn, name) and ours.training
    for key, value in ours.named_parameters():
        assert value is tensors[key] and type(value) is nn.Parameter and value.requires_grad
    assert type(ours).__name__ == type(theirs).__name__
    compare(ours, theirs, [x])
    if "affine" not in settings:  # with neither weights nor statistics the number says nothing
        number = {"Line": "in_features", "Conv": "in_channels"}.get(name[:4], "num_features")
        assert getattr(ours, number) == getattr(theirs, number) == features


def test_the_numbers_are_those_of_the_plain_layer() -> None:
    made = []
    for make in (lambda: nn.LazyLinear(3), lambda: nn.Linear(4, 3)):
        nc.manual_seed(5)
        layer = make()
        layer(nc.ones(1, 4))
        made.append((layer.weight.tolist(), layer.bias.tolist()))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.shape,
        lambda x: x + 1,
        lambda x: x.numpy(),
        lambda x: x.numel(),
        lambda x: x.overwrite(np.ones(1)),
        lambda x: ag.sum(x),
        lambda x: nn.init.zeros_(x),
        lambda x: nc.zeros_like(x),
    ],
)
def test_use_before_the_first_call(use: Any) -> None:
    text = "an UninitializedParameter, which has no shape.*Call the module once with a batch"
    with pytest.raises(ShapeError, match=text):
        use(nn.LazyLinear(3).weight)


def test_states() -> None:
    made = nn.Linear(5, 3)
    lazy = nn.LazyLinear(3)
    before = lazy.state_dict()
    assert nn.LazyLinear(3).load_state_dict(before) == ([], [])
    with pytest.raises(nn.StateError, match="without data weight, bias"):
        made.load_state_dict(before)
    assert lazy.load_state_dict(torch.nn.Linear(5, 3).state_dict()) == ([], [])
    assert lazy.load_state_dict(made.state_dict()) == ([], [])
    assert not lazy.has_uninitialized_params() and type(lazy) is nn.LazyLinear
    np.testing.assert_array_equal(lazy(nc.ones(2, 5)), made(nc.ones(2, 5)))
    assert repr(lazy) == repr(made)


def test_moves_copies_and_frozen_ones() -> None:
    layer = nn.LazyBatchNorm1d().to("numpy").double().requires_grad_(False)
    for each in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        each.to("numpy")
        each(nc.ones(4, 3, device="numpy", dtype="float64"))
        assert type(each) is nn.BatchNorm1d and not each.weight.requires_grad
        assert each.weight.dtype == each.running_mean.dtype == "float64"
        assert each.running_mean.tolist() == [0.1] * 3 and str(each.weight.device) == "numpy"
    value = nn.UninitializedParameter(dtype="float16")
    value.materialize((2, 3))
    assert type(value) is nn.Parameter and (value.shape, value.dtype) == ((2, 3), "float16")
    buffer = nn.UninitializedBuffer()
    buffer.materialize((2,))
    assert type(buffer) is nc.Tensor and not buffer.requires_grad


def test_an_optimizer_may_come_first() -> None:
    pytest.importorskip("netcl_plugin_optim")
    model = nn.Sequential(nn.LazyConv2d(2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
    optimizer = nc.optim.Adam(model.parameters(), 0.1)
    model(nc.ones(2, 3, 4, 4)).sum().backward()
    before = [each.tolist() for each in model.parameters()]
    optimizer.step()
    assert len(before) == 4 and before[-1] != model[3].bias.tolist()


def test_wrong_inputs_and_traces() -> None:
    layer = nn.LazyConv2d(2, 3)
    with pytest.raises(ShapeError, match=r"LazyConv2d: x of shape \(4, 4\); expected 3 dimens"):
        layer(nc.ones(4, 4))
    with pytest.raises(ShapeError, match=r"LazyBatchNorm2d: .*expected \(N, num_features, H, W\)"):
        nn.LazyBatchNorm2d()(nc.ones(4, 4))
    assert layer.has_uninitialized_params()
    x = nc.ones(1, 3, 4, 4)
    run = ag.jit_compile(lambda x: layer(x) * 2.0)
    with pytest.warns(FusionSkipped, match="data is read or changed by the host"):
        first = run(x)
    np.testing.assert_allclose(run(x), first, rtol=1e-6)
    assert type(layer) is nn.Conv2d and run.cache_info().currsize == 1
