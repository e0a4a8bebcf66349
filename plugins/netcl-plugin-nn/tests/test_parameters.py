"""nn.Parameter is a class: who is one, what stays one, and what is a plain tensor again."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import GradientError

LAYERS = [
    lambda: nn.Linear(2, 3),
    lambda: nn.Bilinear(2, 2, 3),
    lambda: nn.Conv2d(2, 3, 3),
    lambda: nn.BatchNorm1d(3),
    lambda: nn.LayerNorm(3),
    lambda: nn.PReLU(),
    lambda: nn.Embedding(4, 3),
    lambda: nn.Embedding.from_pretrained(np.ones((4, 3), np.float32)),
    lambda: nn.LSTM(2, 3),
    lambda: nn.GRUCell(2, 3),
    lambda: nn.MultiheadAttention(4, 2, kdim=3),
    lambda: nn.ParameterList([np.ones(2, np.float32)]),
]


@pytest.mark.parametrize("make", LAYERS, ids=lambda make: type(make()).__name__)
def test_layers_have_parameters(make: object) -> None:
    layer = make()  # type: ignore[operator]
    for module in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        found = list(module.parameters())
        assert found and all(isinstance(each, nn.Parameter) for each in found)
        assert all(isinstance(each, nc.Tensor) for each in found)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_copies_are_parameters(dtype: str, requires_grad: bool) -> None:
    value = nn.Parameter(nc.tensor([1.0, 2.0]).astype(dtype), requires_grad)
    assert copy.copy(value).buffer is value.buffer
    assert copy.deepcopy(value).buffer is not value.buffer
    for made in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(made) is nn.Parameter and made.requires_grad is requires_grad
        assert made.dtype == dtype and made.tolist() == [1, 2]


def test_what_is_computed_of_it_is_a_tensor() -> None:
    weight = nn.Parameter(np.ones(2, np.float32))
    for result in (weight * 2, weight.detach(), weight.data, weight.clone()):
        assert isinstance(result, nc.Tensor) and not isinstance(result, nn.Parameter)
    assert repr(weight).startswith("Parameter containing:\nTensor([1., 1.]")
    (weight * 3).sum().backward()
    with nc.no_grad():
        weight.sub_(weight.grad)
    assert weight.tolist() == [-2, -2] and isinstance(weight, nn.Parameter)
    weight.data = weight.data * 2
    assert weight.tolist() == [-4, -4] and weight.requires_grad


def test_a_moved_or_converted_module_keeps_its_parameters() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    layer.to("numpy").double().load_state_dict({"weight": np.ones((1, 2)), "bias": np.zeros(1)})
    assert layer.weight is weight and isinstance(weight, nn.Parameter)
    assert weight.dtype == "float64" and weight.tolist() == [[1, 1]]


def test_every_value_is_a_tensor() -> None:
    x = nc.ones(2, requires_grad=True)
    for each in (x, x + 1, nc.autograd.tensor(x), (x * 2).detach(), x == 1):
        assert isinstance(each, nc.Tensor)
    with pytest.raises(GradientError, match="deepcopy: the result of add"):
        copy.deepcopy(x + 1)
    assert copy.deepcopy(nc.autograd.tensor(x)).tolist() == [1, 1]
    asked = nc.autograd.jit_compile(lambda x: x * 2 if isinstance(x, nc.Tensor) else x, strict=True)
    assert asked(x).tolist() == [2, 2] and asked.lower(x).launches == 1
