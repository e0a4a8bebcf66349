"""Near misses: what is almost a pattern's group has to give what it gives without the pattern.

Each is the group with one thing changed: an op, an operand, a number, an attribute that the
pattern says nothing of, who else reads a value, or what it is given.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np
from netcl_plugin_patterns import Captured, Graph, MatchedOp

from netcl_core.autograd import AutogradPrimitive, Operator
from netcl_core.inspect.data import Array
from netcl_core.inspect.expressions import REQUIRED
from netcl_core.plugins.protocol import registry
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.groups import function_of
from netcl_plugin_kit.testing.samples import is_floating

Function: TypeAlias = Callable[..., Any]
#: In the place of an op stands another one that takes as many operands.
_OTHERS: Final = (("add", "sub", "mul", "div", "maximum"), ("tanh", "sin", "exp", "relu", "square"),
                  ("sum", "mean", "amax"))  # fmt: skip
#: Words for an attribute whose default is a word.
_WORDS: Final = ("mean", "sum", "none", "tanh")


@final
@dataclasses.dataclass(frozen=True, slots=True)
class NearMiss:
    """A function that is almost a pattern's, and what it is given."""

    text: str
    function: Function
    arrays: Sequence[Array]


def near_misses(case: Case, arrays: Sequence[Array]) -> Iterator[NearMiss]:
    """All near misses of a pattern's case that can be thought of."""
    row = case.pattern
    assert row is not None  # asked of nothing else
    graph = row.record.graph
    if graph is not None and case.call is None:
        for text, function in _changed(graph, case.attrs):
            yield NearMiss(text, function, arrays)
    for text, given in _other_data(arrays):
        yield NearMiss(text, case.written, given)
    for i, k in itertools.combinations(range(len(arrays)), 2):
        if arrays[i].shape == arrays[k].shape and arrays[i].dtype == arrays[k].dtype:
            twice = _tied(case.written, i, k)
            yield NearMiss(f"inputs {i} and {k} are one tensor", twice, arrays)


def _tied(function: Function, first: int, second: int) -> Function:
    """A function with one tensor in two places."""
    return lambda *x: function(*[x[first] if i == second else item for i, item in enumerate(x)])


# -- the graph ---------------------------------------------------------------------------


def _changed(graph: Graph, given: Mapping[str, Any]) -> Iterator[tuple[str, Function]]:
    """The group with one thing of its graph changed."""
    for op in graph.ops:
        for text, other in (*_other_ops(op), *_other_operands(op), *_other_attributes(op, given)):
            changed = edited(graph, op, other)
            yield text, function_of(changed, given, names=graph.tensors)
        inner = not any(op is result for result in graph.results)
        if inner:
            yield f"its {op.op} is returned too", _returning(graph, given, op)
        if inner or len(graph.results) > 1:
            cut = _detaching(op)
            yield f"its {op.op} is detached", function_of(graph, given, cut)
    if len(graph.results) > 1:
        yield from _fewer(graph, given)
    if any(uses > 1 for uses in _uses(graph).values()):
        yield "a shared op is computed twice", function_of(graph, given, once=False)
    for name, value in given.items():
        if (other := _other_value(value)) is not None:
            yield f"{name} is {other!r}", function_of(graph, {**given, name: other})


def _fewer(graph: Graph, given: Mapping[str, Any]) -> Iterator[tuple[str, Function]]:
    """Results that are not returned, and others that are read before the last is computed."""
    for i, op in enumerate(graph.results):
        kept = Graph(tuple([result for result in graph.results if result is not op]))
        text = f"its result {i}, {op.op}, is not returned"
        yield text, function_of(kept, given, names=graph.tensors)
    yield "its results are computed the other way round", _reversed(graph, given)


def _reversed(graph: Graph, given: Mapping[str, Any]) -> Function:
    turned = function_of(Graph(graph.results[::-1]), given, names=graph.tensors)
    return lambda *tensors: turned(*tensors)[::-1]


def edited(graph: Graph, op: MatchedOp, other: MatchedOp) -> Graph:
    """A graph with another op in the place of one; what is shared stays shared."""
    copies: dict[int, MatchedOp] = {id(op): other}

    def copy(each: MatchedOp) -> MatchedOp:
        if id(each) not in copies:
            inputs = tuple([copy(x) if isinstance(x, MatchedOp) else x for x in each.inputs])
            copies[id(each)] = dataclasses.replace(each, inputs=inputs)
        return copies[id(each)]

    return Graph(tuple([copy(result) for result in graph.results]))


def _other_ops(op: MatchedOp) -> Iterator[tuple[str, MatchedOp]]:
    for family in _OTHERS:
        for name in family:
            if op.op in family and name != op.op and registry.op_rows(name):
                yield f"{name} in the place of {op.op}", dataclasses.replace(op, op=name)
                break


def _other_operands(op: MatchedOp) -> Iterator[tuple[str, MatchedOp]]:
    if len(op.inputs) == 2:
        swapped = dataclasses.replace(op, inputs=op.inputs[::-1])
        yield f"the operands of {op.op} swapped", swapped
    for i, x in enumerate(op.inputs):
        if isinstance(x, (int, float)):
            inputs = (*op.inputs[:i], _other_value(x), *op.inputs[i + 1 :])
            yield f"{inputs[i]} in the place of {x}", dataclasses.replace(op, inputs=inputs)


def _other_attributes(op: MatchedOp, given: Mapping[str, Any]) -> Iterator[tuple[str, MatchedOp]]:
    """Another value for each attribute, those too that the pattern leaves open."""
    fixed = dict(op.attrs)
    for name, default, words in _attributes(op.op):
        now = fixed.get(name, default)
        if isinstance(now, Captured):
            continue
        others = words if isinstance(now, str) else (_other_value(now),)
        for other in others:
            if other is not None and other != now:
                attrs = tuple({**fixed, name: other}.items())
                yield f"{op.op} with {name}={other!r}", dataclasses.replace(op, attrs=attrs)


def _attributes(op: str) -> Iterator[tuple[str, Any, Sequence[Any]]]:
    """Each attribute of an op with its default and, for a word, what else it may be."""
    row = registry.find_op(op)
    record = None if row is None else row.record
    if isinstance(record, AutogradPrimitive):
        table: Mapping[str, Any] = record.attrs  # type: ignore[assignment]  # a mapping since init
        for name, default in table.items():
            if default is not REQUIRED:
                yield name, default, record.choices.get(name, ())
    elif isinstance(record, Operator):
        for name, parameter in record.signature.parameters.items():
            default = parameter.default
            if name not in record.operands and default is not inspect.Parameter.empty:
                yield name, default, _WORDS


def _other_value(value: Any) -> Any:
    """Another value of the same type; None if none is known."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value * 2 + 0.25 if isinstance(value, float) else None


def _returning(graph: Graph, given: Mapping[str, Any], op: MatchedOp) -> Function:
    def function(*tensors: Any) -> Any:
        kept: list[Any] = []

        def keep(each: MatchedOp, value: Any) -> Any:
            if each is op:
                kept.append(value)
            return value

        results = function_of(graph, given, keep)(*tensors)
        return (*results, kept[0]) if isinstance(results, tuple) else (results, kept[0])

    return function


def _detaching(op: MatchedOp) -> Callable[[MatchedOp, Any], Any]:
    return lambda each, value: value.detach() if each is op else value


def _uses(graph: Graph) -> dict[int, int]:
    """By identity of an op how many ops, or the function, use its value."""
    counts = {id(op): 1 for op in graph.results}
    for op in graph.ops:
        for x in op.inputs:
            if isinstance(x, MatchedOp):
                counts[id(x)] = counts.get(id(x), 0) + 1
    return counts


# -- the data ----------------------------------------------------------------------------


def _other_data(arrays: Sequence[Array]) -> Iterator[tuple[str, list[Array]]]:
    """The same function for other shapes and dtypes."""
    for i, array in enumerate(arrays):

        def put(other: Array, place: int = i) -> list[Array]:
            return [other if k == place else x for k, x in enumerate(arrays)]

        if not is_floating(array):
            continue
        yield f"input {i} is whole", put(np.rint(array).astype(np.int32))
        other = "float16" if array.dtype == np.float32 else "float32"
        yield f"input {i} is {other}", put(array.astype(other))
        yield f"input {i} has an axis more", put(np.stack([array, array]))
        for axis, size in enumerate(array.shape):
            if size > 1:
                yield f"input {i} is broadcast", put(array.take([0], axis))
        if array.size > 1:
            yield f"input {i} is one number", put(array.reshape(-1)[0].reshape(()))
            yield f"input {i} is one number", put(array.reshape(-1)[:1])
