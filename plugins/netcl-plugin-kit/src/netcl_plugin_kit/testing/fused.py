"""Fused checks: many elementwise ops in one forward and one backward kernel, each by itself.

Building is what checks spend their time on, so a group shares two programs. That
makes the check of fusion and that of the dtypes and devices one and the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, get_device
from netcl_core.inspect.data import Array, Shape, category_of_scalar
from netcl_core.inspect.expressions import split_attrs
from netcl_core.inspect.recorded import plan_gradients, run_plan
from netcl_core.inspect.sources import PrimitiveStep, Ref, Region, Signature, plan
from netcl_plugin_kit.testing.cases import FIVE, SIZES, Case
from netcl_plugin_kit.testing.checks import same, same_gradient, tolerant
from netcl_plugin_kit.testing.inputs import covector, for_inputs, pairs_of
from netcl_plugin_kit.testing.reference import Values, expected, lacking
from netcl_plugin_kit.testing.samples import is_floating
from netcl_plugin_kit.testing.slopes import STEP, away_from_kinks, judge

#: How many ops share a kernel.
GROUP: Final = 8
_FLAT: Final[tuple[Shape, ...]] = (*((size,) for size in SIZES), FIVE)
#: The shapes of an op's inputs in the broadcast check; the first is that of the result.
_BROADCAST: Final[tuple[Shape, ...]] = ((6, 5, 4, 33), (5, 1, 33), (4, 1))
#: The same for ops of several inputs, the first broadcast too.
_TURNED: Final[tuple[Shape, ...]] = ((5, 1, 33), (6, 5, 4, 33), (4, 1))
#: The shape at which gradients meet finite differences.
_SLOPES: Final[Shape] = (1031,)
Inputs = Callable[[Case], list[Array]]


def is_fusible(case: Case, device: Device, dtype: str) -> bool:
    """Whether a case can share a kernel with others, and is not excused from it."""
    sampled = case.primitive is not None and case.is_sampled
    return sampled and not case.excuse("fused", device, dtype)


def groups(cases: Sequence[Case], device: Device, dtype: str) -> list[list[Case]]:
    """Fusible cases in groups that share a kernel; each that is expected to fail there alone.

    Those of as many inputs are kept together: a group of one input each needs no kernels for
    broadcasting.
    """
    failing = [case for case in cases if case.expected_failure("fused", device, dtype)]
    rest = sorted((x for x in cases if x not in failing), key=lambda case: len(case.inputs))
    parts = [rest[i : i + GROUP] for i in range(0, len(rest), GROUP)]
    return parts + [[case] for case in failing]


def check_group(cases: Sequence[Case], device: Device, dtype: str) -> None:
    """A group in one kernel per direction: sizes, non-finite values; two more for broadcasting."""
    for shape in _FLAT:
        check_fused(cases, device, dtype, _samples([shape], dtype))
    if dtype != "float32":
        return
    check_fused(cases, device, dtype, _samples(_BROADCAST, dtype))
    several = [case for case in cases if len(case.inputs) > 1]
    if several:
        check_fused(several, device, dtype, _samples(_TURNED, dtype))
    kept = [case for case in cases if not case.excuse("non-finite", device, dtype)]
    if kept:
        check_fused(kept, device, dtype, _specials, nan=True)


def check_group_slopes(cases: Sequence[Case], device: Device) -> None:
    """A group's gradients in float64 against finite differences, in the kernels of `check_group`.

    The cases do not reach each other, so that input `i` of all of them is moved at once.
    """
    sample = _samples([_SLOPES], "float64")
    inputs = _even([away_from_kinks(case, sample(case)) for case in cases])
    results, gradients = _run(cases, inputs, device, _random_covector)
    slopes = list(gradients)
    for i in range(max(len(arrays) for arrays in inputs)):
        high, low = (_run(cases, _moved(inputs, i, step), device)[0] for step in (STEP, -STEP))
        for k, case in enumerate(cases):
            gradient = slopes[k][i] if i < len(slopes[k]) else None
            if gradient is None:
                continue
            weights = _random_covector(results[k].shape, "float64")
            terms = gradient.to_host() * _direction(inputs[k][i])
            where = f"{case} fused on {device} in float64 for {_SLOPES}: gradient of input {i}"
            judge(terms, weights * (high[k].to_host() - low[k].to_host()), where, case)


def _moved(inputs: Sequence[Sequence[Array]], i: int, step: float) -> list[list[Array]]:
    """The inputs with each case's input `i` moved, if it has one of data."""
    return [
        [x + step * _direction(x) if k == i and is_floating(x) else x for k, x in enumerate(arrays)]
        for arrays in inputs
    ]


def _direction(array: Array) -> Array:
    return np.asarray(np.random.default_rng(array.size).standard_normal(array.shape))


def _random_covector(shape: Shape, dtype: str) -> Array:
    return np.asarray(np.random.default_rng(len(shape)).standard_normal(shape)).astype(dtype)


def _samples(shapes: Sequence[Shape], dtype: str) -> Inputs:
    return lambda case: case.sample(for_inputs(shapes, len(case.inputs)), dtype)


def _specials(case: Case) -> list[Array]:
    return [x.astype(np.float32) for x in pairs_of(case.specials, len(case.inputs))]


def check_fused(
    cases: Sequence[Case], device: Device, dtype: str, make: Inputs, *, nan: bool = False
) -> None:
    """Every op of a group against the reference; `make` gives an op's inputs.

    One-dimensional inputs of different lengths are repeated to the longest. With `nan`,
    cases may be excused from the gradient at NaN.
    """
    inputs = _even([make(case) for case in cases])
    results, gradients = _run(cases, inputs, device)
    for case, arrays, result, grads in zip(cases, inputs, results, gradients, strict=True):
        wanted = _wanted(case, arrays, dtype)
        if nan and case.primitive is not None and case.primitive.align is None:
            slopes = [None if grad is None else grad.to_host() for grad in grads]
            own = Values([result.to_host()], wanted.dtypes, slopes)
            wanted = tolerant(case, arrays, dtype, own, wanted)
        where = f"{case} fused on {device} in {dtype} for {arrays[0].shape}"
        assert [result.dtype] == wanted.dtypes, f"{where}: dtype {result.dtype}"
        same(case, result.to_host(), wanted.outputs[0], where)
        kept = ~np.isnan(arrays[0]) if nan and case.excuse("gradient at NaN") else ...
        for i, (given, right) in enumerate(zip(grads, wanted.gradients, strict=True)):
            one, two = (None if x is None else np.asarray(x)[kept] for x in (given, right))
            same_gradient(case, one, two, f"{where}: gradient {i}", result.size)


def _wanted(case: Case, arrays: Sequence[Array], dtype: str) -> Values:
    """What the case's expression gives; an op that aligns its operands may refuse these."""
    assert case.primitive is not None  # groups() leaves structured ops out
    if case.primitive.align is None or not lacking(case):
        return expected(case, arrays, dtype)
    exact = [x.astype(np.float64) if is_floating(x) else x for x in arrays]
    (result,), gradients = _run([case], [exact], get_device("numpy"))
    given = [None if gradient is None else gradient.to_host() for gradient in next(gradients)]
    same_kind = result.dtype == "float64" and DTYPES[dtype].floating
    return Values([result.to_host()], [dtype if same_kind else result.dtype], given)


def _even(inputs: list[list[Array]]) -> list[list[Array]]:
    longest = max((x.size for arrays in inputs for x in arrays), default=0)
    if all(x.ndim == 1 for arrays in inputs for x in arrays) and longest:
        return [[np.resize(x, (longest,)) for x in arrays] for arrays in inputs]
    return inputs


def _run(
    cases: Sequence[Case],
    inputs: Sequence[Sequence[Array]],
    device: Device,
    seed: Callable[[Shape, str], Array] = covector,
) -> tuple[list[Tensor], Iterator[list[Tensor | None]]]:
    """The results, and per case the gradients of its inputs."""
    region, scalars = _region(cases)
    tensors = [Tensor.from_host(array, device) for arrays in inputs for array in arrays]
    given = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
    categories = tuple(category_of_scalar(value) for value in scalars)
    copying = plan(region, device, Signature(given, categories))
    results = run_plan(copying, tensors, scalars)
    pairs = zip(cases, inputs, strict=True)
    needs = tuple(need for case, arrays in pairs for need in case.needs(arrays))
    seeds = [Tensor.from_host(seed(out.shape, out.dtype), device) for out in results]
    grads: list[Tensor | None] = [None] * len(tensors)
    if any(needs):
        grads = plan_gradients(copying, tensors, scalars, needs, seeds)
    rest = iter([g if need else None for g, need in zip(grads, needs, strict=True)])
    return results, ([next(rest) for _ in arrays] for arrays in inputs)


def _region(cases: Sequence[Case]) -> tuple[Region, list[Any]]:
    """A region with one step per case, and the values of its scalar arguments."""
    steps: list[PrimitiveStep] = []
    scalars: list[Any] = []
    count = 0
    for case in cases:
        record = case.primitive
        assert record is not None  # groups() leaves structured ops out
        numbers, choices = split_attrs(record.bind_attrs(case.attrs))
        slots = tuple((name, len(scalars) + k) for k, name in enumerate(numbers))
        refs: tuple[Ref, ...] = tuple(("in", count + k) for k in range(len(case.inputs)))
        steps.append(PrimitiveStep(record, refs, choices, slots))
        scalars += numbers.values()
        count += len(case.inputs)
    outputs: tuple[Ref, ...] = tuple(("step", k) for k in range(len(steps)))
    return Region(count, len(scalars), tuple(steps), outputs), scalars
