"""The conformance kit holds a training pattern to what it says, and catches one that lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.faults.mutants import rows_of, run_mutants
from netcl_plugin_kit.testing import Case, normal, run_level, table_of
from netcl_plugin_kit.testing.near_misses import near_misses

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Captured, MatchedOp, Operator, TrainingPattern

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")

FLOATS = ("float16", "float32", "float64")
GRAPH = MatchedOp("tanh", (MatchedOp("mul", ("x", MatchedOp("sub", ("y", 0.5)))),))
OP = MatchedOp


class Brings:
    """A plugin with one pattern, and cases for it."""

    def __init__(self, pattern: TrainingPattern, cases: Sequence[Case] | None) -> None:
        self.pattern, self.cases = pattern, cases

    @nc.hookimpl
    def netcl_register_patterns(self, registry: nc.PatternRegistrar) -> None:
        registry.add(self.pattern)

    @nc.hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return [case for case in self.cases or () if case.op == op]


@pytest.fixture
def failures() -> Any:
    """The checks of a pattern that fail on the NumPy path, with their reasons."""
    names: list[str] = []

    def run(pattern: TrainingPattern, cases: Sequence[Case] | None = None, only: Any = ()) -> Any:
        while names:
            nc.plugins.unregister(names.pop())
        nc.plugins.register(Brings(pattern, cases), "lab")
        names.append("lab")
        found = run_level(table_of("lab"), [nc.get_device("numpy")], only=only).outcomes
        assert {each.check for each in found} >= {"cases"} or only
        return {each.check: each.reason for each in found if each.state == "failed"}

    yield run
    for name in names:
        nc.plugins.unregister(name)


def same_shape(x: nc.Spec, y: nc.Spec, **attrs: Any) -> nc.Spec:
    if x != y or x.dtype not in FLOATS:
        raise nc.errors.ShapeError(f"part: {x} and {y}")
    return x


def part(**fields: Any) -> Operator:
    """tanh(x * (y - 0.5)), or something that is almost it."""

    def backward(saved: Any, grad: Any) -> list[Any]:
        x, y = saved.inputs
        (out,) = saved.outputs
        inner = grad * (1 - out * out)
        return [inner * (y - 0.5), inner * x]

    given = {
        "bind": lambda x, y: ((x, y), {}),
        "infer": same_shape,
        "reference": lambda x, y: np.tanh(x * (y - x.dtype.type(0.5))),
        "backward": backward,
        **fields,
    }
    return Operator("damped_part", **given)


def pattern(
    operator: Operator | None = None, planner: Any = None, **fields: Any
) -> TrainingPattern:
    operator = operator or part()
    given: dict[str, Any] = {"matcher": GRAPH, "dtypes": FLOATS, "parts": (operator,), **fields}
    return TrainingPattern("damped", planner=planner or (lambda x, y: operator(x, y)), **given)


def test_an_honest_pattern_passes(failures: Callable[..., Any]) -> None:
    assert failures(pattern()) == {}


def test_its_parts_have_mutants_and_all_are_caught(failures: Callable[..., Any]) -> None:
    failures(pattern(), only=["cases"])
    table = table_of("lab")
    (row,) = rows_of(table)
    verdicts = list(run_mutants(row, table))
    assert len(verdicts) >= 5 and all(each.caught_by for each in verdicts), verdicts


def wrong_backward(saved: Any, grad: Any) -> list[Any]:
    x, y = saved.inputs
    (out,) = saved.outputs
    inner = grad * (1 - out)
    return [inner * (y - 0.5), inner * x]


@pytest.mark.parametrize(
    ("lying", "checks"),
    [
        (lambda: pattern(part(reference=lambda x, y: np.tanh(x * y))), {"values"}),
        (lambda: pattern(part(backward=wrong_backward)), {"values", "gradient"}),
        (lambda: pattern(planner=lambda x, y: None), {"match"}),
        (lambda: pattern(matcher=OP("tanh", (OP("mul", ("y", "x")),))), {"values"}),
        (lambda: pattern(planner=lambda x, y: x.shape[0] or 3), {"match"}),
        (lambda: pattern(planner=lambda x, y: ag.sum(x)), {"match"}),
    ],
    ids=["value", "gradient", "never", "operands", "raises", "shape"],
)
def test_a_lying_pattern(
    failures: Callable[..., Any], lying: Callable[[], TrainingPattern], checks: set[str]
) -> None:
    assert checks <= failures(lying()).keys()


GELU = OP("gelu", (OP("add", ("x", "y")),))


def gelu_planner(x: Any, y: Any) -> Any:
    return ag.gelu(ag.add(y, x), approximate="tanh")


@pytest.mark.parametrize(
    ("lying", "text"),
    [
        (
            TrainingPattern("damped", GELU, gelu_planner, dtypes=FLOATS),
            "gelu with approximate=",
        ),
        (
            TrainingPattern(
                "damped",
                OP("sum", (OP("mul", ("x", "y")),)),
                lambda x, y: ag.sum(ag.mul(y, x)),
                dtypes=FLOATS,
            ),
            "sum with keepdim=True",
        ),
        (
            TrainingPattern(
                "damped",
                OP("mse_loss", ("x", "y")),
                lambda x, y: ag.mean(ag.square(ag.sub(x, y))),
                dtypes=FLOATS,
            ),
            "mse_loss with reduction='sum'",
        ),
        (
            TrainingPattern(
                "damped",
                OP("tanh", (OP("add", ("x", "y")),)),
                lambda x, y: ag.tanh(ag.add(x, y if y.shape == x.shape else ag.sum(y))),
            ),
            "has an axis more",
        ),
        (
            TrainingPattern(
                "damped",
                lambda value: (
                    dict(zip("xy", value.inputs, strict=True))
                    if value.op in ("add", "sub")
                    else None
                ),
                lambda x, y: ag.add(x, y) if x.dtype != "int32" else ag.add(x, x),
            ),
            "input 0 is whole",
        ),
    ],
    ids=["word", "flag", "composite", "shape", "function"],
)
def test_a_pattern_that_matches_too_much(
    failures: Callable[..., Any], lying: TrainingPattern, text: str
) -> None:
    pytest.importorskip("netcl_plugin_losses")
    call = (lambda x, y: ag.add(x, y)) if not isinstance(lying.matcher, MatchedOp) else None
    case = Case("damped", [normal(), normal()], call=call, shapes=[[(3, 4), (3, 4)]])
    found = failures(lying, [case], ["match", "near misses"])
    assert found.keys() == {"near misses"}, found
    assert text in found["near misses"]


def test_the_same_that_say_what_they_take(failures: Callable[..., Any]) -> None:
    """What is named, or captured and used, is right."""
    named = OP("gelu", (OP("add", ("x", "y")),), (("approximate", "tanh"),))
    assert failures(TrainingPattern("damped", named, gelu_planner, dtypes=FLOATS)) == {}
    used = OP("gelu", (OP("add", ("x", "y")),), (("approximate", Captured("how")),))
    case = Case("damped", [normal()] * 2, attrs={"how": "none"}, shapes=[[(3, 4), (4,)]])
    honest = TrainingPattern(
        "damped", used, lambda x, y, how: ag.gelu(ag.add(y, x), approximate=how), dtypes=FLOATS
    )
    assert failures(honest, [case]) == {}


def test_a_pattern_that_loses_second_derivatives(failures: Callable[..., Any]) -> None:
    """What the ops have, the part has to have: its gradient is an op without one."""
    slope = Operator(
        "damped_slope",
        bind=lambda x, y, out, grad: ((x, y, out, grad), {}),
        infer=lambda x, y, out, grad: (x, x),
        reference=lambda x, y, out, grad: (
            grad * (1 - out * out) * (y - x.dtype.type(0.5)),
            grad * (1 - out * out) * x,
        ),
    )
    lossy = part(backward=lambda saved, grad: list(slope(*saved.inputs, saved.output, grad)))
    found = failures(pattern(lossy))
    assert found.keys() == {"second order"}, found
    assert "GradientError" in found["second order"]


def test_what_needs_a_case(failures: Callable[..., Any]) -> None:
    """Where the function does not follow from the graph its author has to give one."""
    found = failures(pattern(matcher=lambda value: None))
    assert "its matcher is a function; expected cases of the pattern with call=" in found["cases"]
    graph = OP("mul", ("x", Captured("by")))
    found = failures(TrainingPattern("damped", graph, lambda x, by: ag.mul(x, by)))
    assert "nothing says what by is; expected cases of the pattern with attrs=" in found["cases"]


def test_a_name_for_two_things(give: Callable[..., None]) -> None:
    twin = ag.AutogradPrimitive(
        "damped", lambda x, attrs: f"{x[0]} * 2", lambda x, g, attrs, out: [f"{g} * 2"], arity=1
    )
    give("lab", twin, pattern())
    assert "an op and a training pattern have this name" in table_of("lab").problems["damped"]


@pytest.mark.parametrize(("expression", "fine"), [("{0} * {1} + 1", True), ("{0} - {1}", False)])
def test_a_commutative_op_is_tried_both_ways(
    give: Callable[..., None], expression: str, fine: bool
) -> None:
    record = ag.AutogradPrimitive(
        "paired", lambda x, attrs: expression.format(*x), None, arity=2, commutative=True
    )
    give("lab", record)
    (found,) = run_level(table_of("lab"), [nc.get_device("numpy")], only=["commutative"]).outcomes
    assert (found.state == "passed") is fine
    if not fine:
        assert "paired(x, y) beside paired(y, x)" in found.reason


def test_near_misses(failures: Callable[..., Any]) -> None:
    """One thing is changed in each; shared ops stay shared."""
    failures(pattern(), only=["cases"])
    (case,) = table_of("lab").cases
    texts = [each.text for each in near_misses(case, case.main_sample("float32"))]
    assert {
        "sin in the place of tanh", "the operands of mul swapped", "the operands of sub swapped",
        "1.25 in the place of 0.5", "its mul is returned too", "its sub is detached",
        "input 0 is whole", "input 1 is float16", "input 0 is broadcast", "input 1 is one number",
        "inputs 0 and 1 are one tensor",
    } <= set(texts)  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("device", nc.devices(), ids=str)
def test_on_each_device(give: Callable[..., None], device: nc.Device) -> None:
    """Ops with kernels of their own come in the place of the group."""
    if device.simulator:
        pytest.skip("too slow")
    named = OP("gelu", (OP("add", ("x", "y")),), (("approximate", "tanh"),))
    give("lab", TrainingPattern("damped", named, gelu_planner, dtypes=FLOATS))
    outcomes = run_level(
        table_of("lab"), [device], only=["match", "near misses", "values"]
    ).outcomes
    assert {each.state for each in outcomes} <= {"passed", "skipped"}, outcomes
