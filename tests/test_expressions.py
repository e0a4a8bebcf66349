"""C expressions: what they may hold, what they mean, and how a wrong one is reported."""

from __future__ import annotations

from typing import Any

import pytest

import netcl_core.autograd as ag
from netcl_core.codegen.expressions import (
    Apply,
    Name,
    Number,
    is_mask,
    macros,
    needs_floating,
    parse,
    walk,
)
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.ssa import Block
from netcl_core.errors import DtypeError, PrimitiveError, RegistrationError
from netcl_core.plugins.registry import registry


def tree(text: str, *names: str) -> Any:
    return parse(text, names or ("x", "y"), "op")


# -- what an expression may hold ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("x + z", r"op: in 'x \+ z': the identifier 'z' is unknown; expected one of x, y"),
        ("qqqq(x)", "the function 'qqqq' is unknown; expected one of exp"),
        ("exp(x, y)", "exp got 2 arguments; expected 1"),
        ("CLAMP(x)", "CLAMP got 1 arguments; expected 3"),
        ("x +", r"op: the expression 'x \+' is not valid C at its end"),
        ("x ? 1", "'x \\? 1' is not valid C at its end"),
        ("x $ y", r"'x \$ y' is not valid C at column 3, '\$ y'"),
        ("tahn(x)", r"the function 'tahn' is unknown. Did you mean tan or tanh\?$"),
        ("x; y", "'x; y' is not valid C"),
        ("x); return (y", r"is not valid C at column 2, '\); return \(y'"),
        ("1); } double g(void) { return (2", "is not valid C at column 2"),
        ("x, y", "2 expressions in 'x, y'; expected one C expression"),
        ("x % y", "'%' is not allowed; expected arithmetic"),
        ("x << y", "'<<' is not allowed"),
        ("x = y", "'=' is not allowed"),
        ("(int)x", "the identifier 'int' is unknown"),
        ("x[0]", r"'\[' is not allowed"),
        ("*x", r"'\*' is not allowed"),
        ("sizeof(x)", "the function 'sizeof' is unknown"),
        ("x--y", "'--' is not allowed"),
        ("(x)(y)", r"is not valid C at column 4, '\(y\)'"),
        ("x /* y */", r"'\*' is not allowed"),
        ("010 + x", "the literal '010'; expected a number"),
        ("1f", "the literal '1f'; expected a number"),
        ("0x1p3", "the literal '0x1p3'; expected a number"),
        ("(" * 400 + "x" + ")" * 400, "nested too deeply"),
        ("'a'", "is not valid C at column 1"),
        ("get_global_id(0)", "the function 'get_global_id' is unknown"),
        ("+".join(["x"] * 3000), r"\.\.\.' is nested too deeply; expected a shorter expression"),
    ],
    ids=lambda text: text[:24],
)
def test_errors_show_primitive_and_expression(text: str, match: str) -> None:
    with pytest.raises(PrimitiveError, match=match) as caught:
        tree(text)
    assert str(caught.value).startswith("op: ")
    assert len(str(caught.value)) < 600 or "one of exp" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3u", 3),
        ("0x1F", 31),
        ("0x1Ful", 31),
        ("0.5f", 0.5),
        ("1e-3", 1e-3),
        ("-2", -2),
        ("M_PI_F", 3.141592653589793),
        ("-INFINITY", float("-inf")),
    ],
)
def test_literals_and_constants(text: str, value: float) -> None:
    assert tree(text) == Number(value)
    assert isinstance(tree(text).value, type(value))


def test_precedence_and_associativity() -> None:
    x, y = Name("x"), Name("y")
    assert tree("x - y - 1") == Apply("-", (Apply("-", (x, y)), Number(1)))
    assert tree("x + y * 2") == Apply("+", (x, Apply("*", (y, Number(2)))))
    assert tree("-x * y") == Apply("*", (Apply("neg", (x,)), y))
    assert tree("x < y ? x : y").op == "?:"


def test_an_input_may_have_the_name_of_a_constant() -> None:
    assert tree("M_E + NAN", "M_E", "NAN") == Apply("+", (Name("M_E"), Name("NAN")))


# -- macros ---------------------------------------------------------------------------------


def test_macros_are_expanded_in_the_tree() -> None:
    assert tree("ADD(x, 2)") == Apply("+", (Name("x"), Number(2)))
    assert tree("RELU(ADD(x, y))") == tree("(x + y) < 0 ? 0 : (x + y)")
    assert tree("MAX(y, x)") == tree("y > x || isnan(y) ? y : x")
    expected = "ADD SUB MUL DIV NEG SQUARE MAX MIN ABS RELU SIGMOID TANH CLAMP"
    assert set(macros()) >= set(expected.split())


def test_macro_arguments_are_computed_once() -> None:
    block = Block(["op"])
    block.build(tree("SQUARE(exp(x))"), {"x": block.load("in0", "float")}, "float")
    assert [value.op for value in block.values].count("exp") == 1


def test_nested_macros_do_not_explode() -> None:
    text = "x"
    for _ in range(40):
        text = f"CLAMP({text}, -1, 1)"
    nested = tree(text)
    block = Block(["op"])
    block.build(nested, {"x": block.load("in0", "float")}, "float")
    assert len(block.values) < 500
    assert sum(1 for _ in walk(nested)) < 500


# -- what follows from an expression ------------------------------------------------------------


def test_properties_of_trees() -> None:
    assert is_mask(tree("x < y && !y")) and is_mask(tree("isnan(x)"))
    assert not is_mask(tree("x < y ? 1 : 0"))
    assert needs_floating(tree("x / y")) and needs_floating(tree("exp(x)"))
    assert needs_floating(tree("x * 0.5")) and needs_floating(tree("x + INFINITY"))
    assert not needs_floating(tree("fmax(x, 2.0) * floor(y)"))


def test_a_constant_that_does_not_fit_names_the_step() -> None:
    block = Block(["op"])
    block.origin = 0
    with pytest.raises(DtypeError, match=r"op: the constant 0\.5 in int arithmetic"):
        block.const(0.5, "int")
    with pytest.raises(DtypeError, match="the constant 3000000000 in int"):
        block.const(3_000_000_000, "int")
    assert block.const(-(2**31), "int") != block.const(3_000_000_000, "long")


# -- primitives ---------------------------------------------------------------------------------


def test_zero_and_minus_zero_are_two_constants() -> None:
    block = Block(["op"])
    assert block.const(0.0, "float") != block.const(-0.0, "float")


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"name": "two words"}, "the name 'two words'; expected an identifier"),
        ({"name": "größe"}, "expected an identifier in ASCII"),
        ({"forward": "x + 1"}, "p: forward or backward is not callable"),
        ({"backward": 3}, "p: forward or backward is not callable"),
        ({"arity": 0}, "p: arity 0; expected 1 or more"),
        ({"result": "int"}, "p: result 'int'; expected one of same, bool, float"),
    ],
)
def test_a_wrong_record_is_refused(given: dict[str, Any], match: str) -> None:
    fields: dict[str, Any] = {"name": "p", "forward": lambda x, a: x[0], "backward": None}
    with pytest.raises(PrimitiveError, match=match):
        AutogradPrimitive(**{**fields, **given})


@pytest.mark.parametrize("name", ["x0", "grad", "out"])
def test_an_attribute_may_not_shadow(name: str) -> None:
    record = AutogradPrimitive("p", lambda x, a: f"{x[0]} * {a[name]}", None, 1, attrs=[name])
    with pytest.raises(PrimitiveError, match=f"p: the name '{name}' stands for two things"):
        record.parsed(1, ())


@pytest.mark.parametrize(
    ("backward", "match"),
    [
        (lambda x, g, a, o: [g], "p: backward returned 1 gradients; expected 2, one per input"),
        (lambda x, g, a, o: [g] * 3, "backward returned 3 gradients"),
        (lambda x, g, a, o: f"{g} ; {g}", "backward returned 1 gradients"),
        (lambda x, g, a, o: [g, "foo(x0)"], "p backward: .* 'foo' is unknown"),
        (lambda x, g, a, o: [g, ""], "p: '' is no expression"),
        (lambda x, g, a, o: [g, 3], "p: 3 is no expression"),
    ],
)
def test_a_wrong_backward_is_refused(backward: Any, match: str) -> None:
    record = AutogradPrimitive("p", lambda x, a: f"{x[0]} * {x[1]}", backward, 2)
    with pytest.raises(PrimitiveError, match=match):
        record.parsed(2, ())


def test_a_failed_registration_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.demand, "loader", None)  # the outcome depends on no plugin
    version = registry.version
    with pytest.raises(PrimitiveError, match="1 gradients; expected 2"):
        ag.register_primitive("p_half", lambda x, a: "x0 + x1", lambda x, g, a, o: [g], arity=2)
    with pytest.raises(PrimitiveError, match="'z' is unknown"):
        ag.register_primitive("p_half", lambda x, a: "z", None, arity=1)
    assert registry.version == version
    assert registry.op_rows("p_half") == ()


def test_a_duplicate_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.demand, "loader", None)
    try:
        first = ag.register_primitive("p_twice", lambda x, a: x[0], None, arity=1, fusible=False)
        assert registry.op_rows("p_twice")[0].record is first
        assert not first.fusible
        with pytest.raises(RegistrationError, match="'p_twice' is provided by user already"):
            ag.register_primitive("p_twice", lambda x, a: x[0], None, arity=1)
        second = ag.register_primitive(
            "p_twice", lambda x, a: f"-{x[0]}", None, arity=1, override=True
        )
        assert registry.op_rows("p_twice")[0].record is second
        assert second.fusible
    finally:
        registry.remove_provider("user")
