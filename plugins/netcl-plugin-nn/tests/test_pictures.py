"""Layers for pictures equal PyTorch's: pooling, other sizes, batch norm; in a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn
from netcl_core.errors import AttributeValueError, ShapeError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(3)
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)
LINE, PLANE, BOX = (2, 3, 17), (2, 4, 9, 18), (1, 3, 5, 6, 9)
LAYERS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("MaxPool1d", (3,), {"stride": 2}, LINE),
    ("MaxPool2d", (3, 2, 1), {"ceil_mode": True}, PLANE),
    ("MaxPool3d", (2,), {}, BOX),
    ("AvgPool1d", (3,), {"padding": 1}, LINE),
    ("AvgPool2d", (2,), {"count_include_pad": False, "padding": 1}, PLANE),
    ("AvgPool2d", (2,), {"divisor_override": 3}, PLANE),
    ("AvgPool3d", (2,), {}, BOX),
    ("LPPool1d", (2.0, 3), {}, LINE),
    ("LPPool2d", (2.0, (2, 3)), {"stride": 1}, PLANE),
    ("AdaptiveAvgPool1d", (4,), {}, LINE),
    ("AdaptiveAvgPool2d", (1,), {}, PLANE),
    ("AdaptiveAvgPool2d", ((3, None),), {}, PLANE),
    ("AdaptiveAvgPool3d", (2,), {}, BOX),
    ("AdaptiveMaxPool1d", (4,), {}, LINE),
    ("AdaptiveMaxPool2d", ((3, 5),), {}, PLANE),
    ("AdaptiveMaxPool3d", (2,), {}, BOX),
    ("Upsample", (), {"scale_factor": 2}, PLANE),
    ("Upsample", (), {"size": (5, 30), "mode": "bilinear", "align_corners": True}, PLANE),
    ("UpsamplingNearest2d", (), {"scale_factor": 3}, PLANE),
    ("UpsamplingBilinear2d", (), {"size": 20}, PLANE),
    ("PixelShuffle", (2,), {}, PLANE),
    ("PixelUnshuffle", (3,), {}, PLANE),
]


@everywhere
@pytest.mark.parametrize(("name", "args", "settings", "shape"), LAYERS, ids=str)
def test_a_layer_equals_pytorch(
    name: str, args: Any, settings: dict[str, Any], shape: tuple[int, ...], device: Device
) -> None:
    x = RANDOM.standard_normal(shape).astype("float32")
    given, wanted = (
        nc.Tensor.from_host(x, device, requires_grad=True),
        torch.tensor(x, requires_grad=True),
    )
    result = getattr(nn, name)(*args, **settings)(given)
    expected = getattr(torch.nn, name)(*args, **settings)(wanted)
    np.testing.assert_allclose(result.to_host(), expected.detach(), rtol=1e-4, atol=1e-5)
    ag.sum(ag.square(result)).backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(given.grad.to_host(), wanted.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["MaxPool1d", "MaxPool2d", "AdaptiveMaxPool2d"])
def test_indices_are_given_where_they_are_asked_for(name: str) -> None:
    x = RANDOM.standard_normal(LINE if name == "MaxPool1d" else PLANE).astype("float32")
    values, places = getattr(nn, name)(2, return_indices=True)(nc.tensor(x))
    right, indices = getattr(torch.nn, name)(2, return_indices=True)(torch.tensor(x))
    np.testing.assert_array_equal(values.to_host(), right)
    np.testing.assert_array_equal(places.to_host(), indices)


@everywhere
@pytest.mark.parametrize("momentum", [0.2, None])
def test_a_replay_moves_the_running_statistics(momentum: float | None, device: Device) -> None:
    ours = nn.Sequential(nn.BatchNorm2d(3, momentum=momentum), nn.MaxPool2d(2)).to(device)
    theirs = torch.nn.BatchNorm2d(3, momentum=momentum)
    batches = [RANDOM.standard_normal((4, 3, 6, 5)).astype("float32") + i for i in range(4)]

    def step(x: Any) -> Any:
        loss = ag.sum(ag.square(ours(x)))
        loss.backward()
        return loss

    graph = ag.capture(step, nc.Tensor.from_host(batches[0], device))
    for x in batches[1:]:
        graph(x)
    for x in batches:
        theirs(torch.tensor(x))
    for name, buffer in ours[0].named_buffers():
        np.testing.assert_allclose(buffer.to_host(), theirs.get_buffer(name), rtol=1e-5)


def test_evaluation_is_one_kernel_with_its_neighbours() -> None:
    layer = nn.BatchNorm2d(3)
    layer(nc.tensor(RANDOM.standard_normal((4, 3, 6, 5)).astype("float32")))
    layer.eval()
    x = nc.tensor(RANDOM.standard_normal((4, 3, 6, 5)).astype("float32"))
    fused = ag.jit_compile(lambda x: ag.relu(layer(x)) * 2.0)
    np.testing.assert_allclose(fused(x).to_host(), (ag.relu(layer(x)) * 2.0).to_host(), rtol=1e-6)
    assert "standard_elements -> relu -> mul" in fused.explain(x)


def test_mistakes_are_named() -> None:
    x = nc.Tensor.ones((1, 4, 6, 6))
    with pytest.raises(AttributeValueError, match="PixelShuffle: 0"):
        nn.PixelShuffle(0)
    with pytest.raises(ShapeError, match="pixel_shuffle: x of shape"):
        nn.PixelShuffle(3)(x)
    with pytest.raises(ShapeError, match="pixel_unshuffle: x of shape"):
        nn.PixelUnshuffle(4)(x)
    with pytest.raises(ShapeError, match=r"InstanceNorm2d.*\(N, 3, H, W\)"):
        nn.InstanceNorm2d(3)(x)
    with pytest.raises(ShapeError, match=r"\(N, 4, D, H, W\)"):
        nn.BatchNorm3d(4)(x)
    shown = "MaxPool2d(kernel_size=3, stride=2, padding=0, dilation=1, ceil_mode=False)"
    assert repr(nn.MaxPool2d(3, 2)) == shown
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2, mode='nearest')"
    assert repr(nn.AdaptiveAvgPool2d(1)) == "AdaptiveAvgPool2d(output_size=1)"
