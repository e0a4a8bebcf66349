"""prelu: the slopes belong to the channels, axis 1, as in PyTorch; eager, compiled and fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag

SHAPES = [
    ((1, 2, 2, 2), (2,)),
    ((2, 3), (3,)),
    ((3, 3, 3), (3,)),
    ((5, 17, 3, 1, 7), (17,)),
    ((4, 5, 6), (1,)),
    ((4, 5, 6), ()),
    ((7,), (1,)),
    ((7,), ()),
    ((), (1,)),
    ((0, 3), (3,)),
    ((3, 1, 4), (1,)),
]
RANDOM = np.random.default_rng(7)


def both(function: Any, x: np.ndarray, w: np.ndarray, device: Any) -> tuple[Any, ...]:
    """The result and both gradients of the sum of its squares."""
    a, b = (nc.Tensor.from_host(each, device, requires_grad=True) for each in (x, w))
    out = function(a, b)
    ag.square(out).backward(np.ones(out.shape, np.float32))
    return out.to_host(), a.grad.to_host(), b.grad.to_host()


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_slopes_stand_along_axis_1(device: Any, shapes: Any) -> None:
    torch = pytest.importorskip("torch")
    x, w = (RANDOM.standard_normal(shape).astype(np.float32) for shape in shapes)
    a, b = (torch.tensor(each, requires_grad=True) for each in (x, w))
    expected = torch.nn.functional.prelu(a, b)
    expected.square().sum().backward()
    wanted = (expected.detach(), a.grad, b.grad)
    fused = ag.jit_compile(lambda x, w: ag.mul(ag.prelu(ag.add(x, 0.0), w), 1.0))
    for function in (ag.prelu, fused, fused):
        for given, right in zip(both(function, x, w, device), wanted, strict=True):
            assert given.shape == tuple(right.shape)
            np.testing.assert_allclose(given, right, rtol=1e-5, atol=1e-5)


def test_values_that_are_not_finite(device: Any) -> None:
    torch = pytest.importorskip("torch")
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 2.0], np.float32)
    x, w = np.repeat(values, 6).reshape(6, 6), values
    a, b = (torch.tensor(each, requires_grad=True) for each in (x, w))
    torch.nn.functional.prelu(a, b).sum().backward()
    given, slopes = (nc.Tensor.from_host(each, device, requires_grad=True) for each in (x, w))
    ag.prelu(given, slopes).backward(np.ones((6, 6), np.float32))
    np.testing.assert_array_equal(given.grad.to_host(), a.grad)
    np.testing.assert_array_equal(slopes.grad.to_host(), b.grad)


def test_slopes_from_the_host() -> None:
    x = nc.tensor(-np.ones((1, 2, 2, 2), np.float32))
    given = ag.prelu(x, [0.1, 0.9]).to_host()
    np.testing.assert_allclose(given[0, :, 0, 0], [-0.1, -0.9], rtol=1e-6)
    np.testing.assert_allclose(ag.prelu(x, 0.5).to_host(), -0.5)
    np.testing.assert_allclose(ag.prelu(x, weight=np.float32(0.5)).to_host(), -0.5)
    with pytest.raises(nc.errors.ArgumentError, match=r"prelu: 1 positional"):
        ag.prelu(x)


@pytest.mark.parametrize(
    ("x", "w"), [((2, 3), (2,)), ((7,), (7,)), ((), (7,)), ((2, 3), (3, 1)), ((2, 3, 4), (4,))]
)
def test_other_weights_are_refused_as_in_pytorch(x: Any, w: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(RuntimeError):
        torch.nn.functional.prelu(torch.ones(x), torch.ones(w))
    with pytest.raises(nc.errors.ShapeError, match=r"prelu: a weight of shape"):
        ag.prelu(nc.Tensor.ones(x), nc.Tensor.ones(w))
