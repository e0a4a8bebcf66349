"""An op of convolution beside PyTorch's in float64: its result and all gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import TOLERANCE, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
ANY = OPENCL[:1] or DEVICES[:1]
#: Sums of a few hundred products, judged by the largest of them.
SLACK = 8
#: Ops with the shapes of their operands and their attributes.
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
