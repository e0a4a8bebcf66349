"""Definitions of ops and the expressions in them: what is no arithmetic is refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_data_kernels.expressions import Expression
from netcl_plugin_data_kernels.operators import operator_of
from netcl_plugin_data_kernels.reading import ManifestTable
from netcl_plugin_data_kernels.tables import NUMPY, SHAPES, Ops

from netcl_core.errors import NetclError, RegistrationError

DEFINITION: dict[str, Any] = {
    "inputs": "x",
    "attributes": {"eps": 1e-5},
    "shape": "x.shape",
    "reference": "x / (abs(x) + eps)",
    "gradient": "grad",
    "implementations": [
        {"launches": [{"entry": "damp", "args": ["x", "out"], "items": "x.size"}]},
    ],
}
# -- definitions -------------------------------------------------------------------------

WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a misspelt key": (lambda d: d.update(shap="x.shape"), "the key 'shap' is unknown"),
    "no shape": (lambda d: d.pop("shape"), "no 'shape'|shape = None"),
    "no reference": (lambda d: d.pop("reference"), "reference = None"),
    "no inputs": (lambda d: d.update(inputs=[]), "no inputs"),
    "a name twice": (lambda d: d.update(inputs=["x", "x"]), "the name 'x'"),
    "a keyword's default": (lambda d: d["attributes"].update(eps=None), "the default None"),
    "a default out of range": (
        lambda d: d["attributes"].update(eps={"default": -1.0, "min": 0}),
        "a number from 0",
    ),
    "gradients": (lambda d: d.update(gradient=["grad", "grad"]), "2 gradients"),
    "an unknown argument": (
        lambda d: d["implementations"][0]["launches"][0].update(args=["y"]),
        "the argument 'y'",
    ),
    "no launches": (lambda d: d["implementations"][0].update(launches=[]), "no launches"),
    "a shape of NumPy's": (lambda d: d.update(shape="mean(x)"), "the function mean is unknown"),
}


@pytest.mark.parametrize(("change", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_definition_is_named(change: Callable[[Any], Any], text: str) -> None:
    definition = copy.deepcopy(DEFINITION)
    assert (
        operator_of("damp", ManifestTable(definition, "damp"), (), "any/any.cl.j2").name == "damp"
    )
    change(definition)
    with pytest.raises(RegistrationError, match=text) as raised:
        operator_of("damp", ManifestTable(definition, "damp"), (), "any/any.cl.j2")
    assert raised.value.code == "NP318"  # type: ignore[attr-defined]


# -- expressions -------------------------------------------------------------------------

NO_EXPRESSIONS = (
    "().__class__.__bases__[0].__subclasses__()",
    "x.__class__",
    "x.tofile",
    "__import__('os')",
    "open('x')",
    "exp.__globals__",
    "(lambda: 1)()",
    "[y for y in (1, 2)]",
    "{**x}",
    "exp(*x)",
    "exp(**x)",
    "f'{x.__class__}'",
    "(y := 1)",
    "x if True",
    "x; x",
    "x) + (x",
    "await x",
    "exp(x)(x)",
    "1j",
    "b'x'",
    "y",
    "...",
    "",
    "x" * 3000,
    "(" * 500 + "x" + ")" * 500,
)
NOT_COMPUTED = (
    "9 ** 9 ** 9",
    "-" * 1900 + "x",
    "'x' * 999999999",
    "(1,) * 999999999",
    "'%999999999d' % 1",
    "exp(x, x)",
    "sum(x, 0, 'float32', x)",
    "sum(x, out=x)",
    "exp(x, out=x)",
    "where(x, x, x, x)",
    "x[9]",
    "1 // 0",
    "x.shape[True, None, 'y']",
)


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_what_is_no_arithmetic_is_refused_when_it_is_read(text: str) -> None:
    with pytest.raises(RegistrationError) as raised:
        Expression(text, "op", NUMPY, frozenset({"x"}))
    assert raised.value.code == "NP318"  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", NOT_COMPUTED)
def test_what_cannot_be_computed_is_an_error_and_changes_nothing(text: str) -> None:
    x = np.ones(3)
    with pytest.raises(NetclError):
        Expression(text, "op", NUMPY, frozenset({"x"}))({"x": x})
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 - 4 // 3 % 2", 6),
        ("-(2 ** 3) / 4", -2.0),
        ("1 < 2 <= 2 != 3 and not 1 > 2", True),
        ("s[1:] + (4,) if len(s) > 1 else s", (3, 4)),
        ("prod(s) + max(s) + ceil_div(7, 2)", 13),
        ("'a' in ('a', 'b') or 1 // 0", True),
        ("broadcast(s, (1,)) == s", True),
    ],
)
def test_arithmetic_is_that_of_python(text: str, value: Any) -> None:
    assert Expression(text, "op", SHAPES, frozenset({"s"}))({"s": (2, 3)}) == value


@pytest.mark.parametrize("name", ["backward", "register_hook", "retain_grad", "to_device"])
def test_gradients_call_ops_alone(name: str) -> None:
    with pytest.raises(RegistrationError, match=f"the function {name} is unknown"):
        Expression(f"{name}(x)", "op", Ops())
