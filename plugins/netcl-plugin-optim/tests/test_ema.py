"""EMA: the averages, in the parameters' place and back, saved, captured, of 16-bit parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn, optim
from netcl_core.errors import ArgumentError, AttributeValueError, ReplayError

everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)


@everywhere
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_averages_follow(device: Device, dtype: str) -> None:
    """Steps that float16 would lose add up; a saved state goes on."""
    values = [np.full((3, 1031), 1.0), np.asarray(2.0), np.zeros((0, 2))]
    params = [nc.tensor(v.astype(dtype), device, requires_grad=True) for v in values]
    ema = optim.EMA([(f"p{k}", p) for k, p in enumerate(params)], decay=0.999)
    right = [v.copy() for v in values]
    for turn in range(20):
        for p, v in zip(params, values, strict=True):
            p.overwrite((v + 0.1).astype(dtype))
        if turn == 10:
            saved, ema = ema.state_dict(), optim.EMA([(f"p{k}", p) for k, p in enumerate(params)])
            ema.load_state_dict(saved)
        ema.update()
        right = [0.999 * r + 0.001 * p.double().numpy() for r, p in zip(right, params, strict=True)]
    assert ema.n_averaged == 20 and ema.decay == 0.999
    averages = list(ema.state_dict()["averages"].values())
    for value, average in zip(right, averages, strict=True):
        np.testing.assert_allclose(average, value, rtol=1e-6)
    before = [p.numpy() for p in params]
    with ema:
        for p, average in zip(params, averages, strict=True):
            np.testing.assert_array_equal(p.numpy(), average.astype(dtype))
    for p, value in zip(params, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), value)


@everywhere
def test_an_update_is_captured(device: Device) -> None:
    w = nn.Parameter(nc.tensor([0.0, 0.0], device))
    optimizer, ema = optim.SGD([w], lr=1.0), optim.EMA([w], decay=0.5)

    def step(gradient: nc.Tensor) -> None:
        w.grad = gradient
        optimizer.step()
        ema.update()

    gradient = nc.tensor([-1.0, -2.0], device)
    graph = ag.capture(step, gradient)
    for _ in range(2):
        graph(gradient)
    assert ema.averages[0].tolist() == [2.125, 4.25] and ema.n_averaged == 3
    ema.load_state_dict(ema.state_dict())
    with pytest.raises(ReplayError, match=r"EMA\.update: a replay after load_state_dict"):
        graph(gradient)


def test_a_model_and_mistakes() -> None:
    model = nn.Linear(2, 3)
    ema = optim.EMA(model)
    assert ema.names == ["weight", "bias"]
    ema.apply()
    with pytest.raises(ArgumentError, match="applied already"):
        ema.apply()
    ema.restore()
    with pytest.raises(ArgumentError, match="nothing applied"):
        ema.restore()
    saved: Any = ema.state_dict()
    with pytest.raises(optim.OptimizerStateError, match="averages of bias; expected weight, bias"):
        ema.load_state_dict({**saved, "averages": {"bias": saved["averages"]["bias"]}})
    with pytest.raises(AttributeValueError, match=r"decay=1\.5"):
        optim.EMA(model, 1.5)
