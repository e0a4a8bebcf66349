"""The checks of a training pattern's case: it applies, and costs nobody a result or a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core import DTYPES, Device, Tensor, manual_seed, use_device
from netcl_core.autograd import grad
from netcl_core.errors import GradientError
from netcl_core.inspect.choices import MISTAKES
from netcl_core.inspect.data import Array
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.checks import same
from netcl_plugin_kit.testing.groups import compiled_with
from netcl_plugin_kit.testing.inputs import covector
from netcl_plugin_kit.testing.near_misses import NearMiss, near_misses
from netcl_plugin_kit.testing.reference import results_of
from netcl_plugin_kit.testing.samples import is_floating

Function: TypeAlias = Callable[..., Any]
_SEED: Final = 20
#: What `.explain()` says of a pattern that applied, and of one that failed.
APPLIED: Final = "in place of"
FAILED: Final = "NP406"


def check_near_misses(case: Case, device: Device, dtype: str) -> None:
    """Each that the pattern takes too gives what it gives as it stands, and no planner fails.

    In float64 where there is one: then only what is wrong differs.
    """
    row = case.pattern
    assert row is not None  # asked of nothing else
    wide = "float64" in case.takes and device.supports_fp64
    for miss in near_misses(case, case.main_sample("float64" if wide else dtype)):
        shapes = ", ".join(f"{x.dtype}{list(x.shape)}" for x in miss.arrays)
        where = f"{case} on {device}, but {miss.text}, for {shapes}"
        compiled = compiled_with(row, miss.function)
        try:
            said = refuse_failures(compiled, miss.arrays, device, where)
        except MISTAKES:  # the function itself refuses these
            continue
        if APPLIED in said:
            _compare(case, miss, compiled, device, where)


def _compare(case: Case, miss: NearMiss, compiled: Function, device: Device, where: str) -> None:
    right, actual = (
        _outcome(function, miss.arrays, device) for function in (miss.function, compiled)
    )
    narrow = _narrowest(miss.arrays)
    for i, (one, other) in enumerate(zip(actual, right, strict=True)):
        assert one.dtype == other.dtype, f"{where}: {one.dtype}; expected {other.dtype}"
        judged = one.astype(narrow) if is_floating(one) else one
        same(case, judged, other, f"{where}: what the pattern gives (number {i})")


def check_second_order(case: Case, device: Device, dtype: str) -> None:
    """Gradients of the gradients are those of the function as it stands, if that has any."""
    arrays = case.main_sample(dtype)
    where = f"{case} on {device} in {dtype} for {[x.shape for x in arrays]}"
    try:
        right = _second(case.written, arrays, device)
    except GradientError:
        return
    actual = _second(case.compiled, arrays, device)
    for i, (one, other) in enumerate(zip(actual, right, strict=True)):
        same(case, one, other, f"{where}: second derivative {i}")


def _second(function: Function, arrays: Sequence[Array], device: Device) -> list[Array]:
    with use_device(device):
        manual_seed(_SEED)
        leaves = [Tensor.from_host(x, device, requires_grad=is_floating(x)) for x in arrays]
        values = [x for x in results_of(function(*leaves)) if x.requires_grad]
        leaves = [x for x in leaves if x.requires_grad]
        if not values:
            return []
        upstream = [Tensor.from_host(covector(x.shape, x.dtype), device) for x in values]
        parts = grad(values, leaves, upstream, create_graph=True, allow_unused=True)
        first = [g for g in parts if g is not None and g.requires_grad]
        seeds = [Tensor.from_host(covector(g.shape, g.dtype), device) for g in first]
        second = grad(first, leaves, seeds, allow_unused=True) if first else []
        pairs = zip(second, leaves, strict=False)  # without a first there is no second
        return [np.zeros(x.shape) if g is None else g.to_host() for g, x in pairs]


def _narrowest(arrays: Sequence[Array]) -> Any:
    """The dtype in which something of these may have been computed; whole ones become float32."""
    dtypes = [x.dtype if is_floating(x) else np.dtype(np.float32) for x in arrays]
    return min(dtypes, key=lambda dtype: dtype.itemsize)


def check_match(case: Case, device: Device, dtype: str) -> None:
    """The pattern applies to some variant of a case, and its planner never fails."""
    said = []
    for shapes in case.variants:
        arrays = case.sample(shapes, dtype)
        where = f"{case} on {device} in {dtype} for {[x.shape for x in arrays]}"
        said.append(refuse_failures(case.compiled, arrays, device, where))
    assert any(APPLIED in text for text in said), (
        f"{case} on {device} in {dtype}: it applies to none of its variants\n{said[0]}"
    )


def refuse_failures(compiled: Any, arrays: Sequence[Array], device: Device, where: str) -> str:
    """What the compiled function says of itself; raises AssertionError if a planner has failed."""
    with use_device(device):
        needs = [is_floating(array) for array in arrays]
        tensors = [
            Tensor.from_host(array, device, requires_grad=need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        text: str = compiled.explain(*tensors)
    lines = [line.strip() for line in text.splitlines() if FAILED in line]
    assert not lines, f"{where}: {lines[0]}"
    return text


def _outcome(function: Function, arrays: Sequence[Array], device: Device) -> list[Array]:
    """The results and gradients of a function, zeros where there is none."""
    with use_device(device):
        manual_seed(_SEED)
        tensors = [Tensor.from_host(x, device, requires_grad=is_floating(x)) for x in arrays]
        results = results_of(function(*tensors))
        outputs = [x for x in results if x.requires_grad and DTYPES[x.dtype].floating]
        upstream = [Tensor.from_host(covector(x.shape, x.dtype), device) for x in outputs]
        leaves = [x for x in tensors if x.requires_grad]
        graded = outputs and leaves
        grads = grad(outputs, leaves, upstream, allow_unused=True) if graded else []
        pairs = zip(grads, leaves, strict=False)  # without an output there is no gradient
        gradients = [Tensor.zeros(x.shape, x.dtype, device) if g is None else g for g, x in pairs]
        return [x.to_host() for x in (*results, *gradients)]
