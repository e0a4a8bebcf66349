"""The conformance kit on patterns with several results: one that lies about any is caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.faults.mutants import rows_of, run_mutants
from netcl_plugin_kit.testing import Case, check_values, normal, run_level, table_of
from netcl_plugin_kit.testing.near_misses import near_misses

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Captured, MatchedOp, Operator, TrainingPattern

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")

FLOATS = ("float16", "float32", "float64")
OP = MatchedOp
MEAN = OP("add", (OP("mul", ("m", 0.5)), "g"))
STEP = OP("sub", ("p", OP("tanh", (MEAN,))))


class Brings:
    """A plugin with one pattern, and cases for it."""

    def __init__(self, pattern: TrainingPattern, cases: Sequence[Case]) -> None:
        self.pattern, self.cases = pattern, cases

    @nc.hookimpl
    def netcl_register_patterns(self, registry: nc.PatternRegistrar) -> None:
        registry.add(self.pattern)

    @nc.hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return [case for case in self.cases if case.op == op]


@pytest.fixture
def failures() -> Any:
    """The checks of a pattern that fail on the NumPy path: their outcomes by check."""

    def run(pattern: TrainingPattern, cases: Sequence[Case] = (), only: Any = ()) -> Any:
        nc.plugins.register(Brings(pattern, cases), "lab")
        found = run_level(table_of("lab"), [nc.get_device("numpy")], only=only).outcomes
        return {each.check: each for each in found if each.state == "failed"}

    yield run
    nc.plugins.unregister("lab")


def alike(p: nc.Spec, g: nc.Spec, m: nc.Spec) -> tuple[nc.Spec, nc.Spec]:
    if not p == g == m or p.dtype not in FLOATS:
        raise nc.errors.ShapeError(f"part: {p}, {g} and {m}")
    return p, p


def reference(p: Any, g: Any, m: Any) -> Any:
    mean = m * p.dtype.type(0.5) + g
    return p - np.tanh(mean), mean


def backward(saved: Any, stepped: Any, mean: Any) -> list[Any]:
    tanh = ag.tanh(saved.outputs[1])
    into = 0 if stepped is None else ag.mul(stepped, ag.sub(ag.mul(tanh, tanh), 1))
    if mean is not None:
        into = mean if stepped is None else ag.add(into, mean)
    return [stepped, into, ag.mul(into, 0.5)]


def forgetful(saved: Any, stepped: Any, mean: Any) -> list[Any]:
    """The gradients without what comes through the second result."""
    return backward(saved, stepped if stepped is not None else ag.mul(mean, 0), None)


def part(**fields: Any) -> Operator:
    """The step with its mean, or something that is almost it."""
    given = {"infer": alike, "reference": reference, "backward": backward, **fields}
    return Operator("step_part", bind=lambda p, g, m: ((p, g, m), {}), **given)


def pattern(operator: Operator | None = None, planner: Any = None) -> TrainingPattern:
    operator = operator or part()
    given = planner or (lambda p, g, m: operator(p, g, m))
    return TrainingPattern("stepped", (STEP, MEAN), given, dtypes=FLOATS, parts=(operator,))


def test_an_honest_pattern_passes(failures: Callable[..., Any]) -> None:
    assert failures(pattern()) == {}


def test_its_parts_have_mutants_and_all_are_caught(failures: Callable[..., Any]) -> None:
    failures(pattern(), only=["cases"])
    table = table_of("lab")
    (row,) = rows_of(table)
    verdicts = list(run_mutants(row, table))
    assert len(verdicts) >= 5 and all(each.caught_by for each in verdicts), verdicts


def test_a_wrong_second_result(failures: Callable[..., Any]) -> None:
    """What is wrong is said by its number, with what to do about it."""

    def lying(p: Any, g: Any, m: Any) -> Any:
        stepped, mean = reference(p, g, m)
        return stepped, mean * p.dtype.type(1.01)

    found = failures(pattern(part(reference=lying)))
    assert {"values", "near misses"} <= found.keys()
    assert ": output 1: " in found["values"].reason
    assert found["values"].remedy.startswith("`netcl kernels show stepped --device numpy")


def test_swapped_results(failures: Callable[..., Any]) -> None:
    operator = part()
    found = failures(pattern(operator, lambda p, g, m: operator(p, g, m)[::-1]))
    assert ": output 0: " in found["values"].reason


@pytest.mark.parametrize(
    ("lying", "checks"),
    [
        (lambda: pattern(part(backward=forgetful)), {"values", "gradient"}),
        (lambda: pattern(planner=lambda p, g, m: ag.sub(p, g)), {"match"}),
        (lambda: pattern(planner=lambda p, g, m: (p, ag.sum(m))), {"match"}),
        (lambda: pattern(planner=lambda p, g, m: None), {"match"}),
    ],
    ids=["gradient", "one", "shape", "never"],
)
def test_a_lying_pattern(
    failures: Callable[..., Any], lying: Callable[[], TrainingPattern], checks: set[str]
) -> None:
    assert checks <= failures(lying()).keys()


def test_a_gradient_that_only_one_result_has(failures: Callable[..., Any]) -> None:
    """The kit asks for the gradients of some of the results as well."""

    def careless(saved: Any, stepped: Any, mean: Any) -> list[Any]:
        return backward(saved, stepped, ag.mul(stepped, 2) if mean is None else mean)

    found = failures(pattern(part(backward=careless)))
    assert found.keys() == {"near misses"}, found
    assert "is not returned" in found["near misses"].reason


def test_a_pattern_that_matches_too_much(failures: Callable[..., Any]) -> None:
    graph = (OP("exp", ("x",)), OP("mul", ("x", Captured("by"))))
    lying = TrainingPattern(
        "stepped", graph, lambda x, by: (ag.exp(x), ag.mul(x, 2.0)), dtypes=FLOATS
    )
    case = Case("stepped", [normal()], attrs={"by": 2.0}, shapes=[[(3, 4)]])
    found = failures(lying, [case])
    assert found.keys() == {"near misses"}, found
    assert "by is 4.25" in found["near misses"].reason
    assert "compute with it" in found["near misses"].remedy


def test_near_misses(failures: Callable[..., Any]) -> None:
    failures(pattern(), only=["cases"])
    (case,) = table_of("lab").cases
    texts = {each.text for each in near_misses(case, case.main_sample("float32"))}
    assert {
        "its tanh is returned too", "its mul is detached", "its add is detached",
        "its result 0, sub, is not returned", "its result 1, add, is not returned",
        "its results are computed the other way round", "a shared op is computed twice",
    } <= texts  # fmt: skip
    assert not any(text in texts for text in ("its add is returned too", "its sub is returned too"))


@pytest.mark.parametrize("device", nc.devices(), ids=str)
def test_on_each_device(give: Callable[..., None], device: nc.Device) -> None:
    if device.simulator:
        pytest.skip("too slow")

    def planner(p: Any, g: Any, m: Any) -> Any:
        mean = ag.add(g, ag.mul(0.5, m))
        return ag.sub(p, ag.tanh(mean)), mean

    give("lab", TrainingPattern("stepped", (STEP, MEAN), planner, dtypes=FLOATS))
    only = ["match", "near misses", "values", "gradient", "non-finite", "pruning", "threads"]
    outcomes = run_level(table_of("lab"), [device], only=only).outcomes
    assert {each.state for each in outcomes} == {"passed"}, outcomes


def test_an_op_with_several_results_may_have_a_case_of_all() -> None:
    """What PyTorch gives in a tuple is compared one by one, whole numbers exactly."""
    pytest.importorskip("torch")
    case = Case("max", [normal()], lambda t, x: tuple(t.max(x, 1)), {"dim": 1}, shapes=[[(5, 7)]])
    for dtype in FLOATS:
        check_values(case, [(5, 7)], nc.get_device("numpy"), dtype)
    wrong = Case("max", [normal()], lambda t, x: tuple(t.min(x, 1)), {"dim": 1}, shapes=[[(5, 7)]])
    with pytest.raises(AssertionError, match=r": output 0: "):
        check_values(wrong, [(5, 7)], nc.get_device("numpy"), "float32")
    alone = Case("max", [normal()], lambda t, x: t.amax(x, 1), {"dim": 1}, shapes=[[(5, 7)]])
    with pytest.raises(AssertionError, match="2 results; expected 1"):
        check_values(alone, [(5, 7)], nc.get_device("numpy"), "float32")
