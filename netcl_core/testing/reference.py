"""The reference: what a case has to equal, in float64.

PyTorch where it is installed and the case names a counterpart, else the op's own
NumPy path; the gradients of that path are held against finite differences.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from netcl_core.autograd import backward, no_grad
from netcl_core.device import Device
from netcl_core.device_table import all_devices, get_device, use_device
from netcl_core.dtypes import DTYPES
from netcl_core.hostdata import Array, Shape
from netcl_core.tensors import Tensor
from netcl_core.testing.cases import Case
from netcl_core.testing.samples import away_from, covector, is_floating

#: Relative tolerance by dtype; whole numbers are exact.
TOLERANCE: Final = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}
_STEP: Final = 1e-6


@final
@dataclass(frozen=True)
class Values:
    """An op's output, its dtype, and a gradient (or None) per input."""

    output: Array
    dtype: str
    gradients: Sequence[Array | None]


def usable_devices(dtype: str = "float32") -> list[Device]:
    """The devices that can hold a dtype, the NumPy path last; simulators are left out."""
    found = [device for device in all_devices() if not device.simulator]
    return [device for device in found if dtype != "float64" or device.supports_fp64]


@lru_cache(maxsize=1)
def torch_module() -> Any:
    """PyTorch, or None where it is not installed."""
    found = importlib.util.find_spec("torch")
    return None if found is None else importlib.import_module("torch")


def evaluate(
    case: Case, arrays: Sequence[Array], device: Device, needs: Sequence[bool] | None = None
) -> Values:
    """The op on a device, and its gradients for the covector."""
    needs = case.needs(arrays) if needs is None else needs
    with use_device(device):
        tensors = [
            Tensor.from_host(array, device, requires_grad=need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        result = case.run(*tensors)
        if result.requires_grad:
            backward(result, covector(result.shape, result.dtype))
        grads = [None if each.grad is None else each.grad.to_host() for each in tensors]
        return Values(result.to_host(), result.dtype, grads)


def expected(case: Case, arrays: Sequence[Array], dtype: str) -> Values:
    """What the op should give; floating dtypes are computed in float64."""
    if DTYPES[dtype].floating:
        exact = [x.astype(np.float64) if is_floating(x) else x for x in arrays]
        found = _values(case, exact)
        return Values(found.output, _result_dtype(found.dtype, dtype), found.gradients)
    if case.excuse("PyTorch on whole numbers"):
        return evaluate(case, arrays, get_device("cpu"))
    try:
        return _values(case, arrays)
    except (RuntimeError, TypeError):  # PyTorch lacks many ops for whole dtypes
        return evaluate(case, arrays, get_device("cpu"))


def _result_dtype(found: str, dtype: str) -> str:
    return dtype if found == "float64" else found


def _values(case: Case, arrays: Sequence[Array]) -> Values:
    torch = torch_module()
    if torch is None or case.torch is None:
        return evaluate(case, arrays, get_device("cpu"))
    needs = case.needs(arrays)
    tensors = [
        torch.tensor(array).requires_grad_(need) for array, need in zip(arrays, needs, strict=True)
    ]
    result = case.run_torch(torch, *tensors)
    dtype = str(result.dtype).removeprefix("torch.")
    if result.requires_grad:
        result.backward(torch.tensor(covector(tuple(result.shape), dtype)))
    grads = [None if each.grad is None else each.grad.numpy() for each in tensors]
    return Values(result.detach().numpy(), dtype, grads)


# -- finite differences ----------------------------------------------------------------


def check_slopes(case: Case, shapes: Sequence[Shape]) -> None:
    """The gradient of the NumPy path in float64 against central differences.

    The output is weighted with a random covector, and each input is moved in a random
    direction: `<v, grad> = d/dt <u, f(x + t v)>`.
    """
    arrays = [away_from(array, case.kinks) for array in case.sample(shapes, "float64")]
    random = np.random.default_rng(len(str(case)))
    numpy_path = get_device("cpu")
    needs = case.needs(arrays)
    tensors = [Tensor.from_host(array, numpy_path) for array in arrays]
    for tensor, need in zip(tensors, needs, strict=True):
        tensor.requires_grad_(need)
    with use_device(numpy_path):
        result = case.run(*tensors)
        weights = random.standard_normal(result.shape)
        if not result.requires_grad:
            assert not any(needs), f"{case}: the output has no gradient"
            return
        backward(result, weights)
    for i in (i for i, need in enumerate(needs) if need):
        _check_slope(case, arrays, i, tensors[i].grad, weights, random)


def _check_slope(
    case: Case,
    arrays: Sequence[Array],
    i: int,
    gradient: Tensor | None,
    weights: Array,
    random: np.random.Generator,
) -> None:
    direction = random.standard_normal(arrays[i].shape)

    def height(step: float) -> Any:
        moved = [x + step * direction if k == i else x for k, x in enumerate(arrays)]
        numpy_path = get_device("cpu")
        with use_device(numpy_path), no_grad():
            tensors = [Tensor.from_host(array, numpy_path) for array in moved]
            return weights * case.run(*tensors).to_host()

    assert gradient is not None, f"{case}: input {i} got no gradient"
    terms = gradient.to_host() * direction
    slope = (height(_STEP) - height(-_STEP)).sum() / (2 * _STEP)
    bound = 1e-5 * (abs(terms.sum()) + np.sqrt(np.square(terms).sum())) + 1e-7
    assert abs(slope - terms.sum()) <= bound * case.tolerance, (
        f"{case}: gradient of input {i}: {terms.sum()} along a random direction; "
        f"finite differences give {slope}"
    )


# -- comparison ------------------------------------------------------------------------


def assert_same(
    given: Array, wanted: Array, dtype: str, what: str, *, factor: float, terms: float | None
) -> None:
    """Equal within the dtype's tolerance, NaN and infinities included.

    The result of an elementwise op is judged element by element; `terms` says how many
    numbers were summed up in each. None: it is judged by the size of the whole.
    """
    assert given.shape == wanted.shape, f"{what}: shape {given.shape}; expected {wanted.shape}"
    rtol = TOLERANCE.get(dtype, 0.0) * factor
    if not rtol:
        bits = given.view(np.uint8) if given.dtype == bool else given  # a bool is 0 or 1, not 2
        np.testing.assert_array_equal(bits, wanted, err_msg=what)
        return
    with np.errstate(over="ignore"):
        wanted = wanted.astype(dtype).astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = 0.1 * terms**0.5 if terms else max(0.1, float(finite.max(initial=0.0)))
    np.testing.assert_allclose(given.astype(np.float64), wanted, rtol, rtol * scale, err_msg=what)
