"""Groups: the function of ops that a training pattern is for, made from what it says it matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netcl_plugin_patterns import Captured, Graph, MatchedOp, TrainingPattern
from netcl_plugin_patterns.rows import OwnRows

from netcl_core.autograd import Operator
from netcl_core.errors import RegistrationError, message
from netcl_core.inspect.choices import functions
from netcl_core.inspect.programs import Jitted
from netcl_core.plugins.protocol import Row, registry

#: `(op, value) -> value` of each op of a group as it is computed.
Change = Callable[[MatchedOp, Any], Any]


def compiled_with(row: Row, function: Callable[..., Any]) -> Jitted:
    """A function compiled with one pattern alone, which complains of nothing."""
    jitted = Jitted(function, False, OwnRows([row]))
    jitted.quiet = True
    return jitted


def written(pattern: TrainingPattern, given: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of ops that a pattern's graph describes, for what else it captures.

    >>> group = ag.MatchedOp("mul", (ag.MatchedOp("add", ("x", "y")), ag.Captured("by")))
    >>> mean = written(ag.TrainingPattern("mean", group, lambda x, y, by: None), {"by": 0.5})
    >>> mean(nc.tensor([1.0]), nc.tensor([4.0])).item()
    2.5

    Raises RegistrationError where only the pattern's author knows the function.
    """
    graph = pattern.graph
    if graph is None:
        raise _unknown(pattern.name, "its matcher is a function")
    lost = [name for name in graph.names if name not in {*graph.tensors, *given}]
    if lost:
        raise _unknown(pattern.name, f"nothing says what {' and '.join(lost)} is", "attrs=")
    return function_of(graph, given)


def _unknown(name: str, given: str, field: str = "call=") -> RegistrationError:
    expected = f"cases of the pattern with {field}"
    remedy = "Return them from the hook netcl_conformance_cases"
    return RegistrationError(message(f"pattern {name!r}", given, expected, remedy))


def function_of(
    graph: Graph,
    given: Mapping[str, Any],
    change: Change = lambda op, value: value,
    *,
    once: bool = True,
    names: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A graph as a function of its tensors; it gives a tuple where there are several results.

    Args:
        graph: The graph.
        given: The numbers and attributes that it captures, by name.
        change: May put something else in the place of an op's value.
        once: Whether an op in two places is computed once.
        names: Those of the tensors, where the graph has not all of them.
    """
    order = graph.tensors if names is None else list(names)

    def function(*tensors: Any) -> Any:
        known = {**given, **dict(zip(order, tensors, strict=True))}
        values: dict[int, Any] = {}

        def value(x: Any) -> Any:
            if isinstance(x, MatchedOp):
                if not once or id(x) not in values:
                    values[id(x)] = change(
                        x, _called(x, [value(operand) for operand in x.inputs], known)
                    )
                return values[id(x)]
            if isinstance(x, Captured):
                return known[x.name]
            return known[x] if isinstance(x, str) else x

        results = tuple([value(result) for result in graph.results])
        return results if len(results) > 1 else results[0]

    return function


def _called(op: MatchedOp, operands: Sequence[Any], known: Mapping[str, Any]) -> Any:
    """One op with its operands and attributes, as a user would call it."""
    attrs = {
        name: known[value.name] if isinstance(value, Captured) else value
        for name, value in op.attrs
    }
    row = registry.find_op(op.op)
    record = None if row is None else row.record
    if isinstance(record, Operator) and record.operands:
        result = functions[op.op](**dict(zip(record.operands, operands, strict=False)), **attrs)
    else:
        result = functions[op.op](*operands, **attrs)
    return result[op.result] if isinstance(result, tuple) else result
