"""Anomaly mode: NaN and infinity, creation traces, and who checks numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AnomalyError

for plugin in ("elementwise", "tensor"):
    pytest.importorskip(f"netcl_plugin_{plugin}")

DEVICES = usable_devices()


def leaf(values: Any, dtype: str = "float32", device: Any = None) -> nc.Tensor:
    return nc.Tensor.from_host(np.array(values, dtype), device, requires_grad=True)


# -- the mode ---------------------------------------------------------------------------


def test_a_nan_gradient_is_found_with_the_mode_around_backward_alone() -> None:
    x = leaf([-1.0])
    loss = ag.sum(ag.sqrt(x) * 1.0)
    with ag.detect_anomaly(), pytest.raises(RuntimeError, match=r"backward of sqrt.*ag\.sqrt\(x\)"):
        loss.backward()
    loss = ag.sum(ag.jit_compile(lambda x: ag.sqrt(x) * 2)(leaf([-1.0])))
    with ag.detect_anomaly(), pytest.raises(RuntimeError, match=r"fused\(sqrt, mul\)"):
        loss.backward()


def test_what_the_forward_made_infinite_is_named_where_it_began() -> None:
    x = leaf([0.0, 1.0])
    y = ag.log(x)  # -inf
    loss = ag.sum(
        ag.where(leaf([1.0, 1.0]) > 0, ag.exp(y * 2), 1.0)
    )  # finite, and its gradient NaN
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match="backward of log") as caught:
        loss.backward()
    assert "forward of log: 1 NaN or infinite values" in caught.value.__notes__[0]
    assert "ag.log(x)" in caught.value.__notes__[0] and x.grad is None


def test_an_infinite_value_with_finite_gradients_is_an_error_of_its_own() -> None:
    x = leaf([100.0, 1.0])
    loss = ag.sum(ag.tanh(ag.mul(x, 3e38)))
    loss.backward(retain_graph=True)
    assert np.isfinite(x.grad.to_host()).all()
    x.grad = None
    with ag.detect_anomaly(), pytest.raises(AnomalyError, match=r"forward of mul.*ag\.mul\(x"):
        loss.backward()
    assert x.grad is None


def test_infinities_that_were_given_are_no_anomaly() -> None:
    x, mask = leaf([[1.0, 2.0, 3.0]]), nc.tensor([[0.0, 0.0, -np.inf]])
    for scores in (x + mask, ag.masked_fill(x, mask < 0, -np.inf)):
        with ag.detect_anomaly():
            ag.sum(ag.softmax(scores, 1) * 3).backward()
    assert np.isfinite(x.grad.to_host()).all()


def test_set_detect_anomaly_is_the_process_switch() -> None:
    ag.set_detect_anomaly(True)
    try:
        with pytest.raises(AnomalyError):
            ag.sum(ag.sqrt(leaf([-1.0]))).backward()
    finally:
        ag.set_detect_anomaly(False)


def traced(result: Any) -> bool:
    """Whether every recorded node of a graph knows where it was made."""
    nodes, found = [result], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes += [each for each in node.parents if not each.is_leaf]
    return all(
        any("test_anomaly.py" in line for line in node.creation_trace or ()) for node in found
    )


def test_creation_traces_are_kept_while_the_mode_is_on() -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    with ag.detect_anomaly():
        assert traced(x * 2)
        assert traced(ag.amax(x, 1))
        assert traced(ag.apply_op(lambda v: v, lambda g: [g], x))
    assert (x * 2).creation_trace is None


@pytest.mark.parametrize("device", [d for d in DEVICES if d.backend == "opencl"], ids=str)
def test_fused_operators_and_bundles_keep_traces(device: Any) -> None:
    x = leaf(np.ones((4, 8)), device=device)
    with ag.detect_anomaly():
        assert traced(ag.jit_compile(lambda x: ag.sum(ag.exp(x) * 2, 1))(x))
        found = ag.jit_compile(lambda x: (ag.exp(x) * x, ag.tanh(x)))(x)
        assert traced(found[0] * found[1])
