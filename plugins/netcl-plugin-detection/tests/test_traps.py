"""What detection losses often get wrong: one named test per mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.errors import AttributeValueError, ShapeError
from netcl_core.hardware import programs

everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)


def leaf(values: Any, device: Device) -> Any:
    return nc.Tensor.from_host(np.asarray(values, np.float32), device, requires_grad=True)


@everywhere
@pytest.mark.parametrize("beta", [1, True, np.int64(1), np.float64(1)])
def test_beta_may_be_of_any_number_type(device: Device, beta: Any) -> None:
    pred, one = leaf([0.5], device), np.ones(1, np.float32)
    found = ag.fused_weighted_bce_smooth_l1_loss(pred, one, one, one, beta=beta)
    assert found.item() == pytest.approx(np.log(2) + 0.125, rel=1e-6)


@everywhere
@pytest.mark.parametrize("pred", [-1.0, 0.0, 1e-8, 1.0 - 2.0**-24, 1.0, 2.0])
@pytest.mark.parametrize("target", [0.0, 1.0])
def test_the_gradient_beyond_the_clamp_is_not_1e7(
    device: Device, pred: float, target: float
) -> None:
    """The clamp has gradient 0 there, so only the smooth L1 has one."""
    p, one = leaf([pred], device), np.ones(1, np.float32)
    t = np.full(1, target, np.float32)
    ag.weighted_bce(p, t, one).backward()
    assert p.grad.item() == 0
    p.grad = None
    loss = ag.fused_weighted_bce_smooth_l1_loss(p, t, one, one, heat_scale=3.0)
    loss.backward()
    assert np.isfinite(loss.item())
    assert p.grad.item() == pytest.approx(np.clip((pred - target) / 0.05, -1, 1), abs=1e-5)


@everywhere
def test_the_clamped_loss_is_that_of_1e_minus_7_on_both_sides(device: Device) -> None:
    """1 - 1e-7 is no float32: the nearest one would give 15.94 instead of 16.12."""
    p, t, one = leaf([0.0, 1.0], device), np.array([1, 0], np.float32), np.ones(2, np.float32)
    losses = ag.weighted_bce(p, t, one, reduction="none").to_host()
    np.testing.assert_allclose(losses, -np.log(1e-7), rtol=1e-6)


@everywhere
def test_the_fused_loss_has_a_gradient_of_pred_only(device: Device) -> None:
    pred, *others = (leaf([0.3, 0.6], device) for _ in range(4))
    ag.fused_weighted_bce_smooth_l1_loss(pred, *others).backward()
    assert pred.grad is not None
    assert all(other.grad is None for other in others)


def test_the_fused_loss_does_not_wait_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    pred, *others = (leaf([0.3, 0.6], device=nc.default_device()) for _ in range(4))
    monkeypatch.setattr(nc.Tensor, "to_host", None)
    ag.fused_weighted_bce_smooth_l1_loss(pred, *others).backward()


@everywhere
def test_targets_and_weights_alone_need_no_gradient(device: Device) -> None:
    pred, *others = (leaf([0.3, 0.6], device) for _ in range(4))
    assert not ag.fused_weighted_bce_smooth_l1_loss(pred.detach(), *others).requires_grad


@everywhere
def test_new_numbers_build_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x, one = leaf([0.3, 0.6], device), np.ones(2, np.float32)
    for i, number in enumerate((0.5, 0.25, 0.125)):
        if i:
            monkeypatch.setattr(programs, "from_source", None)
        ag.fused_weighted_bce_smooth_l1_loss(x, one, one, one, number, number, number).backward()


Call = Callable[[Any], Any]
MISTAKES: list[tuple[Call, type[Exception], str]] = [
    (lambda x: ag.weighted_bce(x, x, np.ones(7, "float32")), ShapeError, "weight of shape"),
    (lambda x: ag.weighted_smooth_l1(x, x, x, beta="a"), AttributeValueError, "beta='a'"),
    (lambda x: ag.fused_weighted_bce_smooth_l1_loss(x, x, x, 1.0), ShapeError, "reg_weight"),
    (lambda x: ag.fused_weighted_bce_smooth_l1_loss(x, x, x, x, beta=-1), AttributeValueError,
     "beta=-1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), MISTAKES)
def test_a_mistake_is_named(call: Call, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.zeros((3, 7)))
