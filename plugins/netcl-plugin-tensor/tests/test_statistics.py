"""Statistics, norms and dropout: running statistics, masks, infinities, errors."""

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

RANDOM = np.random.default_rng(9)
X = RANDOM.standard_normal((4, 6, 5))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_logsumexp_of_infinities(device: nc.Device) -> None:
    rows = np.array([[-np.inf, -np.inf], [np.inf, 0], [-np.inf, 1]], "float32")
    found = ag.logsumexp(nc.Tensor.from_host(rows, device), 1).to_host()
    np.testing.assert_array_equal(found, np.array([-np.inf, np.inf, 1], "float32"))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_batch_norm_moves_and_uses_running_statistics(device: nc.Device) -> None:
    torch = pytest.importorskip("torch")
    mean, variance = nc.Tensor.zeros(6, device=device), nc.Tensor.ones(6, device=device)
    torch_mean, torch_variance = torch.zeros(6), torch.ones(6)
    x = X.astype("float32")
    for training in (True, True, False):
        found = ag.batch_norm(nc.Tensor.from_host(x, device), mean, variance, training=training)
        wanted = torch.nn.functional.batch_norm(
            torch.tensor(x), torch_mean, torch_variance, training=training
        )
        np.testing.assert_allclose(found.to_host(), wanted.numpy(), 1e-4, 1e-5)
        np.testing.assert_allclose(mean.to_host(), torch_mean.numpy(), 1e-5, 1e-6)
        np.testing.assert_allclose(variance.to_host(), torch_variance.numpy(), 1e-5, 1e-6)


def test_dropout_is_repeatable_and_equal_on_every_device() -> None:
    masks = []
    for device in usable_devices():
        nc.manual_seed(3)
        x = nc.Tensor.ones((1001,), device=device, requires_grad=True)
        y = ag.dropout(x, 0.3)
        masks.append(y.to_host())
        ag.sum(y).backward()
        np.testing.assert_array_equal(x.grad.to_host(), masks[-1])
        assert not np.array_equal(ag.dropout(x, 0.3).to_host(), masks[-1])
    for mask in masks:
        np.testing.assert_array_equal(mask, masks[0])
        assert abs((mask == 0).mean() - 0.3) < 0.05
        np.testing.assert_allclose(mask[mask != 0], 1 / 0.7, 1e-6)


def test_dropout_at_its_ends() -> None:
    x = nc.Tensor.ones(100)
    assert ag.dropout(x, 0.5, training=False) is x
    assert ag.dropout(x, 0.0) is x
    assert not ag.dropout(x, 1.0).to_host().any()
    with pytest.raises(AttributeValueError, match=r"p=1\.5"):
        ag.dropout(x, 1.5)
    with pytest.raises(AttributeValueError, match="manual_seed: -1"):
        nc.manual_seed(-1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.layer_norm(x, (4, 5)), ShapeError, "the last sizes of x"),
        (lambda x: ag.group_norm(x, 4), ShapeError, "a multiple of the groups"),
        (lambda x: ag.batch_norm(x, None, None), ArgumentError, "running statistics"),
        (lambda x: ag.batch_norm(x[:1, :, 0], None, None, training=True), ShapeError, "a channel"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.from_host(X, dtype="float32"))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_norms_of_narrow_float16_rows_have_finite_gradients(device: Any) -> None:
    """1 / std is 200 in the first row and its cube no float16; squares of the second are none."""
    row = np.float16([-0.2971, -0.3059, -0.302])
    large = np.float16([300, -400, 350])
    weights = np.float16([1.125, -2.125, -3.125])
    with nc.use_device(device):
        for op, given in ((ag.layer_norm, row), (ag.layer_norm, large), (ag.rms_norm, large)):
            found = []
            for dtype in ("float16", "float32"):
                x = nc.Tensor.from_host(given.astype(dtype)[None], requires_grad=True)
                y = op(x, 3, eps=1e-5)
                y.backward(weights.astype(dtype)[None])
                found += [y.to_host(), x.grad.to_host()]
            np.testing.assert_allclose(found[0], found[2], 2e-3)
            np.testing.assert_allclose(found[1], found[3], 2e-2, 1e-3)
