"""Kinds of records: one table that everything reads, and the names that no record may have."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given import Given
from netcl_market.manifests import Provided
from netcl_plugin_kit.check import registration
from netcl_plugin_kit.check.findings import STATIC
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import hookspecs
from netcl_core.autograd import (
    AmpPolicy,
    AutogradPrimitive,
    Implementation,
    MatchedOp,
    Operator,
    TrainingPattern,
)
from netcl_core.errors import (
    AmbiguousOpError,
    MissingOpError,
    PrimitiveError,
    RegistrationError,
    TemplateError,
)
from netcl_core.ops import functions
from netcl_core.plugins.kinds import KINDS, OP_KINDS, REGISTERED, record_types
from netcl_core.plugins.registry import registry, reserved

ROOT = Path(__file__).resolve().parent.parent


def primitive(name: str) -> AutogradPrimitive:
    return AutogradPrimitive(
        name,
        lambda inputs, attrs: f"{inputs[0]} * 3",
        lambda inputs, grad, attrs, out: [f"{grad} * 3"],
        arity=1,
    )


def operator(name: str) -> Operator:
    return Operator(name, lambda x: ((x,), {}), lambda x: x, np.negative)


# -- the table -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_row_is_true(kind: Any) -> None:
    assert kind.hook in hookspecs.HOOKS
    assert bool(kind.records) == bool(kind.registrar)
    assert {"name", "kind", *kind.keys} <= {*Provided.__slots__, "tolerance"}
    assert set(kind.checks) <= set(STATIC)
    assert not kind.serves or KINDS[kind.serves].is_op
    for record in record_types(kind.name):
        fields = {*dir(record), *getattr(record, "__dataclass_fields__", ())}
        assert not kind.shows or kind.shows in fields


def test_the_tables_that_are_read_beside_it_have_its_rows() -> None:
    assert registration._TOLD.keys() == set(REGISTERED)
    assert set(hookspecs.HOOKS) >= {kind.hook for kind in KINDS.values()}
    folders = {path.name for path in (ROOT / "templates" / "plugin").iterdir()}
    assert folders == {"common", *SCAFFOLDS}
    assert (*OP_KINDS,) == ("primitive", "operator")


def test_the_names_of_classes_are_unique() -> None:
    """Those of the plugins' room, over the whole core."""
    found: dict[str, list[Path]] = {}
    for path in (ROOT / "netcl_core").rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(name, []).append(path)
    ours = {name: paths for name, paths in found.items() if any(
        "plugins" in path.relative_to(ROOT).parts for path in paths)}  # fmt: skip
    assert {name for name, paths in ours.items() if len(paths) > 1} == set()


def test_every_record_type_is_of_one_kind() -> None:
    types = [each for kind in REGISTERED for each in record_types(kind)]
    assert len(types) == len(set(types))


@pytest.mark.parametrize("kind", REGISTERED)
def test_each_registrar_takes_its_own_records_only(kind: str) -> None:
    class Wrong:
        pass

    if kind == "namespace":
        return
    plugin = type("P", (), {KINDS[kind].hook: nc.hookimpl(lambda self, registry: registry.add(1))})
    with pytest.raises(RegistrationError, match="int to add") as caught:
        nc.plugins.register(plugin(), "wrong")
    assert caught.value.code == "NP305"
    assert all(each.__name__ in str(caught.value) for each in record_types(kind))


# -- names that are taken --------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["engine", "compiler", "graph", "training_compiler", "debug", "ops", "tensor", "backward",
     "Tape", "no_grad", "astype", "to_device", "AmpPolicy", "annotations", "_hidden"],
)  # fmt: skip
def test_an_op_cannot_be_called_like_what_the_face_has(name: str) -> None:
    for record in (primitive(name), operator(name)):
        with pytest.raises(RegistrationError, match=rf"netcl_core\.autograd\.{name} ") as caught:
            nc.plugins.register(Given(record), "mine")
        assert caught.value.code == "NP312" and "'mine'" in caught.value.__notes__[0]
    with pytest.raises(RegistrationError):
        ag.register_primitive(name, lambda x, a: x[0], None, arity=1, override=True)


@pytest.mark.parametrize(
    "name",
    ["device", "runtime", "tensors", "plugins", "codegen", "tape", "ops", "jit", "autograd",
     "cli", "errors", "config", "dtypes", "version", "hookspecs", "Tensor", "tensor",
     "use_device", "sys", "importlib", "_nn"],
)  # fmt: skip
def test_a_namespace_cannot_be_called_like_what_the_core_has(name: str) -> None:
    with pytest.raises(RegistrationError, match=rf"netcl_core\.{name} ") as caught:
        nc.plugins.register(Given(name), "mine")
    assert caught.value.code == "NP312"


@pytest.mark.parametrize("name", ["lambda", "two words", "2d", ""])
def test_no_attribute_can_have_this_name(name: str) -> None:
    with pytest.raises(RegistrationError, match="is no identifier") as caught:
        nc.plugins.register(Given(operator(name)), "mine")
    assert caught.value.code == "NP306"


def test_the_names_are_those_of_the_faces() -> None:
    """Whatever a face gets later is refused as well, since nobody writes the names down again."""
    for face in ("netcl_core.autograd", "netcl_core"):
        module = importlib.import_module(face)
        submodules = {each.name for each in pkgutil.iter_modules(module.__path__)}
        assert reserved(face) >= {*module.__all__, *submodules}
    assert reserved("netcl_core.autograd") >= functions.CORE.keys()
    ours = {each.stem for each in (ROOT / "netcl_core" / "autograd").glob("[a-z]*.py")}
    assert ours <= set(ag._SUBMODULES)


def test_the_face_hides_no_op() -> None:
    """Nothing in the module would be found before an op of that name."""
    registry.load()
    ops = {name: getattr(ag, name) for name in registry.op_names()}
    assert reserved("netcl_core.autograd").isdisjoint(ops)
    own = {name for name in vars(ag) if not name.startswith("__")} - ops.keys()
    assert own <= reserved("netcl_core.autograd")


@pytest.mark.parametrize("name", ["reverse", "region", "partition", "node", "jit", "program"])
def test_an_op_may_be_called_like_a_module_of_the_core(
    name: str, give: Callable[..., None]
) -> None:
    give("mine", primitive(name))
    for room in ("tape.reverse", "jit.partition", "codegen.region", "tape.node"):
        importlib.import_module(f"netcl_core.{room}")
    leaf = nc.tensor(np.ones(3, np.float32), requires_grad=True)
    for _ in range(2):
        result = getattr(ag, name)(leaf)
    ag.backward(result, np.ones(3, np.float32))
    assert result.numpy().tolist() == [3, 3, 3] and leaf.grad.numpy().tolist() == [3, 3, 3]
    assert getattr(ag, name) is not None and name in dir(ag)


# -- patterns and policies -------------------------------------------------------------

GRAPH = MatchedOp("gelu", (MatchedOp("add", ("x", "bias")),), (("approximate", "tanh"),))


def test_a_pattern_is_listed_and_shown(give: Callable[..., None]) -> None:
    give("mine", TrainingPattern("bias_gelu", GRAPH, print, dtypes=["float32"]))
    (plugin,) = [each for each in nc.plugins.list() if each.name == "mine"]
    assert plugin.provides == ("bias_gelu",)
    said = nc.plugins.why("bias_gelu")
    assert str(said).splitlines() == [
        "bias_gelu",
        "-> pattern bias_gelu: gelu(add(x, bias), approximate='tanh') in float32 "
        "(mine, priority 0): used: the only provider",
        "rule: the only provider",
    ]
    assert said.decided
    with pytest.raises(MissingOpError):  # it is no op
        _ = ag.bias_gelu


def test_a_policy_is_listed_and_shown(give: Callable[..., None]) -> None:
    rules: dict[str, Any] = {"matmul": "allow", "exp": "keep"}
    policy = AmpPolicy("half", "float16", rules, {"operator": "allow"}, "promote")
    rules["exp"] = "allow"
    assert [policy.rule("exp", "primitive"), policy.rule("softmax", "operator"),
            policy.rule("add", "primitive")] == ["keep", "allow", "promote"]  # fmt: skip
    give("mine", policy)
    said = str(nc.plugins.why("half"))
    assert (
        "amp_policy half: float16; allow operators, matmul; keep exp; promote all other ops" in said
    )


@pytest.mark.parametrize("kind", ["pattern", "amp_policy"])
def test_two_of_one_name(
    kind: str, give: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal claims are an error that names both, in either order; a setting chooses."""
    record: Any = {
        "pattern": TrainingPattern("twin", GRAPH, print),
        "amp_policy": AmpPolicy("twin", "float16"),
    }[kind]
    for name in ("right", "left"):
        give(name, record)
    with pytest.raises(AmbiguousOpError, match="left:twin and right:twin") as caught:
        registry.find(kind, "twin")
    assert caught.value.code == "NP401" and "prefer" not in str(caught.value)
    said = nc.plugins.why("twin")
    assert not said.decided and str(said).count("tied at priority 0") == 2
    monkeypatch.setenv("NETCL_RANK", "right:twin")
    row = registry.find(kind, "twin")
    assert row is not None and row.provider == "right"
    give("third", record, priority=9)
    monkeypatch.delenv("NETCL_RANK")
    row = registry.find(kind, "twin")
    assert row is not None and row.provider == "third"


def test_a_name_of_several_kinds(give: Callable[..., None]) -> None:
    """An op, a pattern and a policy of one name do not contend."""
    pattern = TrainingPattern("many", GRAPH, print)
    give("mine", primitive("many"), pattern, AmpPolicy("many", "float16"))
    said = nc.plugins.why("many", device="numpy")
    assert [each.label.split()[0] for each in said.candidates] == [
        "primitive", "pattern", "amp_policy",
    ]  # fmt: skip
    assert said.decided and said.title.startswith("many in float32 on ")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"matcher": "add"},
            "the matcher 'add'; expected a MatchedOp, a tuple of several, or a function",
        ),
        ({"planner": None}, "the planner None; expected a function"),
        ({"templates": "one"}, "templates = 'one'; expected a tuple of names"),
        ({"dtypes": ["float128"]}, "the dtype 'float128'; expected one of bool"),
        ({"dtypes": [3]}, "dtypes = [3]"),
    ],
)
def test_a_pattern_that_is_wrong(change: dict[str, Any], text: str) -> None:
    fields: dict[str, Any] = {"name": "odd", "matcher": GRAPH, "planner": print, **change}
    with pytest.raises(RegistrationError) as caught:
        TrainingPattern(**fields)
    assert f"training pattern 'odd': {text}" in str(caught.value) and caught.value.code == "NP308"


@pytest.mark.parametrize(
    "given",
    [("two words", ("x",)), ("add", ("x", True)), ("add", "xy"), ("add", 3), (3, ("x",)),
     ("add", ("x", "2y")), ("add", ("x",), ("alpha",)), ("add", ("x",), {"alpha": 1})],
)  # fmt: skip
def test_a_graph_that_is_wrong(given: Any) -> None:
    with pytest.raises(RegistrationError, match="MatchedOp: the op ") as caught:
        MatchedOp(*given)
    assert caught.value.code == "NP308"


def test_what_cannot_be_swapped_is_not_commutative() -> None:
    with pytest.raises(PrimitiveError, match="commutative with arity 1; expected arity=2"):
        AutogradPrimitive("odd", lambda x, attrs: x[0], None, arity=1, commutative=True)


def test_a_pattern_without_its_template(give: Callable[..., None]) -> None:
    with pytest.raises(TemplateError, match=r"nowhere.cl.j2 was not found"):
        give("mine", TrainingPattern("odd", GRAPH, print, ["mine/nowhere.cl.j2"]))
    assert registry.rows("pattern", "odd") == ()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"storage": "int32"},
            "the storage 'int32'; expected bfloat16 or float16 or float32 or float64",
        ),
        ({"storage": []}, "the storage []"),
        ({"ops": {"exp": "never"}}, "the rule 'never' for exp; expected allow or keep or promote"),
        ({"ops": {"exp": []}}, "the rule [] for exp"),
        ({"ops": ["exp"]}, "the rules ['exp']; expected a mapping"),
        ({"kinds": {"pattern": "keep"}}, "a rule for 'pattern'; expected primitive or operator"),
        ({"default": "no"}, "the default 'no'"),
    ],
)
def test_a_policy_that_is_wrong(fields: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"name": "odd", "storage": "float16", **fields}
    with pytest.raises(RegistrationError) as caught:
        AmpPolicy(**given)
    assert f"amp policy 'odd': {text}" in str(caught.value) and caught.value.code == "NP308"


# -- implementations of nothing --------------------------------------------------------


def implementation(op: str) -> Implementation:
    return Implementation(op, "fast", print)  # type: ignore[arg-type]


def test_an_implementation_of_nobodys_operator_is_visible(give: Callable[..., None]) -> None:
    give("mine", implementation("absent_op"))
    said = nc.plugins.why("absent_op")
    assert not said.decided
    assert str(said).splitlines()[1:] == [
        "   implementation fast (mine, priority 0): not used: nobody provides the operator "
        "'absent_op'",
        "rule: none: nobody provides the operator 'absent_op'",
    ]
    with pytest.raises(MissingOpError, match="mine: only an implementation of it, not the op"):
        _ = ag.absent_op
    give("theirs", operator("absent_op"))
    assert "not used: nobody" not in str(nc.plugins.why("absent_op", device="numpy"))
    assert ag.absent_op is not None


def test_an_implementation_of_anothers_primitive_is_told(give: Callable[..., None]) -> None:
    """In either order of registration; the primitive goes on."""
    give("theirs", primitive("plain_op"))
    text = r"NP405: an implementation of mine:plain_op .* 'plain_op' of theirs is a primitive"
    with pytest.warns(nc.plugins.PluginWarning, match=text):
        give("mine", implementation("plain_op"))
    said = nc.plugins.why("plain_op", device="numpy")
    assert said.decided and "not used: 'plain_op' of theirs is a primitive, which" in str(said)
    give("early", implementation("later_op"))
    with pytest.warns(nc.plugins.PluginWarning, match=r"NP405: an implementation of early:later"):
        give("late", primitive("later_op"))


def test_an_implementation_of_ones_own_primitive_is_refused() -> None:
    with pytest.raises(RegistrationError, match="which is a primitive; expected one of a") as told:
        nc.plugins.register(Given(primitive("own_op"), implementation("own_op")), "mine")
    assert told.value.code == "NP313"
    assert registry.op_rows("own_op") == () == registry.rows("implementation", "own_op")
