"""The checks of one case on one device in one dtype; each raises AssertionError that says where."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, use_device
from netcl_core.autograd import AutogradPrimitive, Tape
from netcl_core.errors import KernelFindingError, NetclError, UnfitError
from netcl_core.inspect.choices import functions, offers_of
from netcl_core.inspect.data import Array, Shape
from netcl_plugin_kit.testing import verification
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.guards import POISON
from netcl_plugin_kit.testing.inputs import as_lines, as_view, for_inputs, pairs_of
from netcl_plugin_kit.testing.reference import (
    TOLERANCE,
    Values,
    assert_close,
    evaluate,
    expected,
)
from netcl_plugin_kit.testing.samples import MILD, is_floating

#: Shapes of two inputs, and of a third one: full rows, split rows, tails, one element, none.
BROADCASTS: Final[tuple[tuple[Shape, Shape, Shape], ...]] = (
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
#: How many run an op at once, how often each of them, and how long they wait for each other.
_THREADS: Final = 4
_ROUNDS: Final = 2
_PATIENCE_S: Final = 60


def check_derivative(record: AutogradPrimitive) -> None:
    """The expressions of an elementwise op's backward against the derivative of its forward."""
    findings = verification.check_gradient(record)
    assert not findings, "\n".join(map(str, findings))


def check_commutative(record: AutogradPrimitive) -> None:
    """The same numbers, NaN and infinities included, when the two inputs change places."""
    attrs = record.default_attrs() or {}
    with use_device("numpy"):
        x, y = (Tensor.from_host(array) for array in pairs_of(MILD, 2))
        one, other = record(x, y, **attrs).to_host(), record(y, x, **attrs).to_host()
    assert_close(one, other, f"{record.name}(x, y) beside {record.name}(y, x)")


def check_alias(record: AutogradPrimitive) -> None:
    """The same numbers, NaN and infinities included, as the op that it is a name of."""
    attrs = record.default_attrs() or {}
    with use_device("numpy"):
        inputs = [Tensor.from_host(array) for array in pairs_of(MILD, record.arity or 2)]
        one = record(*inputs, **attrs).to_host()
        other = functions[record.alias_of](*inputs, **attrs).to_host()
    assert_close(one, other, f"{record.name} beside {record.alias_of}")


def check_variants(case: Case, device: Device, dtype: str) -> None:
    """`check_values` for all shapes of a case; for an implementation those that it takes."""
    refused: list[UnfitError] = []
    for shapes in case.variants:
        try:
            check_values(case, shapes, device, dtype)
        except UnfitError as error:
            if not case.refusal(error):
                raise
            refused.append(error)
    if len(refused) == len(case.variants):
        raise refused[0]


def check_main(case: Case, device: Device, dtype: str) -> None:
    """`check_values` for the first shapes of a case with elements."""
    check_values(case, [array.shape for array in case.main_sample(dtype)], device, dtype)


def check_values(case: Case, shapes: Sequence[Shape], device: Device, dtype: str) -> None:
    """Shape, dtype, output and gradients against the reference.

    >>> case = Case("sin", [normal()], reference=np.sin)
    >>> check_values(case, [(2, 3)], nc.get_device("numpy"), "float64")  # or AssertionError

    Args:
        case: The case.
        shapes: The shapes of its tensors, one of the case's variants.
        device: Where the op is computed.
        dtype: The dtype of the floating inputs.
    """
    arrays = case.sample(shapes, dtype)
    where = _where(case, device, dtype, arrays)
    compare(case, evaluate(case, arrays, device), expected(case, arrays, dtype), where, arrays)


def check_broadcasting(case: Case, device: Device, dtype: str) -> None:
    """An elementwise op of inputs of different shapes."""
    for shapes in BROADCASTS:
        check_values(case, for_inputs(shapes, len(case.inputs)), device, dtype)


def compare(
    case: Case | None,
    given: Values,
    wanted: Values,
    where: str,
    inputs: Sequence[Array] = (),
) -> None:
    """Raise AssertionError where two results differ by more than the case allows.

    Without a case they have to be equal, NaN at the same places included. `inputs` are shown.
    """
    compare_outputs(case, given, wanted, where, inputs)
    for i, (actual, right) in enumerate(zip(given.gradients, wanted.gradients, strict=True)):
        same_gradient(case, actual, right, f"{where}: gradient {i}", given.size, inputs)


def compare_outputs(
    case: Case | None, given: Values, wanted: Values, where: str, inputs: Sequence[Array] = ()
) -> None:
    """The same for the results alone."""
    few = f"{where}: {len(given.outputs)} results; expected {len(wanted.outputs)}"
    assert len(given.outputs) == len(wanted.outputs), few
    for i, (actual, right) in enumerate(zip(given.outputs, wanted.outputs, strict=True)):
        which = f"{where}: output{f' {i}' if len(given.outputs) > 1 else ''}"
        dtypes = given.dtypes[i], wanted.dtypes[i]
        if dtypes[0] != dtypes[1]:
            raise KernelFindingError("NC704", f"{which}: dtype {dtypes[0]}; expected {dtypes[1]}")
        same(case, actual, right, which, inputs=inputs)


def same(
    case: Case | None,
    given: Array,
    wanted: Array,
    what: str,
    terms: float = 1.0,
    inputs: Sequence[Array] = (),
) -> None:
    """Equal within the dtype's tolerance, without a case exactly; NaN and infinities included.

    The result of an elementwise op is judged element by element; `terms` says how many numbers
    were summed up in each. Any other is judged by the size of the whole.
    """
    assert given.shape == wanted.shape, f"{what}: shape {given.shape}; expected {wanted.shape}"
    if case is not None and is_floating(given):
        _insist_on_written(given, wanted, what)
    rtol = 0.0 if case is None else TOLERANCE.get(given.dtype.name, 0.0) * case.tolerance
    if case is None or not rtol:
        bits = given.view(np.uint8) if given.dtype == bool else given  # a bool is 0 or 1, not 2
        assert_close(bits, np.asarray(wanted), what, inputs=inputs)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = wanted.astype(given.dtype).astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = max(0.1, float(finite.max(initial=0.0)))
    scale = largest if case.primitive is None else 0.1 * terms**0.5
    assert_close(given.astype(np.float64), wanted, what, rtol, rtol * scale, inputs)


def _insist_on_written(given: Array, wanted: Array, what: str) -> None:
    """Raise KernelFindingError where an element has the bits of new memory, which no result has."""
    bits = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    fresh = (bits.reshape(given.size, given.dtype.itemsize) == POISON).all(1).reshape(given.shape)
    fresh = fresh & (wanted == wanted)
    if fresh.any():
        first = tuple(map(int, np.argwhere(fresh)[0]))
        some = f"{int(fresh.sum())} of {given.size} elements hold what new memory holds"
        raise KernelFindingError("NC703", f"{what}: {some}, the first at {first}")


def same_gradient(
    case: Case | None,
    given: Array | None,
    wanted: Array | None,
    what: str,
    size: int,
    inputs: Sequence[Array] = (),
) -> None:
    """The same for one input's gradient of an output of this size; it may have to be absent."""
    if given is None or wanted is None:
        assert (given is None) == (wanted is None), f"{what}: {given}; expected {wanted}"
        return
    same(case, given, wanted, what, max(1.0, size / max(1, given.size)), inputs)


def check_deterministic(case: Case, device: Device, dtype: str) -> None:
    """The same bits twice."""
    arrays = case.main_sample(dtype)
    first, second = (evaluate(case, arrays, device) for _ in range(2))
    compare(None, first, second, f"{_where(case, device, dtype, arrays)}, twice")


def check_strided(case: Case, device: Device, dtype: str) -> None:
    """Views with gaps, in another order, from an offset on, give what contiguous operands give."""
    arrays = case.main_sample(dtype)
    where = f"{_where(case, device, dtype, arrays)} of strided views"
    first, second = (evaluate(case, arrays, device, place=x) for x in (as_view, Tensor.from_host))
    compare(None, first, second, where)
    if any(getattr(offer.item, "reads", None) for offer in offers_of(case.op)):
        for axis in (-1, -2):  # what reads such lines may add up in another order
            lines = evaluate(case, arrays, device, place=partial(as_lines, axis=axis))
            compare(case, lines, second, f"{where}, lines along axis {axis}")


def check_threads(case: Case, device: Device, dtype: str) -> None:
    """Four threads, each with a tape and inputs of its own, begin at the same moment."""
    inputs = [case.main_sample(dtype, f"thread {number}") for number in range(_THREADS)]
    alone = [evaluate(case, arrays, device) for arrays in inputs]
    start = threading.Barrier(_THREADS)

    def work(number: int) -> list[Values]:
        start.wait(_PATIENCE_S)
        with Tape():
            return [evaluate(case, inputs[number], device) for _ in range(_ROUNDS)]

    with ThreadPoolExecutor(_THREADS) as pool:
        together = list(pool.map(work, range(_THREADS)))
    for number, results in enumerate(together):
        where = _where(case, device, dtype, inputs[number])
        for values in results:
            compare(None, values, alone[number], f"{where} in thread {number} of {_THREADS}")


def check_pruning(case: Case, device: Device, dtype: str) -> None:
    """A gradient for those inputs that ask for one, and the same as with all."""
    arrays = case.main_sample(dtype)
    where = _where(case, device, dtype, arrays)
    none = evaluate(case, arrays, device, [False] * len(arrays))
    assert none.gradients == [None] * len(arrays), f"{where}: a gradient that nobody asked for"
    needs = case.needs(arrays)
    if device.has_kernels or sum(needs) < 2:  # the same Python code decides everywhere
        return
    whole = evaluate(case, arrays, device)
    for i in (i for i, need in enumerate(needs) if need):
        alone = [k == i for k in range(len(arrays))]
        pruned = evaluate(case, arrays, device, alone)
        wanted = [gradient if k == i else None for k, gradient in enumerate(whole.gradients)]
        only = f"{where} with a gradient of input {i} alone"
        compare(case, pruned, Values(whole.outputs, whole.dtypes, wanted), only)


def check_refusal(case: Case, device: Device, _: str) -> None:
    """A dtype that the case does not take is refused by an error of netcl's own."""
    for dtype in DTYPES:
        if dtype in case.takes:
            continue
        arrays = case.main_sample(dtype)
        try:
            evaluate(case, arrays, device)
        except NetclError:
            continue
        shapes = [array.shape for array in arrays]
        raise AssertionError(f"{case} accepts {dtype} for {shapes}; expected an error of netcl's")


def check_non_finite(case: Case, device: Device, dtype: str) -> None:
    """NaN and infinities in, the same NaN and infinities out as the reference's.

    One rule for every kind of op: what the reference gives in float64 is right, and so is what it
    gives in float32, where that is not finite. A structured op's gradients have to agree where
    the reference's are finite.
    """
    for arrays in _with_non_finite(case, dtype):
        wanted, given = expected(case, arrays, dtype), evaluate(case, arrays, device)
        wanted = tolerant(case, arrays, dtype, given, wanted)
        where = f"{_where(case, device, dtype, arrays)} of non-finite values"
        compare_outputs(case, given, wanted, where, arrays)
        for i, (actual, right) in enumerate(zip(given.gradients, wanted.gradients, strict=True)):
            if actual is not None and right is not None:
                kept = _judged(case, arrays, right)
                inputs = [x[kept] for x in arrays if x.shape == kept.shape]
                same(case, actual[kept], right[kept], f"{where}: gradient {i}", inputs=inputs)


def tolerant(
    case: Case, arrays: Sequence[Array], dtype: str, given: Values, wanted: Values
) -> Values:
    """What the reference gives, in float32 where that is not finite and what was given."""
    single = expected(case, arrays, dtype, "float32") if DTYPES[dtype].floating else wanted
    outputs = list(map(_either, given.outputs, wanted.outputs, single.outputs))
    gradients = list(map(_either, given.gradients, wanted.gradients, single.gradients))
    return replace(wanted, outputs=outputs, gradients=gradients)


def _either(given: Array | None, wanted: Any, single: Array | None) -> Any:
    if given is None or wanted is None or single is None or given.shape != single.shape:
        return wanted
    equal = (given == single) | ((given != given) & (single != single))
    return np.where(equal & ~np.isfinite(single), single, wanted)


def _judged(case: Case, arrays: Sequence[Array], gradient: Array) -> Array:
    """Which elements of a gradient of non-finite inputs are compared."""
    if case.primitive is None:
        return np.asarray(np.isfinite(gradient) & (not case.excuse("non-finite gradient")))
    if case.excuse("gradient at NaN"):
        return np.asarray(~np.isnan(arrays[0]))
    return np.ones(gradient.shape, bool)


def _with_non_finite(case: Case, dtype: str) -> Iterator[list[Array]]:
    if case.primitive is not None:
        yield [x.astype(dtype) for x in pairs_of(case.specials, len(case.inputs))]
        return
    arrays = case.main_sample(dtype)
    needs = case.needs(arrays)
    data = needs if any(needs) else [is_floating(array) for array in arrays]
    for i, array in enumerate(arrays):
        for value in (np.nan, np.inf, -np.inf) if data[i] and array.size else ():
            bad = array.copy()
            bad.reshape(-1)[bad.size // 2] = value
            yield [bad if k == i else x for k, x in enumerate(arrays)]


def _where(case: Case, device: Device, dtype: str, arrays: Sequence[Array]) -> str:
    return f"{case} on {device} in {dtype} for {[array.shape for array in arrays]}"
