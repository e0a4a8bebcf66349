"""Gates of LSTM and GRU by kernels and by ops: what the cases of the two ops leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import DEVICES, drawn
from netcl_plugin_nn.gates import gru_gates, lstm_gates

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ShapeError

#: (the op, the ops that it stands for, gates)
PAIRS = [(ag.lstm_gates, lstm_gates, 4), (ag.gru_gates, gru_gates, 3)]


def total(results: Any) -> Any:
    """A sum in which the results have different weights."""
    found = results if isinstance(results, tuple) else (results,)
    return sum(ag.sum(ag.mul(x, x)) * float(i + 1) for i, x in enumerate(found))


def run(function: Any, arrays: Any, device: Any, dtype: str) -> list[Any]:
    leaves = [nc.Tensor.from_host(x, device, dtype, requires_grad=True) for x in arrays]
    found = function(*leaves)
    total(found).backward()
    results = found if isinstance(found, tuple) else (found,)
    return [x.to_host().astype(np.float64) for x in (*results, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("pair", PAIRS, ids=["lstm", "gru"])
def test_large_inputs_saturate(pair: Any) -> None:
    op, _, gates = pair
    wide = np.array([[-1e4] * (2 * gates), [1e4] * (2 * gates)], np.float32)
    for found in run(op, [wide, np.zeros_like(wide), drawn(2, 2)], DEVICES[0], "float32"):
        assert np.isfinite(found).all()


@pytest.mark.parametrize("pair", PAIRS, ids=["lstm", "gru"])
def test_gradients_of_gradients(pair: Any) -> None:
    op, function, gates = pair
    arrays = [drawn(2, 3 * gates), drawn(2, 3 * gates, seed=1), drawn(2, 3)]
    found = []
    for device, dtype, call in ((DEVICES[0], "float32", op), ("numpy", "float64", function)):
        leaves = [nc.Tensor.from_host(x, device, dtype, requires_grad=True) for x in arrays]
        slopes = ag.grad(total(call(*leaves)), leaves, create_graph=True)
        sum(ag.sum(x * x) for x in slopes).backward()
        found.append([leaf.grad.to_host() for leaf in leaves])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_cell_state_alone_has_gradients_and_bad_shapes_are_named() -> None:
    arrays = [drawn(2, 12), drawn(2, 12, seed=1), drawn(2, 3)]
    found = run(lambda *xs: ag.lstm_gates(*xs)[1], arrays, DEVICES[0], "float32")
    wanted = run(lambda *xs: lstm_gates(*xs)[1], arrays, nc.get_device("numpy"), "float64")
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match=r"lstm_gates: .*expected two of \(..., 4 H\)"):
        ag.lstm_gates(nc.zeros(2, 8), nc.zeros(2, 12), nc.zeros(2, 3))
