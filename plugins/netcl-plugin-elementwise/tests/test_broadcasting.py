"""Broadcasting of any rank: values, and gradients summed to each input's own shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_elementwise.conformance import CASES
from netcl_plugin_kit.testing import check_values

import netcl_core as nc
import netcl_core.autograd as ag

BY_NAME = {str(case): case for case in CASES}
#: Shapes of two inputs: vectors in full rows, split rows, tails, one element, none at all.
PAIRS = [
    ((), ()),
    ((), (7,)),
    ((4099,), (1,)),
    ((33, 17), (17,)),
    ((17, 33), (17, 1)),
    ((1, 1031), (3, 1)),
    ((2, 5000), (5000,)),
    ((17, 1, 7), (5, 7)),
    ((3, 1, 2, 1, 5), (1, 2, 1, 7, 1)),
    ((2, 1, 3, 1, 2, 17), (1, 5, 1, 2, 1, 1)),
    ((4, 3, 2, 2, 1, 2), (2, 2, 3, 2)),
    ((0, 3), (1, 3)),
    ((0,), ()),
    ((3, 0, 1), (1, 1, 4)),
]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_two_inputs(device: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    slow = "Portable" in device.platform
    for name in ["mul"] if slow else ["mul", "maximum"]:
        check_values(BY_NAME[name], shapes, device, "float32")
        if device.backend == "numpy":
            check_values(BY_NAME[name], shapes[::-1], device, "float32")


@pytest.mark.parametrize("device", ["numpy", "opencl"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(device: Any, dtype: str) -> None:
    if dtype == "float64" and not device.supports_fp64:
        pytest.skip(f"{device!r} has no float64")
    for shapes in [((3, 37), (37,)), ((37, 19), (37, 1)), ((2, 18), ())]:
        check_values(BY_NAME["mul"], shapes, device, dtype)


def test_three_inputs(device: Any) -> None:
    for shapes in [((5, 1, 1), (3, 1), (17,)), ((), (2, 19), (2, 1)), ((1,), (33,), ())]:
        check_values(BY_NAME["where"], shapes, device, "float32")


def test_many_dimensions(device: Any) -> None:
    """Eight dimensions that alternate between the inputs, so that none can be merged."""
    check_values(BY_NAME["mul"], ((2, 1) * 4, (1, 3) * 4), device, "float32")


def test_shapes_that_do_not_fit_are_named() -> None:
    x, y = nc.Tensor.ones((3, 4), device="numpy"), nc.Tensor.ones((4, 3), device="numpy")
    with pytest.raises(nc.errors.ShapeError, match=r"add: shapes \(3, 4\) and \(4, 3\) do not"):
        ag.add(x, y)


def test_another_size_builds_nothing(device: Any, builds: list[str]) -> None:
    def step(batch: int) -> None:
        x = ag.tensor(nc.Tensor.ones((batch, 19)), requires_grad=True)
        ag.mul(x, nc.Tensor.ones((19,))).backward(np.ones((batch, 19), np.float32))

    step(4)
    before = len(builds)
    for batch in (1031, 2, 64):
        step(batch)
    assert len(builds) == before


def test_gradients_of_one_value_used_twice() -> None:
    x = ag.tensor(nc.tensor(np.float32([1, 2, 3])), requires_grad=True)
    y = ag.mul(x, x) + x
    y.backward(np.ones(3, np.float32))
    np.testing.assert_array_equal(x.grad.to_host(), [3, 5, 7])


def test_only_wanted_gradients_are_computed(device: Any, launches: list[str]) -> None:
    """No kernel for an input without gradient, nor for a gradient that is the upstream one."""
    x = ag.tensor(nc.Tensor.ones((17,)), requires_grad=True)
    y = ag.tensor(nc.Tensor.ones((17,)))
    seed = nc.Tensor.ones((17,))
    on_device = device.backend == "opencl"

    out = ag.mul(x, y)
    assert launches == ["mul_forward"] * on_device
    out.backward(seed)
    assert launches == ["mul_forward", "mul_backward"] * on_device
    assert y.grad is None

    launches.clear()
    ag.add(x, y).backward(seed)
    assert launches.count("add_backward") == 0

    launches.clear()
    constant = ag.mul(y, y)
    assert not constant.requires_grad
    with pytest.raises(nc.errors.GradientError):
        constant.backward(seed)
    assert launches == ["mul_forward"] * on_device


def test_backward_source_holds_only_wanted_gradients() -> None:
    from netcl_core.codegen.lowering import plan
    from netcl_core.codegen.region import PrimitiveStep, Region, Signature
    from netcl_core.plugins.registry import registry

    record = registry.find_op("mul").record
    region = Region(2, 0, (PrimitiveStep(record, (("in", 0), ("in", 1))),), (("step", 0),))
    made = plan(region, nc.default_device(), Signature((((8,), "float32"),) * 2, ()))
    stage = made.backward((True, False))
    assert [(i, dtype.name) for i, dtype in stage.writes] == [(0, "float32")]
    assert stage.reads == (1,)
    assert "in0" not in stage.generated.text
    assert "grad1" not in stage.generated.text


def test_gradient_of_a_row_is_a_sum_over_the_batch(device: Any) -> None:
    check_values(BY_NAME["add"], ((1031, 3), (3,)), device, "float32")
