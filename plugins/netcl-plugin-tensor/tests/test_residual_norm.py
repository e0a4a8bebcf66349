"""The kernels of bias_dropout_residual_layer_norm: both forms, on whatever device is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import today
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import run_level, table_of, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry

pytest.importorskip("netcl_plugin_elementwise")

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
APPLIED = "pattern bias_dropout_residual_layer_norm (netcl-plugin-tensor) in place of"
TOLERANCE = {"bfloat16": 6e-2, "float16": 2e-2, "float32": 2e-5, "float64": 1e-11}
pytestmark = pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")


@pytest.fixture(params=OPENCL, ids=str)
def gpu(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[nc.Device]:
    """An OpenCL device that is taken for a GPU."""
    monkeypatch.setattr(request.param, "kind", "gpu")
    registry.renew()  # so that nothing is kept that was chosen for a CPU
    with nc.use_device(request.param) as found:
        yield found
    registry.renew()


def block_end(p: float) -> Any:
    def function(x: Any, bias: Any, residual: Any, weight: Any, shift: Any) -> Any:
        return ag.layer_norm(ag.dropout(x + bias, p) + residual, x.shape[-1:], weight, shift)

    return function


def outcome(function: Any, arrays: list[Any], upstream: Any) -> list[Any]:
    """The value and all gradients, with the random numbers of one seed."""
    nc.manual_seed(11)
    tensors = [nc.tensor(each, requires_grad=True) for each in arrays]
    value = function(*tensors)
    value.backward(upstream)
    return [value.numpy(), *(each.grad.numpy() for each in tensors)]


def check(shape: tuple[int, ...], dtype: str, p: float = 0.25) -> Any:
    """The group by its kernels against the same in float64 op by op on the NumPy path."""
    random = np.random.default_rng(sum(shape))
    row = shape[-1:]
    drawn = [random.standard_normal(each) for each in (shape, row, shape, row, row, shape)]
    *arrays, upstream = (each.astype(nc.DTYPES[dtype].numpy) for each in drawn)
    compiled = ag.jit_compile(block_end(p))
    found = outcome(compiled, arrays, upstream)
    with nc.use_device("numpy"):
        exact = [each.astype("float64") for each in arrays]
        right = outcome(block_end(p), exact, upstream.astype("float64"))
    for one, other in zip(found, right, strict=True):
        scale = np.abs(other).max(initial=0.1) if other.size else 1
        given = one.astype("float64") / scale
        np.testing.assert_allclose(given, other / scale, rtol=0, atol=TOLERANCE[dtype])
    return compiled.lower(*(nc.tensor(each) for each in arrays))


#: Rows that a part of a work-group takes, a whole one, and several; aligned for vectors and not.
SHAPES = ((5, 7), (9, 1023), (4, 1024), (3, 64), (2, 3, 20), (65, 12), (301, 16), (3, 4096))
GIVEN = [(shape, "float32") for shape in SHAPES] + [
    (shape, dtype) for shape in SHAPES[:1] for dtype in TOLERANCE if dtype != "float32"
]


@pytest.mark.parametrize(("shape", "dtype"), GIVEN, ids=str)
def test_the_form_for_gpus(gpu: nc.Device, shape: tuple[int, ...], dtype: str) -> None:
    if dtype == "float64" and not gpu.supports_fp64:
        pytest.skip("no float64")
    lowered = check(shape, dtype)
    if "reqd_work_group_size" in lowered.forward_source and lowered.launches == 1:
        assert "random_mask(const ulong i" in lowered.forward_source
    else:  # the smallest work-groups hold no such rows
        assert shape[-1] > 1024


@pytest.mark.parametrize("items", [64, 256])
@pytest.mark.parametrize("size", [6, 260, 1000])
def test_work_groups_of_other_vendors(
    gpu: nc.Device, items: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than teams, so that each adds up several; the last one has none."""
    monkeypatch.setattr(gpu, "max_work_group_size", items)
    monkeypatch.setattr(gpu, "compute_units", 1)
    lowered = check((137, size), "float32")
    assert lowered.launches == 1 and "residual_norm_rows(" in lowered.forward_source


def test_rows_that_no_registers_hold_are_left_to_the_ops(
    gpu: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "max_work_group_size", 64)
    lowered = check((3, 4099), "float32")
    assert lowered.launches > 1 and "residual_norm_rows(" not in lowered.forward_source


@pytest.mark.skipif(not OPENCL, reason="no OpenCL device")
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.sampled_from((1, 2, 65, 300)),
    size=st.integers(1, 300),
    p=st.sampled_from((0.01, 0.5, 0.9)),
    dtype=st.sampled_from(("bfloat16", "float16", "float32")),
    kind=st.sampled_from(("cpu", "gpu")),
)
def test_rows_of_any_shape(
    rows: int, size: int, p: float, dtype: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, nc.use_device(OPENCL[0]):
        patch.setattr(OPENCL[0], "kind", kind)
        check((rows, size), dtype, p)


def test_no_row_at_all(gpu: nc.Device) -> None:
    check((0, 8), "float32")


def test_both_forms_draw_the_same_numbers(gpu: nc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where they dropped an element, so does what is not finite."""
    x = np.full((9, 40), np.inf, "float32")
    rest = [np.zeros(shape, "float32") for shape in ((40,), (9, 40), (40,), (40,))]
    found = []
    for kind in ("gpu", "cpu"):
        monkeypatch.setattr(gpu, "kind", kind)
        nc.manual_seed(5)
        compiled = ag.jit_compile(block_end(0.999))
        tensors = [nc.tensor(each) for each in (x, *rest)]
        assert APPLIED in compiled.explain(*tensors)
        found.append(np.isfinite(compiled(*tensors).numpy()))
    np.testing.assert_array_equal(*found)
    assert found[0].any() and not found[0].all()


def test_the_kit_passes_on_a_gpu(gpu: nc.Device) -> None:
    table = table_of("netcl-plugin-tensor")
    cases = [case for case in table.cases if case.op == "bias_dropout_residual_layer_norm"]
    table = type(table)(table.provider, today(cases[:3], 3))
    only = ["match", "values", "near misses", "pruning", "deterministic"]
    outcomes = run_level(table, [gpu], only=only).outcomes
    assert {each.state for each in outcomes} == {"passed"}, outcomes
