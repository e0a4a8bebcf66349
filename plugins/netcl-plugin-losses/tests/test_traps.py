"""What losses often get wrong: one named test per mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.hardware import programs

everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)


def leaf(values: Any, device: Device) -> Any:
    return nc.Tensor.from_host(np.asarray(values, np.float32), device, requires_grad=True)


@everywhere
def test_mse_loss_is_a_mean_and_uses_the_upstream_gradient(device: Device) -> None:
    x = leaf([1.0, 3.0], device)
    loss = ag.mse_loss(x, np.zeros(2, np.float32))
    assert loss.item() == 5.0
    ag.mul(loss, 10.0).backward()
    assert x.grad.to_host().tolist() == [10.0, 30.0]


@everywhere
@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"])
def test_regression_losses_have_gradients_of_both_inputs(name: str, device: Device) -> None:
    x, y = leaf([2.0, 5.0, 1.0], device), leaf([0.0, 9.0, 1.0], device)
    getattr(ag, name)(x, y, reduction="sum").backward()
    assert np.sign(x.grad.to_host()).tolist() == [1, -1, 0]
    np.testing.assert_array_equal(x.grad.to_host(), -y.grad.to_host())


@everywhere
@pytest.mark.parametrize("beta", [1, True, np.int64(1), np.float64(1)])
def test_smooth_l1_takes_beta_of_any_number_type(device: Device, beta: Any) -> None:
    x = leaf([0.5, 3.0], device)
    loss = ag.smooth_l1_loss(x, np.zeros(2, np.float32), beta=beta)
    assert loss.item() == 1.3125


@everywhere
def test_new_numbers_build_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    x, one = leaf([0.3, 0.6], device), np.ones(2, np.float32)
    logits, labels = leaf(np.zeros((2, 3)), device), np.array([0, 2])
    for i, number in enumerate((0.5, 0.25, 0.125)):
        if i:
            monkeypatch.setattr(programs, "from_source", None)
        ag.smooth_l1_loss(x, one, beta=number).backward()
        ag.huber_loss(x, one, delta=number).backward()
        ag.cross_entropy(logits, labels, label_smoothing=number).backward()


@everywhere
def test_large_logits_neither_overflow_nor_cancel(device: Device) -> None:
    x = leaf([[1e4, -1e4]], device)
    assert ag.cross_entropy(x, np.array([0])).item() == 0
    assert ag.cross_entropy(x, np.array([1])).item() == 2e4
    z = leaf([100.0, -100.0, 100.0, -100.0], device)
    target = np.array([0, 0, 1, 1], np.float32)
    losses = ag.binary_cross_entropy_with_logits(z, target, reduction="none")
    np.testing.assert_allclose(losses.to_host(), [100, 0, 0, 100], atol=1e-30)
    ag.sum(losses).backward()
    np.testing.assert_allclose(z.grad.to_host(), [1, 0, 0, -1], atol=1e-30)


@everywhere
def test_certain_probabilities_give_finite_losses(device: Device) -> None:
    p, t = leaf([0.0, 1.0, 0.0, 1.0], device), np.array([0, 1, 1, 0], np.float32)
    losses = ag.binary_cross_entropy(p, t, reduction="none")
    assert losses.to_host().tolist() == [0, 0, 100, 100]
    ag.sum(losses).backward()
    np.testing.assert_allclose(p.grad.to_host(), [0, 0, -1e12, 1e12], rtol=1e-6)
    x = leaf([-1.0, -2.0], device)
    assert ag.kl_div(x, np.array([0, 1], np.float32), reduction="sum").item() == 2.0


@everywhere
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("wrong", [7, -1, -99])
def test_a_class_index_out_of_range_raises(name: str, wrong: int, device: Device) -> None:
    x = nc.Tensor.zeros((3, 7), device=device)
    target = nc.Tensor.from_host(np.array([0, wrong, 1]), device)
    with pytest.raises(AttributeValueError, match=f"{name}: class index {wrong} in target"):
        getattr(ag, name)(x, target)
    with pytest.raises(AttributeValueError, match="class index"):
        getattr(ag, name)(x, ag.add(target, 0))


@everywhere
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_all_targets_ignored(name: str, device: Device) -> None:
    x = leaf(np.zeros((2, 3)), device)
    target = nc.tensor(np.array([-100, -100]), device)
    assert np.isnan(getattr(ag, name)(x, target).item())
    total = getattr(ag, name)(x, target, reduction="sum")
    total.backward()
    assert total.item() == 0 and not x.grad.to_host().any()


@everywhere
def test_a_mean_in_half_precision_does_not_overflow(device: Device) -> None:
    x = nc.Tensor.from_host(np.full((40000, 2), [4, 0], np.float16), device)
    target = np.ones(40000, np.int64)
    target[::2] = -100
    assert ag.cross_entropy(x, target).item() == pytest.approx(4.02, rel=1e-2)


@everywhere
def test_empty_batches(device: Device) -> None:
    x, y = nc.Tensor.zeros((0, 3), device=device), np.zeros((0, 3), np.float32)
    assert ag.mse_loss(x, y, reduction="sum").item() == 0
    assert ag.mse_loss(x, y, reduction="none").shape == (0, 3)
    assert np.isnan(ag.mse_loss(x, y).item())
    assert ag.cross_entropy(x, np.zeros(0, np.int64), reduction="sum").item() == 0


Call = Callable[[Any], Any]
MISTAKES: list[tuple[Call, type[Exception], str]] = [
    (lambda x: ag.cross_entropy(x, np.zeros(4, int)), ShapeError, r"target of shape \(3,\)"),
    (lambda x: ag.cross_entropy(x, np.zeros((3, 1), int)), ShapeError, r"target of shape \(3,\)"),
    (lambda x: ag.cross_entropy(x, np.zeros(3, "float32")), DtypeError, "integer class"),
    (lambda x: ag.cross_entropy(x, np.zeros((3, 6), "float32")), DtypeError, "integer class"),
    (lambda x: ag.cross_entropy(x.astype("int32"), np.zeros(3, int)), DtypeError, "input of dtype"),
    (lambda x: ag.cross_entropy(x, np.zeros(3, int), np.ones(6, "float32")), ShapeError,
     r"\(7,\), one number per class"),
    (lambda x: ag.cross_entropy(x, x, np.ones(6, "float32")), ShapeError, "one number per class"),
    (lambda x: ag.cross_entropy(x, x, ignore_index=1), AttributeValueError, "probabilities"),
    (lambda x: ag.cross_entropy(x, x, label_smoothing=1.5), AttributeValueError, "0 to 1"),
    (lambda x: ag.cross_entropy(x, np.zeros(3, int), reduction="avg"), AttributeValueError,
     "mean, sum or none"),
    (lambda x: ag.nll_loss(x, np.zeros(4, int)), ShapeError, "nll_loss: input"),
    (lambda x: ag.mse_loss(x, np.zeros((3, 1), "float32")), ShapeError, "equal shapes"),
    (lambda x: ag.mse_loss(x, x, reduction="batchmean"), AttributeValueError, "mse_loss: red"),
    (lambda x: ag.l1_loss(x.astype("int32"), x), DtypeError, "input of dtype int32"),
    (lambda x: ag.smooth_l1_loss(x, x, beta=-1), AttributeValueError, "beta=-1"),
    (lambda x: ag.huber_loss(x, x, delta=0), AttributeValueError, "more than 0"),
    (lambda x: ag.binary_cross_entropy(x, np.zeros(7, "float32")), ShapeError, "equal shapes"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), MISTAKES)
def test_a_mistake_is_named(call: Call, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.zeros((3, 7)))


def test_a_compiled_mean_is_for_any_labels() -> None:
    """The program may not keep that the first labels held none to be ignored."""
    x = nc.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5), requires_grad=True)
    compiled = ag.jit_compile(lambda x, t: ag.cross_entropy(x * 2.0, t))
    for labels in ([0, 3, 4], [0, -100, 4], [1, 1, 1]):
        target = nc.tensor(np.array(labels))
        expected = ag.cross_entropy(x * 2.0, target).item()
        assert compiled(x, target).item() == pytest.approx(expected, rel=1e-6)
    assert compiled.cache_info().misses == 1


def test_a_compiled_mean_sees_captured_labels_change() -> None:
    x = nc.tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5))
    target = nc.tensor(np.array([0, 3, 4]))
    compiled = ag.jit_compile(lambda x: ag.cross_entropy(x, target))
    compiled(x)
    target.overwrite(np.array([0, -100, 4]))
    assert compiled(x).item() == pytest.approx(ag.cross_entropy(x, target).item(), rel=1e-6)
