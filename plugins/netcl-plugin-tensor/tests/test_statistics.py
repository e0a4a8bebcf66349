"""prod, var, std, logsumexp, norms and dropout: values, gradients, running statistics."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError
from netcl_core.testing import check_op, usable_devices

RANDOM = np.random.default_rng(9)
X = RANDOM.standard_normal((4, 6, 5))
W, B = RANDOM.standard_normal(6), RANDOM.standard_normal(6)


def _functional() -> object:
    return __import__("torch").nn.functional


CASES = {
    "prod": (lambda x: ag.prod(x, 1), lambda x: x.prod(1), [np.round(2 * X)]),
    "prod of all": (ag.prod, lambda x: x.prod(), [X[0, :, 0] + 2]),
    "var": (lambda x: ag.var(x, 1), lambda x: x.var(1), [X]),
    "var of all": (ag.var, lambda x: x.var(), [X]),
    "std": (
        lambda x: ag.std(x, (1, 2), correction=0, keepdims=True),
        lambda x: x.std((1, 2), correction=0, keepdim=True),
        [X],
    ),
    "logsumexp": (lambda x: ag.logsumexp(x, 1), lambda x: x.logsumexp(1), [30 * X]),
    "l2_normalize": (ag.l2_normalize, lambda x: _functional().normalize(x, dim=-1), [X]),
    "layer_norm": (
        lambda x, w, b: ag.layer_norm(x, (6, 5), w, b),
        lambda x, w, b: _functional().layer_norm(x, (6, 5), w, b),
        [X, X[0], X[1]],
    ),
    "rms_norm": (
        lambda x, w: ag.rms_norm(x, 5, w, 1e-6),
        lambda x, w: _functional().rms_norm(x, (5,), w, 1e-6),
        [X, W[:5]],
    ),
    "group_norm": (
        lambda x, w, b: ag.group_norm(x, 2, w, b),
        lambda x, w, b: _functional().group_norm(x, 2, w, b),
        [X, W, B],
    ),
    "batch_norm": (
        lambda x, w, b: ag.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: _functional().batch_norm(x, None, None, w, b, training=True),
        [X, W, B],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name: str) -> None:
    op, torch_op, arrays = CASES[name]
    check_op(op, arrays, torch_op, tolerance=5)


@pytest.mark.parametrize("name", ["var", "layer_norm", "logsumexp"])
def test_float64(name: str) -> None:
    op, torch_op, arrays = CASES[name]
    check_op(op, arrays, torch_op, dtype="float64")


def test_logsumexp_of_infinities() -> None:
    for device in usable_devices():
        rows = np.array([[-np.inf, -np.inf], [np.inf, 0], [-np.inf, 1]], "float32")
        found = ag.logsumexp(nc.Tensor.from_host(rows, device), 1).to_host()
        np.testing.assert_array_equal(found, np.array([-np.inf, np.inf, 1], "float32"))


def test_batch_norm_moves_and_uses_running_statistics() -> None:
    torch = pytest.importorskip("torch")
    for device in usable_devices():
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
