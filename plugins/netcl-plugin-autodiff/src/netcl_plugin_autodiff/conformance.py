"""The scenario of the manager: gradients and callbacks beside those of NumPy's float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from netcl_plugin_kit.testing import Scenario

from netcl_core import Device, Tensor
from netcl_core.autograd import AutogradPrimitive
from netcl_plugin_autodiff.grad_manager import GradManager

#: No element, one, an odd number, several blocks with a tail.
SHAPES: Final[Sequence[tuple[int, ...]]] = ((0, 3), (), (7, 5), (3, 1031))
TOLERANCE: Final = {"bfloat16": 4e-2, "float16": 1e-2, "float32": 1e-5, "float64": 1e-13}
#: x * x * w
PRODUCT: Final = AutogradPrimitive(
    "product",
    lambda inputs, _: f"{inputs[0]} * {inputs[0]} * {inputs[1]}",
    lambda inputs, grad, *_: [
        f"2 * {inputs[0]} * {inputs[1]} * {grad}",
        f"{inputs[0]} * {inputs[0]} * {grad}",
    ],
    arity=2,
)


def attached(device: Device) -> None:
    """Two passes over x * x * w: gradients add up, and a callback doubles those of w."""
    random = np.random.default_rng(0)
    for dtype, tolerance in TOLERANCE.items():
        if dtype == "float64" and not device.supports_fp64:
            continue
        for shape in SHAPES:
            a, b = (np.asarray(random.normal(size=shape)).astype(dtype) for _ in range(2))
            x, w = (Tensor.from_host(array, device) for array in (a, b))
            manager = GradManager().attach(x).attach(w, lambda _, grad: PRODUCT(2**0.5, grad))
            for _ in range(2):
                with manager:
                    manager.backward(PRODUCT(x, w), Tensor.ones(shape, dtype, device))
            wide, other = a.astype("float64"), b.astype("float64")
            for tensor, expected in ((x, 4 * wide * other), (w, 4 * wide * wide)):
                assert tensor.grad is not None
                gradient = tensor.grad.numpy()
                np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


SCENARIOS: Final = [Scenario("autodiff", "attached", attached)]
