"""Convolutions against PyTorch in float64: any settings, both forms, second derivatives, errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_conv import conv_gpu
from netcl_plugin_conv.conv_tiles import TILES
from netcl_plugin_conv.convolution import CONVOLUTIONS, WEIGHTS

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.plugins.registry import registry
from netcl_core.testing import TOLERANCE, usable_devices
from netcl_core.testing.streams import recorded

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
ANY = OPENCL[:1] or DEVICES[:1]
H200 = {"kind": "gpu", "compute_units": 132, "max_work_group_size": 1024, "local_mem_bytes": 49152}
FEW = settings(
    max_examples=15,  # each builds a handful of kernels
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much],
)
#: Sums of a few hundred products, judged by the largest of them.
SLACK = 8


def drawn(random: np.random.Generator, *shape: int) -> Any:
    return random.standard_normal(shape)


def compare(op: str, arrays: list[Any], attrs: dict[str, Any], dtype: str = "float32") -> None:
    """The result and all gradients of an op beside PyTorch's in float64."""
    torch = pytest.importorskip("torch")
    given = [None if x is None else nc.tensor(x, dtype=dtype, requires_grad=True) for x in arrays]
    exact = [x if x is None else torch.tensor(x.to_host().astype("float64"), requires_grad=True)
             for x in given]  # fmt: skip
    wanted = getattr(torch.nn.functional, op)(*exact, **attrs)
    result = getattr(ag, op)(*given, **attrs)
    above = np.random.default_rng(1).standard_normal(wanted.shape)
    above = nc.tensor(above, dtype=dtype)
    wanted.backward(torch.tensor(above.to_host().astype("float64")))
    ag.backward(result, above)
    same(result.to_host(), wanted.detach().numpy(), dtype)
    for ours, theirs in zip(given, exact, strict=True):
        if ours is not None:
            same(ours.grad.to_host(), theirs.grad.numpy(), dtype)


def same(found: Any, wanted: Any, dtype: str) -> None:
    assert found.shape == wanted.shape
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found.astype("float64"), wanted, 0, SLACK * TOLERANCE[dtype] * scale)


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


SETTINGS: list[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("conv2d", ((2, 3, 9, 11), (70, 3, 3, 3), (70,)), {"padding": 1}),
    ("conv2d", ((3, 40, 6, 7), (34, 20, 3, 2), (34,)),
     {"stride": 2, "padding": (2, 1), "groups": 2}),
    ("conv2d", ((2, 5, 4, 4), (5, 1, 7, 7)), {"padding": 5, "groups": 5, "dilation": 2}),
    ("conv2d", ((2, 5, 4, 4), (3, 5, 1, 1)), {"stride": 3}),
    ("conv_transpose2d", ((2, 6, 5, 4), (6, 3, 4, 3), (6,)),
     {"stride": (3, 2), "padding": 1, "groups": 2, "output_padding": (2, 0)}),
    ("conv_transpose2d", ((1, 3, 2, 2), (3, 2, 2, 2)), {"stride": 5}),
    ("conv2d", ((1, 32, 3, 35), (40, 16, 3, 3), (40,)), {"padding": 1, "groups": 2}),
    ("conv3d", ((1, 2, 4, 5, 6), (3, 2, 2, 3, 1)), {"stride": (2, 1, 1), "padding": (0, 1, 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("group", "dtype"), [(64, "float32"), (256, "float16")])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_the_form_for_gpus(
    device: nc.Device, dtype: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run by a CPU, with the work-groups of several vendors."""
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(device, "max_work_group_size", group)
    monkeypatch.setattr(device, "compute_units", 132)
    random = np.random.default_rng(0)
    with nc.use_device(device):
        for op, shapes, attrs in SETTINGS:
            arrays = [drawn(random, *shape) for shape in shapes]
            compare(op, [*arrays, *[None] * (3 - len(arrays))], attrs, dtype)


@pytest.mark.parametrize("device", ANY, ids=str)
def test_small_local_memory_gets_small_tiles(
    device: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(device, "local_mem_bytes", 4096)
    with nc.use_device(device):
        compare("conv2d", [np.ones((1, 2, 5, 5)), np.ones((3, 2, 2, 2)), None], {"stride": 2})


#: Borders in every extent, steps within one tap and across taps, quads and none, groups.
TILED: list[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("conv2d", ((3, 16, 6, 7), (20, 16, 3, 3), (20,)), {"padding": 1}),
    ("conv2d", ((2, 6, 9, 8), (10, 3, 3, 2)),
     {"stride": (2, 1), "padding": (1, 2), "groups": 2, "dilation": (1, 2)}),
    ("conv_transpose2d", ((2, 16, 5, 4), (16, 6, 3, 3), (6,)), {"stride": 2, "padding": 1}),
]  # fmt: skip


def tried() -> list[Any]:
    """All problems by small tiles, and one by each large one, which takes a CPU long to build."""
    small = [(tile, slices, TILED) for tile in ("16x16x8", "32x32x16") for slices in (1, 3)]
    large = [(tile, 1 + 2 * (i % 2), TILED[i % 2 : i % 2 + 1]) for i, tile in enumerate(TILES)][:4]
    others = [pytest.param(tile, slices, TILED, marks=pytest.mark.release)
              for tile in list(TILES)[:4] for slices in (1, 3)]  # fmt: skip
    return [*small, *large, *others]


@pytest.mark.parametrize(("tile", "slices", "problems"), tried())
@pytest.mark.parametrize("device", OPENCL[:1], ids=str)
def test_every_tile_of_a_gpu(
    device: nc.Device, tile: str, slices: int, problems: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(conv_gpu, "chosen", lambda *_: {"tile": tile, "slices": slices})
    if (tile, slices) == ("16x16x8", 3):
        monkeypatch.setattr(conv_gpu, "INT_MAX", 0)  # as if there were too many for an int
    registry.renew()
    with nc.use_device(device):
        for op, shapes, attrs in problems:
            arrays = [drawn(np.random.default_rng(0), *shape) for shape in shapes]
            compare(op, [*arrays, *[None] * (3 - len(arrays))], attrs)
    registry.renew()


#: Strides, dilations and walks without a tap, in one, two and three dimensions.
GROUPED: list[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("conv2d", ((3, 8, 30, 31), (8, 1, 3, 3), (8,)), {"padding": 1, "groups": 8}),
    ("conv2d", ((2, 6, 9, 11), (12, 2, 5, 2)),
     {"padding": (3, 1), "groups": 3, "stride": (2, 1), "dilation": (1, 2)}),
    ("conv2d", ((1, 5, 4, 4), (5, 1, 1, 1)), {"groups": 5, "stride": 3}),
    ("conv_transpose2d", ((2, 6, 5, 4), (6, 2, 3, 2), (6,)),
     {"stride": (3, 2), "padding": 1, "groups": 3, "output_padding": (2, 0)}),
    ("conv1d", ((2, 4, 19), (4, 1, 5)), {"groups": 4, "padding": 2}),
    ("conv3d", ((2, 4, 5, 6, 3), (4, 2, 3, 2, 1)), {"groups": 2, "stride": 2, "padding": 1}),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_few_channels_on_a_gpu(device: Any, dtype: str, monkeypatch: Any) -> None:
    for name, value in {**H200, "max_work_group_size": 64}.items():
        monkeypatch.setattr(device, name, value)
    registry.renew()
    with nc.use_device(device), recorded(device) as stream:
        for op, shapes, attrs in GROUPED:
            arrays = [drawn(np.random.default_rng(0), *shape) for shape in shapes]
            compare(op, [*arrays, *[None] * (3 - len(arrays))], attrs, dtype)
    registry.renew()
    found = {name for name in stream.launched if name.startswith("conv")}
    assert found == {"conv_few", "conv_few_weigh", "conv_total"}


def planned(
    record: Any, label: str, inputs: tuple[nc.Spec, ...], output: nc.Spec, attrs: dict[str, Any]
) -> nc.Kernels:
    """The launches of one form of an op, by its own settings."""
    (found,) = [each for each in record.implementations if each.label == label]
    request = ag.Request(record.name, ANY[0], inputs, (output,), attrs, (True, True))
    assert found.requires.reject is None or found.requires.reject(request) is None
    if found.space is not None:
        chosen = found.space.default(request)
        assert not found.space.fault(chosen) and not found.space.fits(request, chosen)
        request = dataclasses.replace(request, settings=chosen)
    made: nc.Kernels = found.plan(request)
    return made


def test_depthwise_kernels_fill_a_large_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item for each four results, and hundreds for each weight."""
    for name, value in H200.items():
        monkeypatch.setattr(ANY[0], name, value)
    x, weight = nc.Spec((16, 128, 28, 28), "float32"), nc.Spec((128, 1, 3, 3), "float32")
    attrs = {"stride": (1, 1), "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 128}
    (few,) = planned(CONVOLUTIONS[1], "taps in registers", (x, weight), x, attrs).launches
    assert few.global_size == (x.size // 4,)
    weigh, total = planned(WEIGHTS[1], "taps in registers", (x, x), weight,
                           {"kernel": (3, 3), **attrs}).launches  # fmt: skip
    assert weigh.global_size == (128 * 3 * 2 * 256,) and total.global_size == (128 * 9,)


#: ResNet-18's layers on 32 x 32: channels, outputs, size, stride.
LAYERS = [(64, 64, 32, 1), (64, 128, 32, 2), (128, 128, 16, 1), (256, 256, 8, 1), (512, 512, 4, 1)]


@pytest.mark.parametrize("batch", [32, 128])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_large_gpu_is_filled(
    layer: tuple[int, ...], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pictures with many channels are few tiles: then their terms are divided."""
    device, (channels, outputs, size, stride) = ANY[0], layer
    for name, value in H200.items():
        monkeypatch.setattr(device, name, value)
    x, w = nc.Spec((batch, channels, size, size), "float32"), (outputs, channels, 3, 3)
    weight, above = nc.Spec(w, "float32"), (batch, outputs, size // stride, size // stride)
    grad = nc.Spec(above, "float32")
    attrs = {"stride": (stride,) * 2, "padding": ((1, 1),) * 2, "dilation": (1, 1), "groups": 1}
    wanted = [(CONVOLUTIONS[1], (x, weight), grad, attrs),
              (WEIGHTS[1], (x, grad), weight, {"kernel": (3, 3), **attrs})]  # fmt: skip
    for record, inputs, output, each in wanted:
        launches = planned(record, "tiles in local memory", inputs, output, each).launches
        (main,) = [k for k in launches if k.entry in ("conv_gather", "conv_weigh")]
        groups = main.global_size[0] // main.local_size[0]
        assert groups > 1.5 * device.compute_units
        assert min(main.context["bm"], main.context["bn"]) >= 64


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

ONE = nc.Tensor.zeros((2, 4, 5, 5), device="cpu")
W = nc.Tensor.zeros((6, 4, 3, 3), device="cpu")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ag.conv2d(ONE, W[:, :2]), ShapeError, "2 channels in x, not 4"),
        (lambda: ag.conv2d(ONE[0, 0], W), ShapeError, r"\(N, C, H, W\) or \(C, H, W\)"),
        (lambda: ag.conv2d(ONE, W[0]), ShapeError, r"weight of shape \(4, 3, 3\).*kH, kW"),
        (lambda: ag.conv2d(ONE, W, nc.Tensor.zeros(5, device="cpu")), ShapeError, r"bias.*\(6,\)"),
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
        found = nc.plugins.sources("conv2d", device=device, inputs=specs, attrs=attrs)
        return str(found.implementation)

    wide, kernel = (1, 16, 4, 20), (16, 16, 3, 3)
    assert label(wide, kernel) == "minimal filtering"
    assert label(wide, kernel, stride=2) == label(wide, (16, 16, 3, 1)) == "packed panels"
    assert label((1, 16, 4, 9), kernel) == label((1, 8, 4, 20), (16, 8, 3, 3)) == "packed panels"
    assert label(wide, (16, 1, 3, 3), groups=16) == "sums over taps"
