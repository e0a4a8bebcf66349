"""Values and gradients that were wrong: sums of many, float16, and what NumPy adds up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag

MANY = 2**20


@pytest.fixture(params=usable_devices(), ids=lambda device: device.platform.split()[0])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each device at hand, made the default."""
    with nc.use_device(request.param) as chosen:
        yield chosen


# -- sums of many ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dim"),
    [((MANY, 4), 0), ((MANY,), 0), ((4, MANY), 1), ((2, 2**18, 3), 1), ((999, 7, 1001), (0, 2)),
     ((2**17, 2, 3), (0, 1)), ((2**18, 2, 2), (0, 2)), ((MANY, 1), 0), ((17, 65537), (0, 1))],
    ids=str,
)  # fmt: skip
def test_a_sum_of_many_has_a_tree(device: Any, shape: Any, dim: Any) -> None:
    x = nc.Tensor.full(shape, 0.1, "float32")
    exact = np.full(shape, np.float32(0.1), np.float64).sum(dim)
    np.testing.assert_allclose(ag.sum(x, dim).to_host(), exact, rtol=1e-6)
    np.testing.assert_allclose(ag.mean(x, dim).to_host(), np.float32(0.1), rtol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (), (MANY, 1)], ids=str)
def test_the_gradient_of_a_broadcast_input_has_a_tree(device: Any, shape: Any) -> None:
    bias = nc.Tensor.zeros(shape, requires_grad=True)
    grad = np.full((MANY, 4), 0.1, np.float32)
    ag.add(nc.Tensor.zeros((MANY, 4)), bias).backward(grad)
    over = tuple(i for i in range(2) if i < 2 - len(shape) or shape[i - 2 + len(shape)] == 1)
    exact = grad.astype(np.float64).sum(over).reshape(shape)
    np.testing.assert_allclose(bias.grad.to_host(), exact, rtol=1e-6)


BIASES = {
    "linear": lambda bias: ag.linear(nc.Tensor.zeros((MANY, 2)), nc.Tensor.zeros((4, 2)), bias),
    "layer_norm": lambda bias: ag.layer_norm(
        nc.Tensor.zeros((MANY, 4)), 4, nc.Tensor.ones((4,)), bias
    ),
}


@pytest.mark.parametrize("name", BIASES)
def test_the_gradient_of_a_bias_has_a_tree(device: Any, name: str) -> None:
    bias = nc.Tensor.zeros((4,), requires_grad=True)
    BIASES[name](bias).backward(np.full((MANY, 4), 0.1, np.float32))
    np.testing.assert_allclose(bias.grad.to_host(), MANY * np.float64(np.float32(0.1)), rtol=1e-6)


def test_softmax_of_a_tall_array(device: Any) -> None:
    out = ag.softmax(nc.Tensor.zeros((MANY, 2)), 0)
    np.testing.assert_allclose(out.to_host(), 1 / MANY, rtol=1e-5)


@pytest.mark.parametrize(("shape", "dim"), [((MANY,), 0), ((MANY, 2), 0), ((2, 2**18), 1)])
def test_running_sums_of_many(device: Any, shape: Any, dim: int) -> None:
    x = nc.Tensor.full(shape, 0.1, "float32", requires_grad=True)
    exact = np.full(shape, np.float32(0.1), np.float64).cumsum(dim)
    out = ag.cumsum(x, dim)
    np.testing.assert_allclose(out.to_host(), exact, rtol=1e-6)
    out.backward(np.full(shape, 0.1, np.float32))
    np.testing.assert_allclose(x.grad.to_host(), np.flip(exact, dim), rtol=1e-6)


def test_running_sums_beyond_the_integers_of_float32(device: Any) -> None:
    given = nc.Tensor.full((2**24 + 1000,), 1.0, "float32")
    np.testing.assert_array_equal(
        ag.cumsum(given, 0).to_host()[-2000:],
        np.arange(2**24 - 999, 2**24 + 1001).astype(np.float32),
    )


def test_running_sums_where_there_is_no_float64(device: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(type(device), "supports_fp64", False)
    for size in (2**19, 77):  # of which there is no plan yet
        given = np.full((size,), 0.1, np.float32)
        given[-4:] = [1, np.inf, 2, -np.inf]
        with np.errstate(invalid="ignore"):
            exact = given.cumsum(dtype=np.float64)
        np.testing.assert_allclose(ag.cumsum(nc.tensor(given), 0).to_host(), exact, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_running_sums_of_what_is_not_finite(device: Any, dtype: str) -> None:
    if dtype == "float64" and not device.supports_fp64:
        pytest.skip("no float64")
    for row in ([1, np.inf, 2, 3], [1, np.nan, 2], [np.inf, -np.inf, 1], [1, -np.inf, 5]):
        given = np.array(row, dtype)
        with np.errstate(all="ignore"):
            right = np.cumsum(given, dtype="float32" if dtype == "float16" else dtype)
            right = right.astype(dtype)
        np.testing.assert_array_equal(ag.cumsum(nc.tensor(given), 0).to_host(), right)


# -- float16 ---------------------------------------------------------------------------

HALVES = (np.random.default_rng(1).normal(size=1000) * 100).astype(np.float16)
STATISTICS = {
    "std": lambda t, x: t.std(x),
    "l2_normalize": lambda t, x: (
        ag.l2_normalize(x) if t is ag else t.nn.functional.normalize(x, dim=-1)
    ),
    "logsumexp": lambda t, x: t.logsumexp(x, 0),
    "mean": lambda t, x: t.mean(x),
}


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("compiled", [False, True])
def test_statistics_of_float16(device: Any, name: str, compiled: bool) -> None:
    torch = pytest.importorskip("torch")
    function = STATISTICS[name]
    there = torch.tensor(HALVES.astype(np.float64), requires_grad=True)
    right = function(torch, there)
    right.sum().backward()
    here = nc.Tensor.from_host(HALVES, requires_grad=True)

    def ours(x: Any) -> Any:
        return function(ag, x)

    out = (ag.jit_compile(ours) if compiled else ours)(here)
    assert out.dtype == "float16"
    np.testing.assert_allclose(out.to_host(), right.detach(), rtol=2e-3, atol=1e-7)
    ag.sum(out).backward()
    assert here.grad.dtype == "float16"
    np.testing.assert_allclose(here.grad.to_host(), there.grad, rtol=4e-3, atol=2e-6)


def test_variance_of_float16(device: Any) -> None:
    given = (HALVES / 10).astype(np.float16)
    given[:500] += np.float16(300)
    wide = given.astype(np.float64)
    x = nc.Tensor.from_host(given, requires_grad=True)
    out = ag.var(x)
    np.testing.assert_allclose(out.to_host(), wide.var(ddof=1), rtol=1e-3)
    out.backward()
    np.testing.assert_allclose(
        x.grad.to_host(), 2 * (wide - wide.mean()) / 999, rtol=2e-3, atol=1e-4
    )
    np.testing.assert_allclose(ag.var(given, 0, 0).to_host(), wide.var(), rtol=1e-3)


def test_logsumexp_of_more_float16_than_its_largest_number(device: Any) -> None:
    x = nc.Tensor.zeros((2**18,), "float16")
    np.testing.assert_allclose(ag.logsumexp(x, 0).to_host(), np.log(2**18), rtol=1e-3)


@pytest.mark.parametrize("given", ["bool", "uint8", "int32", "float16", "float32"])
def test_sums_in_another_dtype(device: Any, given: str) -> None:
    x = (np.arange(2000).reshape(2, 1000) % 200).astype(given)
    for dtype in ("float32", "float64") if device.supports_fp64 else ("float32",):
        wide = x.astype(dtype)
        found = ag.sum(nc.tensor(x), 1, dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.to_host(), wide.sum(1), rtol=1e-6)
        found = ag.mean(nc.tensor(x), dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.to_host(), wide.mean(), rtol=1e-6)


def test_a_sum_in_another_dtype_has_a_gradient_in_that_of_its_input(device: Any) -> None:
    x = nc.Tensor.full((70000,), 1, "float16", requires_grad=True)
    out = ag.sum(x, dtype="float32")
    assert out.item() == 70000
    ag.mul(out, 0.5).backward()
    assert x.grad.dtype == "float16"
    np.testing.assert_array_equal(x.grad.to_host(), 0.5)
    whole = ag.sum(x, dtype="int32")
    assert (whole.dtype, whole.item(), whole.requires_grad) == ("int32", 70000, False)
    with pytest.raises(nc.errors.DtypeError, match=r"sum: dtype='bool'"):
        ag.sum(x, dtype="bool")


def test_squared_errors_of_float16_beyond_its_largest_number(device: Any) -> None:
    right = HALVES.astype(np.float64)
    x = nc.Tensor.from_host(HALVES, requires_grad=True)
    loss = ag.mse_loss(x, nc.Tensor.zeros(x.shape, "float16"))
    assert loss.dtype == "float16"
    np.testing.assert_allclose(loss.to_host(), (right**2).mean(), rtol=1e-3)
    loss.backward()
    np.testing.assert_allclose(x.grad.to_host(), 2 * right / right.size, rtol=2e-3, atol=1e-6)


def test_a_divergence_of_float16_is_added_up_in_float32(device: Any) -> None:
    x = nc.Tensor.full((700, 100), -1000, "float16")
    target = nc.Tensor.full((700, 100), 1, "float16")
    found = ag.kl_div(x, target, reduction="batchmean").to_host()
    np.testing.assert_allclose(found, np.float16(np.inf))
    x = nc.Tensor.full((700, 100), -1, "float16")
    found = ag.kl_div(x, target, reduction="batchmean").to_host()
    np.testing.assert_allclose(found, 100, rtol=1e-3)


def test_running_statistics_of_float16(device: Any) -> None:
    x = (np.random.default_rng(2).normal(size=(500, 2)) * 400 + 30).astype(np.float16)
    mean, variance = nc.Tensor.zeros((2,)), nc.Tensor.zeros((2,))
    ag.batch_norm(nc.tensor(x), mean, variance, training=True, momentum=1.0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean.to_host(), wide.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance.to_host(), wide.var(0, ddof=1), rtol=1e-5)


def test_more_ties_than_float16_can_count(device: Any) -> None:
    x = nc.Tensor.zeros((2**17,), "float16", requires_grad=True)
    ag.mul(ag.max(x), 1024.0).backward()
    np.testing.assert_array_equal(x.grad.to_host(), np.float16(2**-7))


# -- leaves and their gradients --------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_a_whole_tensor_cannot_require_a_gradient(dtype: str) -> None:
    x = nc.Tensor.zeros((2,), dtype)
    node = ag.tensor(x)
    for each in (x, node):
        with pytest.raises(nc.errors.DtypeError, match=f"requires_grad: a {dtype} tensor"):
            each.requires_grad = True
        each.requires_grad = False
        assert not each.requires_grad
    y = nc.Tensor.zeros((2,))
    y.requires_grad = True
    assert y.requires_grad
    assert ag.mul(y, 2).requires_grad


def test_a_preset_gradient_fits_its_leaf(device: Any) -> None:
    x = nc.Tensor.zeros((1,), requires_grad=True)
    other = next(each for each in (*usable_devices(), None) if each is not device)
    wrong: list[tuple[Any, Any, str]] = [
        (nc.Tensor.zeros((2,)), nc.errors.ShapeError, r"of shape \(2,\); expected \(1,\) or None"),
        (nc.Tensor.zeros((1,), "int32"), nc.errors.DtypeError, "of dtype int32; expected float32"),
        (np.zeros(1, np.float32), nc.errors.ArgumentError, "of type ndarray; expected a Tensor"),
        (1.0, TypeError, "of type float; expected a Tensor or None"),
    ]
    if other is not None:
        there = nc.Tensor.zeros((1,), device=other)
        wrong.append((there, nc.errors.DeviceError, f"of device {other}; expected {device}"))
    for leaf in (x, ag.tensor(x)):
        for grad, error, text in wrong:
            with pytest.raises(error, match=text):
                leaf.grad = grad
            assert leaf.grad is None
        leaf.grad = nc.Tensor.full((1,), 2.0)
        ag.mul(x, 3.0).backward()
        assert leaf.grad.item() == 5
        leaf.grad = ag.mul(nc.Tensor.ones((1,)), 4)
        assert leaf.grad.item() == 4
        assert type(leaf.grad) is nc.Tensor
        leaf.grad = None


def test_a_gradient_of_another_dtype_becomes_that_of_its_leaf(device: Any) -> None:
    x = nc.Tensor.zeros((3,), "float16", requires_grad=True)
    out = ag.apply_op(
        lambda x: x.astype("float32").value, lambda g: [g], x, op_name="careless", saves=()
    )
    for factor in (1, 2):
        out.backward(np.ones(3, np.float32))
        assert x.grad.dtype == "float16"
        np.testing.assert_array_equal(x.grad.to_host(), factor)


def test_a_copy_of_itself_copies_nothing(device: Any) -> None:
    values = np.arange(6, dtype=np.float32)
    x = nc.Tensor.from_host(values, requires_grad=True)
    y = ag.mul(x, x)
    with ag.no_grad():
        x.overwrite(x)
        x.overwrite(x.detach())
        x.reshape(2, 3).overwrite(x.detach().reshape(2, 3))
        x.overwrite(ag.tensor(x))
    np.testing.assert_array_equal(x.to_host(), values)
    ag.sum(y).backward()  # nothing was changed
    np.testing.assert_array_equal(x.grad.to_host(), 2 * values)
    with pytest.raises(nc.errors.ShapeError, match="copy_"):
        x.overwrite(x.detach().reshape(2, 3))
