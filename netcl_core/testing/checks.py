"""The checks of one case on one device in one dtype; each raises AssertionError that says where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from netcl_core.autograd import verification
from netcl_core.device import Device
from netcl_core.device_table import get_device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import NetclError
from netcl_core.hostdata import Array, Shape
from netcl_core.testing.cases import Case
from netcl_core.testing.reference import (
    Values,
    assert_same,
    check_slopes,
    evaluate,
    expected,
    torch_module,
)
from netcl_core.testing.samples import is_floating, pairs_of, strided

#: Shapes of two inputs, and of a third one: full rows, split rows, tails, one element, none.
BROADCASTS: tuple[tuple[Shape, Shape, Shape], ...] = (
    ((), (), ()),
    ((), (7,), (1,)),
    ((4099,), (1,), ()),
    ((33, 17), (17,), (33, 1)),
    ((17, 33), (17, 1), (33,)),
    ((1, 1031), (3, 1), (3, 1031)),
    ((17, 1, 7), (5, 7), (17, 1, 1)),
    ((3, 1, 2, 1, 5), (1, 2, 1, 7, 1), (7, 1)),
    ((2, 1, 2, 1, 2, 1, 2, 1), (1, 3, 1, 3, 1, 3, 1, 3), ()),
    ((0, 3), (1, 3), (3,)),
    ((3, 0, 1), (1, 1, 4), ()),
)


def check_case(case: Case, device: Device, dtype: str) -> None:
    """Everything that is checked for one case on one device in one dtype."""
    for shapes in case.variants:
        check_values(case, shapes, device, dtype)
    if case.primitive is not None and device.backend == "numpy":
        check_broadcasting(case, device, dtype)
    arrays = _main_sample(case, dtype)
    if not case.excuse("deterministic", device):
        check_deterministic(case, arrays, device)
    if dtype != ("float32" if "float32" in case.takes else case.takes[-1]):
        return  # what follows depends on the op, not on the dtype
    if not case.excuse("strided", device):
        check_strided(case, arrays, device)
    if not case.excuse("pruning", device):
        check_pruning(case, arrays, device)
    if dtype == "float32" and not case.excuse("non-finite", device):
        check_non_finite(case, device)


def check_gradient(case: Case) -> None:
    """The gradients of the NumPy path in float64 against finite differences."""
    if not case.differentiable or case.excuse("finite differences"):
        return
    for shapes in case.variants:
        check_slopes(case, shapes)


def check_derivative(case: Case) -> None:
    """The expressions of an elementwise op's backward against the derivative of its forward."""
    if case.primitive is not None and not case.excuse("derivative"):
        findings = verification.check_gradient(case.primitive)
        assert not findings, "\n".join(map(str, findings))


def check_values(case: Case, shapes: Sequence[Shape], device: Device, dtype: str) -> None:
    """Shape, dtype, output and gradients against the reference."""
    arrays = case.sample(shapes, dtype)
    where = f"{case} on {device} in {dtype} for {[array.shape for array in arrays]}"
    compare(case, evaluate(case, arrays, device), expected(case, arrays, dtype), where)


def check_broadcasting(case: Case, device: Device, dtype: str) -> None:
    """An elementwise op of inputs of different shapes."""
    count = len(case.inputs)
    for shapes in BROADCASTS:
        if 1 < count <= len(shapes):
            check_values(case, shapes[:count], device, dtype)


def compare(case: Case, given: Values, wanted: Values, where: str) -> None:
    """Raise AssertionError where two results differ by more than the dtype's tolerance."""
    assert given.dtype == wanted.dtype, f"{where}: dtype {given.dtype}; expected {wanted.dtype}"
    same(case, given.output, wanted.output, f"{where}: output")
    for i, (found, right) in enumerate(zip(given.gradients, wanted.gradients, strict=True)):
        same_gradient(case, found, right, f"{where}: gradient {i}", given.output.size)


def same(case: Case, given: Array, wanted: Array, what: str, terms: float = 1.0) -> None:
    """Raise AssertionError where two arrays differ; `terms` as in `assert_same`."""
    alone = None if case.primitive is None else terms
    assert_same(given, wanted, given.dtype.name, what, factor=case.tolerance, terms=alone)


def same_gradient(
    case: Case, given: Array | None, wanted: Array | None, what: str, size: int
) -> None:
    """The same for one input's gradient of an output of this size; it may have to be absent."""
    if given is None or wanted is None:
        assert (given is None) == (wanted is None), f"{what}: {given}; expected {wanted}"
        return
    same(case, given, wanted, what, max(1.0, size / max(1, given.size)))


def check_deterministic(case: Case, arrays: Sequence[Array], device: Device) -> None:
    """The same bits twice."""
    first, second = (evaluate(case, arrays, device) for _ in range(2))
    _same_bits(first, second, f"{case} on {device}, twice")


def check_strided(case: Case, arrays: Sequence[Array], device: Device) -> None:
    """Host data with gaps and in Fortran's order gives what contiguous data gives."""
    gaps = [strided(array) for array in arrays]
    first, second = (evaluate(case, each, device) for each in (arrays, gaps))
    _same_bits(first, second, f"{case} on {device} of strided host data")


def _same_bits(first: Values, second: Values, what: str) -> None:
    assert first.dtype == second.dtype, f"{what}: dtypes {first.dtype} and {second.dtype}"
    np.testing.assert_array_equal(first.output, second.output, err_msg=what)
    for one, two in zip(first.gradients, second.gradients, strict=True):
        np.testing.assert_array_equal(one, two, err_msg=f"{what}: gradients")


def check_pruning(case: Case, arrays: Sequence[Array], device: Device) -> None:
    """A gradient for those inputs that ask for one, and the same as with all."""
    none = evaluate(case, arrays, device, [False] * len(arrays))
    assert none.gradients == [None] * len(arrays), f"{case}: a gradient that nobody asked for"
    needs = case.needs(arrays)
    if device.backend != "numpy" or sum(needs) < 2:  # the same Python code decides everywhere
        return
    whole = evaluate(case, arrays, device)
    for i in (i for i, need in enumerate(needs) if need):
        alone = [k == i for k in range(len(arrays))]
        found = evaluate(case, arrays, device, alone)
        wanted = [each if k == i else None for k, each in enumerate(whole.gradients)]
        where = f"{case} on {device} with a gradient of input {i} alone"
        compare(case, found, Values(whole.output, whole.dtype, wanted), where)


def check_refusal(case: Case) -> None:
    """A dtype that the case does not take is refused by an error of netcl's own."""
    for dtype in DTYPES if not case.excuse("refusal") else ():
        if dtype in case.takes:
            continue
        arrays = _main_sample(case, dtype)
        try:
            evaluate(case, arrays, get_device("cpu"))
        except NetclError:
            continue
        raise AssertionError(f"{case} accepts {dtype}; list it in dtypes= so that it is checked")


def check_non_finite(case: Case, device: Device) -> None:
    """NaN and infinities in, the same NaN and infinities out as PyTorch's.

    A structured op's gradients have to agree where PyTorch's are finite.
    """
    if torch_module() is None or case.torch is None:
        return
    for arrays in _with_non_finite(case):
        wanted, given = expected(case, arrays, "float32"), evaluate(case, arrays, device)
        where = f"{case} on {device} of non-finite values"
        same(case, given.output, wanted.output, f"{where}: output")
        for i, (found, right) in enumerate(zip(given.gradients, wanted.gradients, strict=True)):
            if found is not None and right is not None:
                kept = _judged(case, arrays, right)
                same(case, found[kept], right[kept], f"{where}: gradient {i}")


def _judged(case: Case, arrays: Sequence[Array], gradient: Array) -> Array:
    """Which elements of a gradient of non-finite inputs are compared."""
    if case.primitive is None:
        return np.asarray(np.isfinite(gradient) & (not case.excuse("non-finite gradient")))
    if case.excuse("gradient at NaN"):
        return np.asarray(~np.isnan(arrays[0]))
    return np.ones(gradient.shape, bool)


def _with_non_finite(case: Case) -> Iterator[list[Array]]:
    if case.primitive is not None:
        yield [x.astype(np.float32) for x in pairs_of(case.specials, len(case.inputs))]
        return
    arrays = _main_sample(case, "float32")
    needs = case.needs(arrays)
    data = needs if any(needs) else [is_floating(array) for array in arrays]
    for i, array in enumerate(arrays):
        for value in (np.nan, np.inf, -np.inf) if data[i] and array.size else ():
            bad = array.copy()
            bad.reshape(-1)[bad.size // 2] = value
            yield [bad if k == i else x for k, x in enumerate(arrays)]


def _main_sample(case: Case, dtype: str) -> list[Array]:
    """The inputs of the first variant that has elements."""
    samples = [case.sample(shapes, dtype) for shapes in case.variants]
    return next((arrays for arrays in samples if all(x.size for x in arrays)), samples[0])
