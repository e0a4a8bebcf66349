"""Derivatives of expressions, and the check of every primitive's backward against them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import generate
import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from netcl_plugin_fusion import derivative as rules
from netcl_plugin_fusion.derivative import derivative
from netcl_plugin_kit.faults.expression_faults import expression_faults
from netcl_plugin_kit.testing.agreement import compiled
from netcl_plugin_kit.testing.collection import all_cases
from netcl_plugin_kit.testing.verification import check_gradient

import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive
from netcl_core.codegen.expressions import (
    FUNCTIONS,
    PREDICATES,
    Apply,
    Expr,
    Name,
    Number,
    parse,
    to_c,
)
from netcl_core.errors import PrimitiveError
from netcl_core.plugins.registry import registry

NAMES = ("x", "y", "z")
STEP = 1e-5
few = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
numbers = st.floats(-3, 3).map(lambda value: round(value, 3))
#: No ties and no zeros, whatever is drawn.
points = st.tuples(
    numbers.map(lambda x: x + 2e-4),
    numbers.map(lambda x: x + 3.1e-4),
    numbers.map(lambda x: x - 4.3e-4),
)


def value(tree: Expr, at: Sequence[float]) -> float:
    with np.errstate(all="ignore"):
        (found,) = compiled(Number(0), [tree], NAMES)(*map(np.asarray, at))
    return float(found)


def slope(tree: Expr, at: Sequence[float], place: int, step: float) -> float:
    """A central difference."""
    sides = [[x + s * step * (i == place) for i, x in enumerate(at)] for s in (1, -1)]
    return (value(tree, sides[0]) - value(tree, sides[1])) / (2 * step)


def assert_derivative(
    tree: Expr, at: Sequence[float], place: int, *, chained: bool = False
) -> None:
    """The symbolic derivative is the slope, where two steps agree on what the slope is."""
    coarse, fine = (slope(tree, at, place, step) for step in (STEP, STEP / 4))
    assume(np.isfinite(coarse) and abs(coarse) < 1e4)
    assume(abs(coarse - fine) <= 1e-6 * (1 + abs(fine)))
    found = value(derivative(tree, NAMES[place]), at)
    assume(np.isfinite(found) or not chained)  # such as 0 / 0 at sqrt(x - x)
    assert abs(found - fine) <= 1e-5 * (1 + abs(fine)), (to_c(tree), at, found, fine)


# -- rules -----------------------------------------------------------------------------


def test_every_function_has_a_rule() -> None:
    assert FUNCTIONS.keys() - PREDICATES == {op for op in rules._RULES if op.isalnum()} - {"neg"}
    for op, texts in rules._RULES.items():
        assert len(texts) == FUNCTIONS.get(op, 1 if op == "neg" else 2)


@pytest.mark.sample(8)
@pytest.mark.parametrize("op", [*(op for op in rules._RULES), "?:"])
@few
@given(at=points, data=st.data())
def test_rules_are_slopes(op: str, at: tuple[float, ...], data: st.DataObject) -> None:
    if op == "?:":
        tree: Expr = parse("x < 0.5 ? x * y : x + z", NAMES, "test")
    else:
        tree = Apply(op, tuple(map(Name, NAMES[: len(rules._RULES[op])])))
    place = data.draw(st.integers(0, len(getattr(tree, "args", ())) - 1))
    assert_derivative(tree, at, place)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x * x", "x + x"),
        ("3 * x + y", "3"),
        ("y", "0"),
        ("x > 0 ? x : 0", "x > 0 ? 1 : 0"),
        ("floor(x) + (x > y) + isnan(x)", "0"),
        ("-x", "-1"),
        ("exp(x * y)", "exp(x * y) * y"),
        ("RELU(x) - y", "x < 0 ? 0 : 1"),
    ],
)
def test_derivatives_are_short(text: str, expected: str) -> None:
    assert to_c(derivative(parse(text, NAMES, "test"), "x")) == expected


def test_a_shared_subtree_is_differentiated_once() -> None:
    tree = parse("x", NAMES, "test")
    for _ in range(200):
        tree = Apply("*", (tree, tree))
    found = derivative(tree, "x")
    assert isinstance(found, Apply) and found.op == "+"


def _trees() -> st.SearchStrategy[Expr]:
    smooth = ["exp", "sin", "tanh", "atan", "erf", "fabs", "log1p", "sqrt", "neg"]
    leaves: Any = st.sampled_from([Name(name) for name in NAMES]) | numbers.map(Number)

    def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        condition = st.tuples(st.sampled_from(["<", ">=", "!="]), inner, inner)
        return (
            st.tuples(st.sampled_from(smooth), inner).map(lambda t: Apply(t[0], t[1:]))
            | st.tuples(st.sampled_from("+-*/"), inner, inner).map(lambda t: Apply(t[0], t[1:]))
            | st.tuples(condition, inner, inner).map(
                lambda t: Apply("?:", (Apply(t[0][0], t[0][1:]), *t[1:]))
            )
        )

    return st.recursive(leaves, grown, max_leaves=12)


@settings(few, max_examples=examples(300))
@given(tree=_trees(), at=points, place=st.integers(0, 2))
def test_chains_of_rules_are_slopes(tree: Expr, at: tuple[float, ...], place: int) -> None:
    assert_derivative(tree, at, place, chained=True)


@settings(few, max_examples=examples(300))
@given(tree=_trees(), at=points)
def test_a_printed_expression_is_read_back(tree: Expr, at: tuple[float, ...]) -> None:
    again = parse(to_c(tree), NAMES, "test")
    assert parse(to_c(again), NAMES, "test") == again  # reading folds the sign of a number
    np.testing.assert_equal(value(again, at), value(tree, at))


# -- the check -------------------------------------------------------------------------


def primitive(
    forward: str, *backward: str | None, arity: int | None = None, **options: Any
) -> AutogradPrimitive:
    """A primitive of the inputs x0, x1, ... by its expressions."""
    return AutogradPrimitive(
        "checked",
        lambda args, attrs: forward.format(**attrs),
        lambda args, grad, attrs, out: [
            None if each is None else each.format(**attrs) for each in backward
        ],
        arity or len(backward),
        **options,
    )


@pytest.mark.parametrize(
    "record",
    [
        primitive("MUL(x0, x1)", "MUL(grad, x1)", "MUL(grad, x0)"),
        primitive("x0 + x1 < 0 ? 0 : x0 + x1", "out > 0 ? grad : 0", "out > 0 ? grad : 0"),
        primitive("fmax(x0, x1)", "x0 >= x1 ? grad : 0", "x0 >= x1 ? 0 : grad"),
        primitive("tanh(x0)", "grad * (1 - out * out)"),
        primitive("erf(x0)", "1.1283792f * grad * exp(-x0 * x0)"),  # digits of a float32
        primitive("x0 > 0 ? log(x0) : x0", "x0 > 0 ? grad / x0 : grad"),
        primitive("asin(x0)", "grad / sqrt(1 - x0 * x0)"),
        primitive("fmod(x0, x1)", "grad", "-grad * trunc(x0 / x1)"),
        primitive("exp(-x0 * x0)", "-2 * x0 * grad * out"),
        primitive("x0 != 0 ? x1 : x2", None, "x0 != 0 ? grad : 0", "x0 != 0 ? 0 : grad"),
        primitive("x0 > 1 ? 1 : x0", None),
        primitive("x0 * {a}", "grad * {a}", attrs={"a": 0}),
        primitive("x0 * {a}", "grad * {a}", attrs=("a",)),
        primitive("x0 * {a}", "grad * {a}", attrs={"a": True}),
        primitive("x0 > 0", "0"),
    ],
    ids=lambda record: record.forward([], dict.fromkeys(record.attrs, "a")),
)
def test_a_right_backward_passes(record: AutogradPrimitive) -> None:
    assert check_gradient(record) == []


@pytest.mark.parametrize(
    ("record", "inputs"),
    [
        (primitive("x0 * x1", "grad * x0", "grad * x1"), ["x0", "x1"]),
        (primitive("x0 * x1", "grad * x1", "grad * x0 * 1.0001"), ["x1"]),
        (primitive("x0 * x0", "2 * x0"), ["x0"]),
        (primitive("floor(x0)", "grad"), ["x0"]),
        (primitive("sqrt(x0)", "grad / (2 * sqrt(x0 - 1))"), ["x0"]),  # NaN below 1
        (primitive("x0 != 0 ? x1 : x2", None, "grad", "x0 != 0 ? 0 : grad"), ["x1"]),
        (primitive("x0 * {a}", "grad", attrs={"a": 1}), ["x0"]),
        (primitive("x0 < -0.02 ? 0 : (x0 > 0.02 ? 1 : x0)", "grad * (fabs(x0) < 0.021)"), ["x0"]),
        (primitive("exp(x0) > 1e-3 ? 0 : x0", "x0 < -6 ? grad : 0"), ["x0"]),
    ],
    ids=lambda each: each.forward([], dict.fromkeys(each.attrs, "a")) if callable(each) else "",
)
def test_a_wrong_backward_is_found(record: AutogradPrimitive, inputs: list[str]) -> None:
    findings = check_gradient(record)
    assert [each.input for each in findings] == inputs
    for each in findings:
        assert each.point is not None and each.point.keys() >= {"x0", "grad"}
        assert each.given != pytest.approx(each.expected, rel=1e-5)


def test_the_report_shows_the_worst_point_and_both_expressions() -> None:
    (finding,) = check_gradient(primitive("x0 * x1", "MUL(grad, x1)", "-MUL(grad, x0)"))
    point = finding.point
    assert point is not None
    assert finding.given == -point["grad"] * point["x0"] == -finding.expected
    lines = str(finding).splitlines()
    assert lines[0].startswith("checked: the gradient of input 1 (x1) differs from the derivative")
    assert lines[1:4] == [
        "    forward     x0 * x1",
        "    backward    -MUL(grad, x0)",
        "    derivative  grad * x0",
    ]
    assert f"x1 = {point['x1']:.6g}, grad = {point['grad']:.6g}: backward gives" in lines[4]


def test_every_word_is_checked() -> None:
    choices = {"mode": ["square", "cube"]}

    def backward(args: Any, grad: str, attrs: Any, out: str) -> list[str]:
        return [f"{grad} * 2 * {args[0]}"]

    def forward(args: Any, attrs: Any) -> str:
        return " * ".join(args * (2 if attrs["mode"] == "square" else 3))

    record = AutogradPrimitive(
        "worded", forward, backward, 1, attrs={"mode": "square"}, choices=choices
    )
    (finding,) = check_gradient(record)
    assert "input 0 (x0, mode='cube')" in finding.problem


def test_any_number_of_inputs_is_checked_with_one_to_three() -> None:
    def total(args: Sequence[str], attrs: Any) -> str:
        return " + ".join(args)

    def last_forgotten(args: Sequence[str], grad: str, attrs: Any, out: str) -> list[str]:
        return [grad, grad, "0"][: len(args)]

    def pairs(args: Sequence[str], grad: str, attrs: Any, out: str) -> list[str]:
        return {2: [grad, grad]}[len(args)]

    (finding,) = check_gradient(AutogradPrimitive("total", total, last_forgotten))
    assert finding.input == "x2"
    assert check_gradient(AutogradPrimitive("total", total, pairs)) == []
    none = check_gradient(AutogradPrimitive("total", total, lambda *_: []))
    assert [str(each) for each in none] == [
        "total: it takes neither 1, 2 nor 3 inputs; not checked"
    ]


def test_what_cannot_be_compared_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = check_gradient(primitive("log(x0 - 1e6)", "grad / (x0 - 2)"))
    assert finding.point is not None  # points are drawn around the literals too
    (finding,) = check_gradient(primitive("log(-fabs(x0))", "grad"))
    assert "cannot be checked: only 0 of 10000 points have finite values" in str(finding)
    monkeypatch.delitem(rules._RULES, "cbrt")
    rules._rule.cache_clear()
    (finding,) = check_gradient(primitive("cbrt(x0)", "grad / (3 * out * out)"))
    assert "cannot be checked: derivative: 'cbrt' has no rule; expected one of +, -," in str(
        finding
    )
    assert check_gradient(primitive("x1 + 0 * floor(x0)", None, "grad")) == []


def test_a_deep_expression_is_a_finding() -> None:
    tree: Expr = Name("x0")
    for _ in range(3000):
        tree = Apply("sin", (tree,))
    record = primitive("x0", "grad")
    record._parsed[1, ()] = replace(record.parsed(1, ()), forward=tree)
    (finding,) = check_gradient(record)
    assert "cannot be checked: an expression is nested too deeply" in str(finding)


# -- register_primitive(verify=True) ---------------------------------------------------


@pytest.fixture
def user() -> Iterator[None]:
    yield
    registry.remove_provider("user")


def mul(args: list[str], attrs: Any) -> str:
    return f"MUL({args[0]}, {args[1]})"


def mul_backward(args: list[str], grad: str, attrs: Any, out: str) -> list[str]:
    return [f"MUL({grad}, {args[1]})", f"MUL({grad}, {args[0]})"]


def test_verify_accepts_the_documented_example(user: None) -> None:
    ag.register_primitive("checked_mul", mul, mul_backward, arity=2, verify=True)
    assert ag.checked_mul(2.0, 3.0).item() == 6


@pytest.mark.parametrize("arity", [2, None])
def test_verify_refuses_and_registers_nothing(user: None, arity: int | None) -> None:
    def swapped(*args: Any) -> list[str]:
        return mul_backward(*args)[::-1]

    version = registry.version
    with pytest.raises(PrimitiveError) as caught:
        ag.register_primitive("checked_mul", mul, swapped, arity, verify=True)
    text = str(caught.value)
    assert text.startswith("checked_mul: the gradient of input 0 (x0) differs from the derivative")
    assert "    backward    MUL(grad, x0)\n    derivative  grad * x1\n" in text
    assert "not registered. Correct the expression" in text
    assert registry.version == version and registry.find_op("checked_mul") is None
    ag.register_primitive("checked_mul", mul, swapped, arity)
    assert registry.find_op("checked_mul") is not None


# -- the primitives of this repository -------------------------------------------------


def first_party() -> list[AutogradPrimitive]:
    registry.load()
    ours = generate.first_party()
    rows = [row for kind in ("primitive", "part") for row in registry.rows(kind)]
    records = [row.record for row in rows if row.provider in ours]
    primitives = [each for each in records if isinstance(each, AutogradPrimitive)]
    made = [each for each in primitives if each.backward is not None]
    return sorted(made, key=lambda each: each.name)  # they are in the order in which plugins loaded


def test_every_first_party_backward_is_the_derivative() -> None:
    meant = {case.op for case in all_cases() if "derivative" in case.skip}
    checked = [record for record in first_party() if record.name not in meant]
    assert len(checked) > 125 and len(meant) < 10
    findings = [finding for record in checked for finding in check_gradient(record)]
    assert not findings, "\n".join(map(str, findings))


def test_seeded_faults_are_found() -> None:
    """Nearly all faults of a gradient are found without running the op; the rest is at ties."""
    faults = [
        fault
        for record in first_party()
        for fault in expression_faults(record)
        if fault.text.startswith("gradient of ")
    ][::31]

    def is_found(record: AutogradPrimitive) -> bool:
        try:
            return bool(check_gradient(record))
        except PrimitiveError:  # such as a gradient that is a truth value
            return True

    missed = [fault for fault in faults if not is_found(fault.record)]
    report = "\n".join(f"{each.op}: {each.kind}: {each.text}" for each in missed)
    assert len(faults) > 30 and len(missed) <= 0.05 * len(faults), report
