"""Plugins that are data: their ops work, nothing of them is imported, and nothing of them runs."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken import GOOD
from distributions import install, install_plugin
from netcl_market.installed import Installed
from netcl_market.states import States
from netcl_market.survey import survey
from netcl_plugin_tools.lock.pins import pin

from netcl_core.errors import NetclError, RegistrationError
from netcl_core.ops.declared.expressions import Expression
from netcl_core.ops.declared.operators import operator_of
from netcl_core.ops.declared.reading import Table
from netcl_core.ops.declared.tables import NUMPY, SHAPES, Ops

EXAMPLE = Path(__file__).parent.parent / "plugins/examples/netcl-plugin-standardize/src"
PACKAGE = "netcl_plugin_standardize"
MANIFEST = EXAMPLE / PACKAGE / "netcl_plugin.toml"


def install_example(site: Path, **further: str) -> None:
    """The example as pip would leave it, with further files."""
    files = {
        str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8")
        for path in EXAMPLE.rglob("*.*")
        if path.is_file()
    }
    points = {"netcl_core.manifest": {"standardize": f"{PACKAGE}:netcl_plugin.toml"}}
    install(site, "netcl-plugin-standardize", {**files, **further}, points)


# -- in a process ----------------------------------------------------------------------

USE = """
import json, sys
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag

found = []
for device in dict.fromkeys([nc.default_device(), nc.get_device("cpu")]):
    with nc.use_device(device):
        x = ag.tensor(np.arange(12, dtype=np.float32).reshape(3, 4) ** 1.5, requires_grad=True)
        y = ag.standardize(ag.squareplus(x, b=2.0), eps=0.5)
        y.backward(np.eye(3, 4, dtype=np.float32))
        z = ag.jit_compile(lambda x: ag.standardize(ag.squareplus(x, b=2.0), eps=0.5))(x)
        found.append([y.numpy().tolist(), z.numpy().tolist(), x.grad.numpy().tolist()])
plugins = {p.name: [p.kind, p.state, p.reason] for p in nc.plugins.list()}
print(json.dumps([found, plugins, [name for name in sys.modules if "standardize" in name]]))
"""


def test_its_ops_work_and_nothing_of_it_is_imported(
    python: Callable[..., str], tmp_path: Path
) -> None:
    """Not even what lies in its package; plugins with code are left out, with the remedy."""
    install_example(tmp_path, **{f"{PACKAGE}/__init__.py": "raise SystemExit('imported')"})
    said = json.loads(python(USE, PYTHONPATH=str(tmp_path), NETCL_TRUST="data"))
    found, plugins, modules = said
    assert modules == [] and plugins.pop("standardize") == ["data", "active", ""]
    assert {state for _, state, _ in plugins.values()} == {"disabled"}
    reasons = {reason.partition("; to load it, name ")[0] for _, _, reason in plugins.values()}
    assert reasons == {'NETCL_TRUST (trust) is "data", and it brings code'}
    x = np.arange(12.0).reshape(3, 4) ** 1.5
    u = (x + np.sqrt(x * x + 2)) / 2
    y = (u - u.mean(-1, keepdims=True)) / np.sqrt(u.var(-1, keepdims=True) + 0.5)
    for eager, compiled, gradient in found:
        np.testing.assert_allclose(eager, y, atol=1e-5)
        np.testing.assert_allclose(compiled, y, atol=1e-5)
        np.testing.assert_allclose(gradient, found[-1][2], atol=1e-5)
        assert np.abs(gradient).max() > 0.1


@pytest.mark.parametrize(
    ("trust", "listed", "loaded"),
    [
        ("all", None, {"standardize", "good"}),
        ("all", "good", {"good"}),
        ("data", None, {"standardize"}),
        ("data", "good", {"standardize", "good"}),
        ("listed", None, set()),
        ("listed", "good", {"good"}),
        ("listed", "standardize", {"standardize"}),
    ],
)
def test_what_is_trusted_is_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trust: str,
    listed: str | None,
    loaded: set[str],
) -> None:
    install_example(tmp_path)
    install_plugin(tmp_path, "good", GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NETCL_TRUST", trust)
    monkeypatch.delenv("NETCL_PLUGINS", raising=False)
    if listed is not None:
        monkeypatch.setenv("NETCL_PLUGINS", listed)
    found = {each.name: each for each in survey(States()) if each.name in {"standardize", "good"}}
    assert {name for name, each in found.items() if each.state == "found"} == loaded
    assert all(each.reason for name, each in found.items() if name not in loaded)
    assert (found["standardize"].kind, found["good"].kind) == ("data", "code")


def test_a_wrong_definition_is_quarantined_whole(
    python: Callable[..., str], tmp_path: Path
) -> None:
    wrong = MANIFEST.read_text(encoding="utf-8").replace("x.ndim > 0 and", "y.ndim > 0 and")
    install_example(tmp_path, **{f"{PACKAGE}/netcl_plugin.toml": wrong})
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import netcl_core as nc, netcl_core.autograd as ag\n"
        "(p,) = [p for p in nc.plugins.list() if p.name == 'standardize']\n"
        "print(hasattr(ag, 'squareplus'), p.state, p.code, p.reason)"
    )
    said = python(code, PYTHONPATH=str(tmp_path), NETCL_TRUST="data")
    assert said.startswith("False quarantined NP318") and "the name 'y' is unknown" in said


def test_a_lock_counts_every_file_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was added later: its folder need not be a package."""
    install_example(tmp_path)
    (tmp_path / PACKAGE / "templates" / "later.cl.j2").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [each for each in survey(States()) if each.name == "standardize"]
    places = Installed("netcl-plugin-standardize", "1.0", found.source).places()
    names = {name for name, _ in places.all()}
    templates = [f"{PACKAGE}/templates/{file}.cl.j2" for file in ("later", "standardize")]
    assert {f"{PACKAGE}/netcl_plugin.toml", *templates} <= names and not places.shadowed
    assert found.source is not None and pin(Installed("x", "1", found.source)).data


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
    row = tomllib.loads(MANIFEST.read_text(encoding="utf-8"))["provides"][1]
    definition = copy.deepcopy(row["definition"])
    del definition["cases"]
    change(definition)
    with pytest.raises(RegistrationError, match=text) as raised:
        operator_of("standardize", Table(definition, "standardize"), (), "any/any.cl.j2")
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
