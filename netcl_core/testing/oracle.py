"""The oracle: an op's values and gradients against PyTorch, or finite differences, in float64.

PyTorch is used where it is installed and a counterpart is named; else the
gradient is compared with central differences of the op on the NumPy path.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from netcl_core.autograd import backward
from netcl_core.device import Device
from netcl_core.device_table import all_devices, get_device
from netcl_core.tensors import Tensor

#: Relative and absolute tolerance by dtype.
TOLERANCE: Final = {"float16": (1e-2, 1e-2), "float32": (1e-5, 1e-5), "float64": (1e-11, 1e-11)}
_STEP: Final = 1e-6


@dataclass(frozen=True)
class Expected:
    """What an op should give: its output, and its inputs' gradients for an upstream one."""

    output: Any
    upstream: Any
    gradients: list[Any]
    rtol: float


def usable_devices(dtype: str = "float32") -> list[Device]:
    """The devices that can hold a dtype, the NumPy path last; simulators are left out."""
    found = [device for device in all_devices() if not device.simulator]
    return [device for device in found if dtype != "float64" or device.supports_fp64]


def check_op(
    op: Callable[..., Any],
    arrays: Sequence[Any],
    torch_op: Callable[..., Any] | None = None,
    *,
    dtype: str = "float32",
    tolerance: float = 1.0,
) -> None:
    """Assert that an op is right in value and gradient on every device.

    Args:
        op: A function of tensors.
        arrays: Its inputs; floating ones are converted to `dtype` and get a gradient.
        torch_op: The same function of PyTorch tensors.
        dtype: The floating dtype in which the op runs.
        tolerance: A factor on TOLERANCE.
    """
    inputs = [_rounded(array, dtype) for array in arrays]
    expected = _expected(op, inputs, torch_op)
    rtol, atol = (bound * tolerance for bound in TOLERANCE[dtype])
    rtol, atol = max(rtol, expected.rtol), max(atol, expected.rtol)
    for device in usable_devices(dtype):
        tensors = [_tensor(array, dtype, device) for array in inputs]
        result = op(*tensors)
        where = f"on {device!r}"
        assert result.shape == expected.output.shape, where
        _close(result.to_host(), expected.output, rtol, atol, f"output {where}")
        if not result.requires_grad:
            continue
        backward(result, expected.upstream.astype(result.dtype))
        for i, (tensor, gradient) in enumerate(zip(tensors, expected.gradients, strict=True)):
            if gradient is not None:
                assert tensor.grad is not None, f"no gradient of input {i} {where}"
                found = tensor.grad.to_host()
                scale = max(1.0, float(np.abs(gradient).max(initial=0.0)))
                _close(found, gradient, rtol, atol * scale, f"gradient {i} {where}")


def _floating(array: Any) -> bool:
    return bool(array.dtype.kind == "f")


def _rounded(array: Any, dtype: str) -> Any:
    """An input whose values exist in the tested dtype, in float64."""
    array = np.asarray(array)
    return array.astype(dtype).astype(np.float64) if _floating(array) else array


def _tensor(array: Any, dtype: str, device: Device) -> Tensor:
    if not _floating(array):
        return Tensor.from_host(array, device)
    return Tensor.from_host(array, device, dtype, requires_grad=True)


def _close(found: Any, wanted: Any, rtol: float, atol: float, what: str) -> None:
    np.testing.assert_allclose(
        np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol, atol, err_msg=what
    )


def _expected(op: Any, inputs: Sequence[Any], torch_op: Any) -> Expected:
    if torch_op is not None and importlib.util.find_spec("torch") is not None:
        return _from_torch(inputs, torch_op)
    return _from_differences(op, inputs)


def _upstream(shape: Sequence[int]) -> Any:
    return np.random.default_rng(7).standard_normal(shape)


def _from_torch(inputs: Sequence[Any], torch_op: Any) -> Expected:
    torch = importlib.import_module("torch")
    tensors = [torch.tensor(array, requires_grad=_floating(array)) for array in inputs]
    result = torch_op(*tensors)
    upstream = _upstream(result.shape)
    if result.requires_grad:
        result.backward(torch.tensor(upstream).to(result.dtype))
    gradients = [None if t.grad is None else t.grad.numpy() for t in tensors]
    return Expected(result.detach().numpy(), upstream, gradients, 0.0)


def _from_differences(op: Any, inputs: Sequence[Any]) -> Expected:
    numpy_path = get_device("cpu")

    def run(arrays: Sequence[Any]) -> Any:
        return op(*[Tensor.from_host(array, numpy_path) for array in arrays]).to_host()

    output = run(inputs)
    upstream = _upstream(output.shape)
    gradients: list[Any] = []
    for i, array in enumerate(inputs):
        if not _floating(array) or output.dtype.kind != "f":
            gradients.append(None)
            continue
        gradient = np.zeros(array.shape)
        for place in np.ndindex(*array.shape):
            ends = []
            for step in (_STEP, -_STEP):
                moved = [each.copy() for each in inputs]
                moved[i][place] += step
                ends.append(run(moved))
            gradient[place] = (upstream * (ends[0] - ends[1])).sum() / (2 * _STEP)
        gradients.append(gradient)
    return Expected(output, upstream, gradients, 1e-4)
