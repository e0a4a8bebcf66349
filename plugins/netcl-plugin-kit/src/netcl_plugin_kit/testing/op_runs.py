"""Runs an op and its gradients: on inputs of some shapes, or as in each of its cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Spec, Tensor
from netcl_core.autograd import Operator
from netcl_core.errors import ArgumentError, message
from netcl_core.inspect.choices import missing
from netcl_core.plugins.protocol import registry
from netcl_plugin_kit.shapes import specs
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import table_of

_SEED: Final = 0


def tunable_ops() -> list[str]:
    """The public ops that have an implementation with a space, or a part that has one."""
    registry.load()
    names: set[str] = set()
    for name in registry.op_names():
        rows = registry.op_rows(name)
        records = [row.record for row in rows if isinstance(row.record, Operator)]
        if any(has_space(record) for record in records):
            names.add(name)
    return sorted(names)


def has_space(record: Operator) -> bool:
    """Whether an implementation of an op has settings, or one of a part of it."""
    ways = [offer.item for offer in record.offers() if offer.item is not None]
    parts = [*record.parts, *(part for way in ways for part in way.parts)]
    own = any(way.space is not None for way in ways)
    return own or any(has_space(part) for part in parts if isinstance(part, Operator))


def run_op(who: str, op: str, shapes: str | None, dtype: str, attrs: Mapping[str, Any]) -> None:
    """Run an op and its gradients on inputs of some shapes, or as in each of its cases.

    `who` is the command, for errors.
    """
    if registry.find_op(op) is None:
        raise missing(op)
    if shapes is not None:
        given = [_random(spec) for spec in specs(who, shapes, dtype)]
        with_gradients(lambda: getattr(ag, op)(*given, **attrs))
        return
    cases = [each for each in _cases_of(op) if dtype in each.takes]
    if not cases:
        raise ArgumentError(message(who, f"{op} has no case in {dtype}", "--shapes"))
    for case in cases:
        for variant in case.variants:
            _run_case(case, case.sample(variant, dtype))


def _cases_of(op: str) -> list[Case]:
    providers = {row.provider for row in registry.op_rows(op)}
    return [case for provider in sorted(providers) for case in table_of(provider).cases_of(op)]


def _run_case(case: Case, arrays: Sequence[Any]) -> None:
    if all(array.size for array in arrays):
        needs = case.needs(arrays)
        given = [Tensor.from_host(x) for x in arrays]
        for tensor, need in zip(given, needs, strict=True):
            tensor.requires_grad_(need)
        with_gradients(lambda: case.run(*given))


def _random(spec: Spec) -> Tensor:
    """An input: normal numbers with a gradient, or zeros, which are an index of anything."""
    dtype = DTYPES[spec.dtype]
    if not dtype.floating:
        return Tensor.zeros(spec.shape, spec.dtype)
    values = np.random.default_rng(_SEED).standard_normal(spec.shape, np.float32)
    return Tensor.from_host(values.astype(dtype.numpy)).requires_grad_()


def with_gradients(call: Callable[[], Any]) -> None:
    """Call something, and compute the gradients of all that it returns."""
    for result in _results(call()):
        if isinstance(result, Tensor) and result.requires_grad and DTYPES[result.dtype].floating:
            result.backward(ag.full_like(result, 1), retain_graph=True)


def _results(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if not isinstance(value, (tuple, list)):
        yield value
        return
    for item in value:
        yield from _results(item)
