"""GradManager: gradients of gradients, by blocks within blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_core.autodiff import GradManager

import netcl_core as nc
import netcl_core.autograd as ag

pytestmark = pytest.mark.usefixtures("device")


def values(x: Any) -> list[float]:
    return list(np.ravel(x.numpy()))


def test_nested_blocks_give_second_derivatives() -> None:
    at = np.array([0.3, 1.2], np.float32)
    x = nc.tensor(at)
    outer, inner = GradManager().attach(x), GradManager().attach(x)
    for _ in range(2):
        x.grad = None
        with outer:
            with inner:
                inner.backward(ag.sum(ag.cos(x)))
            np.testing.assert_allclose(x.grad.numpy(), -np.sin(at), rtol=1e-5)
            outer.backward(ag.sum(x.grad))
        # both gradients add up in x.grad
        np.testing.assert_allclose(x.grad.numpy(), -np.sin(at) - np.cos(at), rtol=1e-5)
    assert not x.requires_grad


def test_third_derivatives() -> None:
    x = nc.tensor([2.0])
    first, second, third = (GradManager().attach(x) for _ in range(3))
    with third:
        with second:
            with first:
                first.backward(x * x * x * x)
            gradient, x.grad = x.grad, None
            second.backward(gradient)
        gradient, x.grad = x.grad, None
        third.backward(gradient)
    assert values(x.grad) == [24.0 * 2.0]


@pytest.mark.parametrize("function", [ag.cos, ag.sin, lambda x: x * 2 + 1, ag.softmax])
def test_forward_mode_by_two_backward_passes(function: Callable[[Any], Any]) -> None:
    at, way, step = np.array([0.3, -0.8, 1.1], np.float32), np.array([1.0, 2.0, -1.0]), 1e-3
    x = nc.tensor(at)
    with GradManager() as gm:
        with GradManager().attach(x) as inner:
            y = function(x)
            weight = nc.Tensor.zeros(y.shape)
            gm.attach(weight)
            inner.backward(y, weight)
        gm.backward(x.grad, nc.tensor(way.astype(np.float32)))
    with ag.no_grad():
        ends = [
            function(nc.tensor((at + k * step * way).astype(np.float32))).numpy() for k in (1, -1)
        ]
    np.testing.assert_allclose(weight.grad.numpy(), (ends[0] - ends[1]) / (2 * step), atol=2e-3)


def test_managers_of_a_group_do_not_record_each_other() -> None:
    x = nc.tensor([2.0])
    gm1, gm2 = GradManager().attach(x), GradManager().attach(x)
    with gm1 | gm2:
        y = x * x
        gm2.backward(y)
        assert type(x.grad) is nc.Tensor
        gm1.backward(y)
    assert values(x.grad) == [8.0]
    with gm1, gm2:
        gm2.backward(x * x)
        assert x.grad.requires_grad  # nested, it is recorded


def test_a_gradient_without_an_outer_manager_has_no_graph() -> None:
    x = nc.tensor([2.0], requires_grad=True)
    with GradManager().attach(x) as gm:
        gm.backward(x * x)
    assert type(x.grad) is nc.Tensor
