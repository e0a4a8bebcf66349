"""The reference: what a case has to equal, in float64.

PyTorch where it is installed and the case names a counterpart, else a NumPy function of the
author's, else the op's own NumPy path. The gradients of that path are those wherever PyTorch
has none; they are held against finite differences.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from netcl_core.autograd import backward
from netcl_core.device.device import Device
from netcl_core.device.device_table import all_devices, get_device, use_device
from netcl_core.dtypes import DTYPES
from netcl_core.tensors.host_data import Array, Shape
from netcl_core.tensors.tensor import Tensor
from netcl_core.testing.cases import Case
from netcl_core.testing.samples import covector, is_floating

#: Relative tolerance by dtype; whole numbers are exact.
TOLERANCE: Final = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


@final
@dataclass(frozen=True)
class Values:
    """An op's output, its dtype, and a gradient (or None) per input."""

    output: Array
    dtype: str
    gradients: Sequence[Array | None]


def usable_devices(dtype: str = "float32") -> list[Device]:
    """The devices that can hold a dtype, the NumPy path last; simulators are left out.

    >>> str(usable_devices("float64")[-1])
    'cpu'
    """
    found = [device for device in all_devices() if not device.simulator]
    return [device for device in found if dtype != "float64" or device.supports_fp64]


def has_torch() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return importlib.util.find_spec("torch") is not None


@lru_cache(maxsize=1)
def torch_module() -> Any:
    """PyTorch, or None where it is not installed."""
    return importlib.import_module("torch") if has_torch() else None


def evaluate(
    case: Case,
    arrays: Sequence[Array],
    device: Device,
    needs: Sequence[bool] | None = None,
    upstream: Callable[[Shape, str], Array] = covector,
) -> Values:
    """The op on a device, and its gradients from the one that `upstream` gives for the output."""
    needs = case.needs(arrays) if needs is None else needs
    with use_device(device):
        tensors = [
            Tensor.from_host(array, device, requires_grad=need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        result = case.run(*tensors)
        if result.requires_grad:
            backward(result, upstream(result.shape, result.dtype))
        grads = [None if each.grad is None else each.grad.to_host() for each in tensors]
        return Values(result.to_host(), result.dtype, grads)


def lacking(case: Case) -> str:
    """Why no reference is independent of the op; empty if one is."""
    if case.counterpart is not None or (case.torch is not None and has_torch()):
        return ""
    if case.torch is not None:
        return "PyTorch is not installed; the NumPy path in float64 is the reference"
    reason = case.excuse("PyTorch")
    return f"none given{f' ({reason})' if reason else ''}; the NumPy path in float64 is it"


def expected(case: Case, arrays: Sequence[Array], dtype: str) -> Values:
    """What the op should give; floating dtypes are computed in float64."""
    if DTYPES[dtype].floating:
        exact = [x.astype(np.float64) if is_floating(x) else x for x in arrays]
        found = _values(case, exact)
        return replace(found, dtype=dtype) if found.dtype == "float64" else found
    torch = _torch_for(case)
    if torch is not None and not case.excuse("PyTorch on whole numbers"):
        with contextlib.suppress(
            RuntimeError, TypeError
        ):  # PyTorch lacks many ops for whole dtypes
            return _of_torch(torch, case, arrays)
    return evaluate(case, arrays, get_device("cpu"))


def _torch_for(case: Case) -> Any:
    """PyTorch, if it can say what the case has to equal."""
    return None if case.torch is None else torch_module()


def _values(case: Case, arrays: Sequence[Array]) -> Values:
    """The result for floating inputs, which are float64."""
    torch = _torch_for(case)
    if torch is not None:
        return _of_torch(torch, case, arrays)
    own = evaluate(case, arrays, get_device("cpu"))
    if case.counterpart is None:
        return own
    with np.errstate(all="ignore"):
        output = np.asarray(case.counterpart(*arrays, **case.attrs))
    return Values(output, output.dtype.name, own.gradients)


def _of_torch(torch: Any, case: Case, arrays: Sequence[Array]) -> Values:
    needs = case.needs(arrays)
    tensors = [
        torch.tensor(array).requires_grad_(need) for array, need in zip(arrays, needs, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch warns of is not the op's concern
        result = case.run_torch(torch, *tensors)
        dtype = str(result.dtype).removeprefix("torch.")
        if result.requires_grad:
            result.backward(torch.tensor(covector(tuple(result.shape), dtype)))
    grads = [None if each.grad is None else each.grad.numpy() for each in tensors]
    return Values(result.detach().numpy(), dtype, grads)


# -- comparison ------------------------------------------------------------------------


def assert_close(
    given: Array, wanted: Array, what: str, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Raise AssertionError that shows the worst element, unless all are equal or close."""
    assert given.shape == wanted.shape, f"{what}: shape {given.shape}; expected {wanted.shape}"
    exact = given.dtype.kind != "f" or not (rtol or atol)
    with np.errstate(all="ignore"):
        same = (given == wanted) | ((given != given) & (wanted != wanted))
        same = same if exact else same | np.isclose(given, wanted, rtol, atol)
        if same.all():
            return
        distance = np.abs(given.astype(np.float64) - wanted.astype(np.float64))
    distance = np.where(same, -1.0, np.where(np.isnan(distance), np.inf, distance))
    worst = np.unravel_index(int(distance.argmax()), given.shape)
    where = f" at {tuple(map(int, worst))}" if given.ndim else ""
    within = "" if exact else f" within {rtol:.2g} of it + {atol:.2g}"
    raise AssertionError(
        f"{what}: {int((~same).sum())} of {same.size} elements differ; "
        f"given {given[worst]}{where}; expected {wanted[worst]}{within}"
    )
