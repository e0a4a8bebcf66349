"""master_param: the attributes that its documentation names, and how long they last."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, nn
from netcl_core.errors import ArgumentError, DtypeError


@pytest.mark.parametrize("device", usable_devices(), ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (7, 5)])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_16_bit_parameter(device: Any, shape: Any, requires_grad: bool, dtype: str) -> None:
    kept = nc.DTYPES[dtype].numpy
    values = np.asarray(np.random.default_rng(0).standard_normal(shape)).astype(kept)
    param: Any = nc.tensor(values, device, requires_grad=requires_grad)
    master: Any = amp.master_param(param)
    assert master is not param and type(master) is nc.Tensor
    assert (master.dtype, master.device, master.requires_grad) == ("float32", device, requires_grad)
    assert master._model_param is param and master._frozen is False
    np.testing.assert_array_equal(master.numpy(), values)
    if requires_grad:
        ag.sum(master * 2.0).backward()
        assert param.grad is None and (master.grad.numpy() == 2).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wide_parameter_is_its_own_master(dtype: str) -> None:
    param: Any = nc.tensor(np.ones(3, dtype), "numpy", requires_grad=True)
    assert amp.master_param(param) is param and param._model_param is param


def test_frozen_is_preserved() -> None:
    param: Any = nc.tensor(np.ones(3, np.float16), "numpy")
    assert param._frozen is False and param._model_param is None
    param._frozen = True
    assert amp.master_param(param)._frozen is True  # type: ignore[attr-defined]


def test_a_leaf_that_an_op_made() -> None:
    """Its Node is what a program marks, and its value is what is updated."""
    weight: Any = nc.tensor(np.ones(3), "numpy").half().requires_grad_()
    weight._frozen = True
    master: Any = amp.master_param(weight)
    assert master.requires_grad and master._frozen and weight._frozen
    assert master._model_param is weight.value
    with pytest.raises(ArgumentError, match="the result of mul; expected a parameter"):
        amp.master_param(weight * 2)


def test_the_documented_round_trip() -> None:
    """A parameter of a module, updated in float32 by hand, and copied back."""
    with nc.use_device("numpy"):
        layer = nn.Parameter(nc.tensor(np.ones(3, np.float16)))
        master: Any = amp.master_param(ag.tensor(layer))
        for _ in range(100):
            master.overwrite(master - 1e-4)
            master._model_param.overwrite(master)
        np.testing.assert_allclose(layer.numpy(), 0.99, atol=5e-4)


def test_nothing_outlives_its_tensor() -> None:
    with nc.use_device("numpy"):
        for dtype in (np.float16, np.float32):
            param: Any = nc.tensor(np.ones(3, dtype))
            master: Any = amp.master_param(param)
            seen = [weakref.ref(param), weakref.ref(master)]
            gc.disable()
            del param
            assert seen[0]() is not None  # the master knows it
            del master
            gone = [each() is None for each in seen]
            gc.enable()
            assert gone == [True, True]


def test_mistakes() -> None:
    with pytest.raises(ArgumentError, match="master_param: a list; expected a parameter"):
        amp.master_param([])
    with pytest.raises(DtypeError, match="a int64 tensor; expected a floating dtype"):
        amp.master_param(nc.tensor([1], "numpy"))
