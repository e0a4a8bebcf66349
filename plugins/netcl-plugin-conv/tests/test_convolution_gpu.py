"""The forms of convolutions for GPUs, run by a CPU that plays one; what a large GPU launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from convolved import ANY, OPENCL, SETTINGS, compare, drawn
from daily import today
from netcl_plugin_conv import conv_fold, conv_gpu
from netcl_plugin_conv.conv_tiles import TILES
from netcl_plugin_conv.convolution import CONVOLUTIONS, WEIGHTS
from netcl_plugin_kit.testing import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry

H200 = {"kind": "gpu", "compute_units": 132, "max_work_group_size": 1024, "local_mem_bytes": 49152}


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Gives a device other properties; plans that were made with the ones before are forgotten."""

    def play(device: nc.Device, **properties: Any) -> None:
        for name, value in properties.items():
            monkeypatch.setattr(device, name, value)
        registry.renew()

    yield play
    monkeypatch.undo()
    registry.renew()


def compare_all(device: nc.Device, problems: Any, dtype: str = "float32") -> None:
    """Each problem on a device beside PyTorch's; operands that are not given are None."""
    with nc.use_device(device):
        for op, shapes, attrs in problems:
            arrays = [drawn(np.random.default_rng(0), *shape) for shape in shapes]
            compare(op, [*arrays, *[None] * (3 - len(arrays))], attrs, dtype)


@pytest.mark.parametrize(("group", "dtype"), [(64, "float32"), (256, "float16")])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_the_form_for_gpus(
    device: nc.Device, dtype: str, group: int, playing: Callable[..., None]
) -> None:
    """With the work-groups of several vendors."""
    playing(device, kind="gpu", max_work_group_size=group, compute_units=132)
    compare_all(device, today(SETTINGS, 3), dtype)


@pytest.mark.parametrize("device", ANY, ids=str)
def test_small_local_memory_gets_small_tiles(
    device: nc.Device, playing: Callable[..., None]
) -> None:
    playing(device, kind="gpu", local_mem_bytes=4096)
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
    small = [(tile, slices, TILED) for tile, slices in (("16x16x8", 3), ("32x32x16", 1))]
    large = [(tile, 1 + 2 * (i % 2), TILED[i % 2 : i % 2 + 1]) for i, tile in enumerate(TILES)][:2]
    others = [pytest.param(tile, slices, TILED, marks=pytest.mark.nightly)
              for tile in list(TILES)[:4] for slices in (1, 3)]  # fmt: skip
    return [*small, *large, *others]


@pytest.mark.parametrize(("tile", "slices", "problems"), tried())
@pytest.mark.parametrize("device", OPENCL[:1], ids=str)
def test_every_tile_of_a_gpu(
    device: nc.Device,
    tile: str,
    slices: int,
    problems: Any,
    playing: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conv_gpu, "chosen", lambda *_: {"tile": tile, "slices": slices})
    if (tile, slices) == ("16x16x8", 3):
        monkeypatch.setattr(conv_gpu, "INT_MAX", 0)  # as if there were too many for an int
    playing(device, kind="gpu")
    compare_all(device, problems)


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
def test_few_channels_on_a_gpu(device: nc.Device, dtype: str, playing: Callable[..., None]) -> None:
    playing(device, **{**H200, "max_work_group_size": 64})
    with recorded(device) as stream:
        compare_all(device, GROUPED, dtype)
    found = {name for name in stream.launched if name.startswith("conv")}
    assert found == {"conv_few", "conv_few_weigh", "conv_total"}


#: To pictures of few channels, with steps that leave places out, in one to three dimensions.
PICTURES: list[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]]] = [
    ("conv2d", ((5, 3, 21, 18), (20, 3, 7, 5), (20,)), {"padding": (3, 0), "stride": 2}),
    ("conv_transpose2d", ((5, 20, 6, 7), (20, 2, 4, 3), (2,)),
     {"stride": (3, 1), "padding": (1, 2), "output_padding": (2, 0), "dilation": (1, 2)}),
    ("conv_transpose1d", ((7, 9), (7, 3, 6)), {"stride": 7, "output_padding": 3}),
    ("conv3d", ((2, 1, 5, 6, 7), (6, 1, 3, 3, 2)), {"stride": (1, 2, 3), "padding": 1}),
]  # fmt: skip


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_few_results_are_added_up_on_a_gpu(
    device: nc.Device, playing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two images at a time, and the last one alone."""
    monkeypatch.setattr(conv_fold, "_CHUNK", 2 * 4 * (3 * 7 * 5) * (11 * 7))
    playing(device, **{**H200, "max_work_group_size": 256})
    with recorded(device) as stream:
        compare_all(device, PICTURES)
    assert stream.launched.count("conv_fold") == 3 + 1 + 1 + 1


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


def test_depthwise_kernels_fill_a_large_gpu(playing: Callable[..., None]) -> None:
    """An item for each four results, and hundreds for each weight."""
    playing(ANY[0], **H200)
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
    layer: tuple[int, ...], batch: int, playing: Callable[..., None]
) -> None:
    """Small pictures with many channels are few tiles: then their terms are divided."""
    device, (channels, outputs, size, stride) = ANY[0], layer
    playing(device, **H200)
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
