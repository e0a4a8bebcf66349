"""Convolutional layers equal PyTorch's: results, gradients, states, beginnings, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import AttributeValueError

RANDOM = np.random.default_rng(4)
LAYERS: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = [
    ("Conv1d", (2, 4, 9), (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ("Conv2d", (2, 3, 6, 7), (3, 5, 3), {"padding": "same", "dilation": 2}),
    ("Conv2d", (3, 6, 7), (3, 5, (3, 2)), {"stride": (2, 1), "bias": False}),
    ("Conv3d", (1, 2, 4, 5, 4), (2, 3, 2), {"padding": (0, 1, 0)}),
    ("Conv1d", (2, 4, 9), (4, 6, 4), {"padding": "same", "padding_mode": "circular"}),
    ("Conv2d", (2, 3, 6, 7), (3, 5, 3), {"padding": (1, 2), "padding_mode": "reflect"}),
    ("Conv2d", (3, 6, 7), (3, 5, 3), {"padding": "valid", "padding_mode": "replicate"}),
    ("ConvTranspose1d", (2, 4, 5), (4, 3, 4), {"stride": 3, "output_padding": 1}),
    ("ConvTranspose2d", (2, 4, 3, 5), (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ("ConvTranspose3d", (1, 2, 2, 3, 2), (2, 3, 2), {"stride": 2, "bias": False}),
]


@pytest.mark.parametrize(("name", "shape", "sizes", "settings"), LAYERS)
def test_layers_equal_pytorch(
    name: str, shape: tuple[int, ...], sizes: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    theirs = getattr(torch.nn, name)(*sizes, **settings)
    state = {key: value.detach().numpy() for key, value in theirs.state_dict().items()}
    x = RANDOM.standard_normal(shape).astype(np.float32)
    theirs(torch.tensor(x)).square().sum().backward()
    for device in usable_devices():
        ours = getattr(nn, name)(*sizes, **settings, device=device)
        assert repr(ours) == repr(theirs)
        assert [*ours.state_dict()] == [*state]
        ours.load_state_dict(state)
        result = ours(nc.tensor(x, device))
        np.testing.assert_allclose(result.to_host(), theirs(torch.tensor(x)).detach(), atol=1e-5)
        ag.sum(ag.square(result)).backward()
        for key, parameter in ours.named_parameters():
            expected = theirs.get_parameter(key).grad
            np.testing.assert_allclose(parameter.grad.to_host(), expected, rtol=1e-4, atol=1e-3)


def test_a_transposed_layer_reaches_the_size_that_is_asked_for() -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, device="numpy")
    x = nc.Tensor.zeros((1, 2, 4, 5), device="numpy")
    assert layer(x).shape == (1, 3, 7, 9)
    assert layer(x, output_size=(8, 9)).shape == (1, 3, 8, 9)
    with pytest.raises(AttributeValueError, match="output_padding"):
        layer(x, output_size=(9, 9))


@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose2d"])
def test_layers_start_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    nc.manual_seed(0)
    torch.manual_seed(0)
    ours = getattr(nn, name)(64, 32, 3, groups=2, dtype="float64", device="numpy")
    theirs = getattr(torch.nn, name)(64, 32, 3, groups=2)
    for key, parameter in ours.named_parameters():
        values, other = parameter.to_host(), theirs.get_parameter(key).detach().numpy()
        largest = np.abs(other).max()
        assert 0.85 * largest < np.abs(values).max() < 1.15 * largest
        assert abs(values.mean()) < 0.2 * largest


def test_settings_that_do_not_fit_are_named() -> None:
    for call, text in (
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels=3, out_channels=4, groups=2"),
        (lambda: nn.Conv2d(3, 4, 0), "kernel_size=0"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "one number, or 2"),
        (lambda: nn.Conv1d(3, 4, 3, padding_mode="mirror"), "padding_mode='mirror'.*'reflect'"),
        (lambda: nn.ConvTranspose1d(3, 4, 3, padding_mode="reflect"), "expected 'zeros'"),
    ):
        with pytest.raises(AttributeValueError, match=text):
            call()
