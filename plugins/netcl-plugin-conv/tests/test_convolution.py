"""Convolutions against PyTorch in float64: any settings, both forms, second derivatives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convolved import ANY, DEVICES, OPENCL, SETTINGS, compare, drawn, same
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.kernels.sources import sources_of
from netcl_plugin_kit.testing import TOLERANCE

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError

FEW = settings(
    max_examples=examples(15),  # each builds a handful of kernels
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("vector_bytes", "outputs"), [(64, 37), (32, 38), (16, 39), (4, 40)])
def test_vectors_of_every_width(
    vector_bytes: int, outputs: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a CPU; a plan is kept by sizes, so that each has its own."""
    with nc.use_device(ANY[0]) as device:
        if dtype == "float64" and not device.supports_fp64:
            pytest.skip("no float64")
        monkeypatch.setattr(device, "vector_bytes", vector_bytes)
        random = np.random.default_rng(0)
        arrays = [
            drawn(random, 2, 9, 13, 13),
            drawn(random, outputs, 9, 3, 3),
            drawn(random, outputs),
        ]
        compare("conv2d", arrays, {"stride": 2, "padding": 1}, dtype)


def problem(draw: Any, transposed: bool) -> tuple[str, list[Any], dict[str, Any]]:
    """An op with arrays and settings that PyTorch takes."""
    dims = draw(st.sampled_from((1, 2, 2, 2, 3)))
    groups = draw(st.sampled_from((1, 1, 2, 5)))
    channels = groups * draw(st.sampled_from((1, 2, 3, 17)))
    outputs = groups * draw(st.sampled_from((1, 2, 7, 33)))

    def each(*values: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(values)) for _ in range(dims))

    sizes, kernel = each(1, 2, 5, 8, 19), each(1, 2, 3, 5)
    attrs = {
        "stride": each(1, 1, 2, 3), "padding": each(0, 1, 2, 6), "dilation": each(1, 1, 2),
        "groups": groups,
    }  # fmt: skip
    if transposed:
        limits = zip(attrs["stride"], attrs["dilation"], strict=True)
        attrs["output_padding"] = tuple(
            draw(st.integers(0, max(step, far) - 1)) for step, far in limits
        )
    batch, bias = draw(st.sampled_from((0, 1, 2, 3))), draw(st.booleans())
    lead = (channels, outputs // groups) if transposed else (outputs, channels // groups)
    random = np.random.default_rng(draw(st.integers(0, 9)))
    arrays = [drawn(random, batch, channels, *sizes), drawn(random, *lead, *kernel),
              drawn(random, outputs) if bias else None]  # fmt: skip
    return f"conv{'_transpose' if transposed else ''}{dims}d", arrays, attrs


def fits(op: str, arrays: list[Any], attrs: dict[str, Any]) -> bool:
    """Whether there is a position at all."""
    torch = pytest.importorskip("torch")
    try:
        given = [x if x is None else torch.tensor(x) for x in arrays]
        return 0 not in getattr(torch.nn.functional, op)(*given, **attrs).shape[1:]
    except RuntimeError:
        return False


@FEW
@given(data=st.data(), transposed=st.booleans(), dtype=st.sampled_from(tuple(TOLERANCE)))
@pytest.mark.parametrize("device", [*DEVICES[:1], *DEVICES[-1:]], ids=str)
def test_any_settings(data: st.DataObject, transposed: bool, dtype: str, device: nc.Device) -> None:
    op, arrays, attrs = problem(data.draw, transposed)
    if fits(op, arrays, attrs):
        with nc.use_device(device):
            compare(op, arrays, attrs, dtype)


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_many_positions_are_summed_in_parts(device: nc.Device) -> None:
    """So many that the gradient of the weight has several parts and chunks."""
    random = np.random.default_rng(0)
    with nc.use_device(device):
        compare("conv2d", [drawn(random, 5, 3, 30, 31), drawn(random, 4, 3, 3, 3), None],
                {"padding": 1})  # fmt: skip


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize(("op", "shapes", "attrs"), SETTINGS[1:7])
def test_second_derivatives(device: nc.Device, op: str, shapes: Any, attrs: dict[str, Any]) -> None:
    """Of the squared length of all gradients, by every operand."""
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    arrays = [drawn(random, *shape) for shape in shapes[:2]]
    exact = [torch.tensor(x, requires_grad=True) for x in arrays]
    wanted = getattr(torch.nn.functional, op)(*exact, **attrs).square().sum()
    parts = torch.autograd.grad(wanted, exact, create_graph=True)
    sum(part.square().sum() for part in parts).backward()
    with nc.use_device(device):
        ours = [nc.tensor(x, dtype="float64", requires_grad=True) for x in arrays]
        value = ag.sum(ag.square(getattr(ag, op)(*ours, **attrs)))
        found = ag.grad(value, ours, create_graph=True)
        ag.backward(ag.add(*[ag.sum(ag.square(part)) for part in found]))
    for tensor, right in zip(ours, exact, strict=True):
        same(tensor.grad.to_host(), right.grad.numpy(), "float64")


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_slopes_are_those_of_finite_differences(device: nc.Device) -> None:
    random = np.random.default_rng(3)
    x, w, above = drawn(random, 1, 2, 5, 4), drawn(random, 2, 1, 3, 2), drawn(random, 1, 2, 3, 3)
    attrs = {"stride": 2, "padding": 1, "groups": 2}
    with nc.use_device(device):
        tensors = [nc.tensor(each, dtype="float64", requires_grad=True) for each in (x, w)]
        ag.backward(ag.conv2d(*tensors, **attrs), nc.tensor(above, dtype="float64"))
        for place, array in enumerate((x, w)):
            step = drawn(random, *array.shape)
            moved = [[x, w], [x, w]]
            moved[0][place], moved[1][place] = array + 1e-6 * step, array - 1e-6 * step
            ahead, behind = (ag.conv2d(*[nc.tensor(each, dtype="float64") for each in pair],
                                       **attrs).to_host() for pair in moved)  # fmt: skip
            slope = ((ahead - behind) * above).sum() / 2e-6
            assert abs((tensors[place].grad.to_host() * step).sum() - slope) < 1e-6


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_non_finite_values_reach_what_reads_them_and_nothing_else(device: nc.Device) -> None:
    with nc.use_device(device):
        x = np.zeros((1, 2, 5, 5), "float32")
        x[0, 1, 2, 2] = np.nan
        ones = nc.tensor(np.ones((3, 2, 3, 3), "float32"))
        there = np.isnan(ag.conv2d(nc.tensor(x), ones, padding=1).to_host())
        assert there[:, :, 1:4, 1:4].all() and there.sum() == 27
        x[0, 1, 2, 2] = np.inf
        back = ag.conv_transpose2d(nc.tensor(x), nc.tensor(np.ones((2, 3, 3, 3), "float32")))
        assert np.isinf(back.to_host()).sum() == 27


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_operands_with_gaps_in_memory(device: nc.Device) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    x, w = drawn(random, 9, 12, 4, 3).T, drawn(random, 3, 6, 8, 5).T[:, ::2]
    with nc.use_device(device):
        moved = ag.permute(nc.tensor(x, dtype="float64"), (0, 1, 3, 2))
        result = ag.conv2d(moved, nc.tensor(w, dtype="float64")[:, :, :3])
    wanted = torch.conv2d(torch.tensor(x.copy()).transpose(2, 3), torch.tensor(w[:, :, :3].copy()))
    np.testing.assert_allclose(result.to_host(), wanted.numpy(), atol=1e-12)


def test_a_neighbour_is_fused_into_the_kernel() -> None:
    x, w = nc.tensor(np.ones((2, 3, 6, 6), "float32")), nc.tensor(-np.ones((4, 3, 3, 3), "float32"))
    compiled = ag.jit_compile(lambda x, w: ag.relu(ag.conv2d(x, w, padding=1)))
    assert not compiled(x, w).to_host().any()
    assert "one kernel: conv2d -> relu" in compiled.explain(x, w)


# -- what is refused ---------------------------------------------------------------------

ONE = nc.Tensor.zeros((2, 4, 5, 5), device="numpy")
W = nc.Tensor.zeros((6, 4, 3, 3), device="numpy")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ag.conv2d(ONE, W[:, :2]), ShapeError, "2 channels in x, not 4"),
        (lambda: ag.conv2d(ONE[0, 0], W), ShapeError, r"\(N, C, H, W\) or \(C, H, W\)"),
        (lambda: ag.conv2d(ONE, W[0]), ShapeError, r"weight of shape \(4, 3, 3\).*kH, kW"),
        (lambda: ag.conv2d(ONE, W, ONE[0, 0, 0]), ShapeError, r"bias.*\(6,\)"),
        (lambda: ag.conv2d(ONE, W.astype("float16")), DtypeError, "one dtype"),
        (lambda: ag.conv2d(ONE.astype("int32"), W.astype("int32")), DtypeError, "floating"),
        (lambda: ag.conv2d(ONE, W, dilation=3), ShapeError, "at least one. Pad more"),
        (lambda: ag.conv2d(ONE, W, groups=4), AttributeValueError, "a divisor"),
        (lambda: ag.conv2d(ONE, W, stride=0), AttributeValueError, "stride=0; expected a whole"),
        (lambda: ag.conv2d(ONE, W, padding=(1, 2, 3)), AttributeValueError, "or 2 of them"),
        (lambda: ag.conv2d(ONE, W, padding="full"), AttributeValueError, "'same' or 'valid'"),
        (lambda: ag.conv2d(ONE, W, stride=2, padding="same"), AttributeValueError, "stride of 1"),
        (lambda: ag.conv2d(ONE, W, stride=1.5), AttributeValueError, "whole number"),
        (lambda: ag.conv1d(ONE, W[0]), ShapeError, r"\(N, C, L\)"),
        (lambda: ag.depthwise_conv2d(ONE, W[:, :1]), AttributeValueError, "groups=4 with 6"),
        (lambda: ag.conv_transpose2d(ONE, W), ShapeError, "6 channels in x, not 4"),
        (lambda: ag.conv_transpose2d(ONE, W[:4], output_padding=1), AttributeValueError,
         "less than the stride"),
        (lambda: ag.conv_transpose2d(ONE, W[:4], padding="same"), AttributeValueError, "numbers"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("device", OPENCL[:1], ids=str)
def test_filtering_serves_wide_small_kernels_alone(device: nc.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("these kernels are for CPUs")

    def label(x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> str:
        specs = [nc.Spec(shape, "float32") for shape in (x, w)]
        found = sources_of("conv2d", device=device, inputs=specs, attrs=attrs)
        return str(found.implementation)

    wide, kernel = (1, 16, 4, 20), (16, 16, 3, 3)
    assert label(wide, kernel) == "minimal filtering"
    assert label(wide, kernel, stride=2) == label(wide, (16, 16, 3, 1)) == "packed panels"
    assert label((1, 16, 4, 9), kernel) == label((1, 8, 4, 20), (16, 8, 3, 3)) == "packed panels"
    assert label(wide, (16, 1, 3, 3), groups=16) == "sums over taps"
