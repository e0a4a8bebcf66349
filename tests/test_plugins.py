"""Plugins of other people: good ones work everywhere, broken ones stay alone with it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click
import numpy as np
import pluggy
import pytest
from distributions import TEMPLATE, install, install_plugin
from environments import ROOT, Environment, run, succeed

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import hookspecs
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import AmbiguousOpError, MissingOpError, PluginError, RegistrationError
from netcl_core.registry import Registry

# -- a third party's first plugin ----------------------------------------------------

SWISH2 = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "swish2-kernels"
version = "1.0"
dependencies = ["netcl-core>=0.1,<0.2"]

[project.entry-points."netcl_core.primitives"]
swish2 = "swish2_kernels:swish2"
""",
    "swish2_kernels/__init__.py": """\
from netcl_core.autograd import AutogradPrimitive

swish2 = AutogradPrimitive.from_template("swish2/swish2.cl.j2")
""",
    "swish2_kernels/templates/swish2.cl.j2": """\
{% macro forward(x) %}x / (1 + exp(-2 * x)){% endmacro %}
{% macro backward(x, grad, out) %}
grad * (1 + 2 * x * (1 - 1 / (1 + exp(-2 * x)))) / (1 + exp(-2 * x))
{% endmacro %}
""",
}

USE_IT = """
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag

x = np.linspace(-2, 2, 7, dtype=np.float32)
sigma = 1 / (1 + np.exp(-2 * x))
for device in nc.devices():
    with nc.use_device(device):
        leaf = nc.tensor(x, requires_grad=True)
        y = ag.swish2(leaf)
        np.testing.assert_allclose(y.numpy(), x * sigma, rtol=1e-5, atol=1e-7)
        with ag.Tape() as tape:
            y = ag.swish2(leaf)
        assert [node.op_name for node in tape.nodes] == ["swish2"]
        tape.backward(y, np.ones_like(x))
        slope = sigma * (1 + 2 * x * (1 - sigma))
        np.testing.assert_allclose(leaf.grad.numpy(), slope, rtol=1e-5, atol=1e-6)
(plugin,) = nc.plugins.list()
print(plugin.name, plugin.distribution, plugin.state, *plugin.provides, len(nc.devices()))
"""


def test_a_third_partys_first_primitive(
    tmp_path: Path, core_wheel: Path, new_environment: Callable[..., Environment]
) -> None:
    """Ten lines and a template, outside the repository, installed by pip beside the core."""
    for name, text in SWISH2.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    clean = new_environment()
    clean.install(core_wheel, tmp_path / "project")
    *said, devices = clean.execute(USE_IT).split()
    assert said == ["swish2", "swish2-kernels", "active", "swish2"]
    assert int(devices) >= 1  # the NumPy path is always among them


# -- broken plugins ------------------------------------------------------------------

HEAD = "from netcl_core import hookimpl\nfrom netcl_core.autograd import AutogradPrimitive\n"
CLASS = HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_primitives(self, registry):\n"
SQUARE = "lambda x, a: f'{x[0]} * {x[0]}', lambda x, g, a, o: [f'2 * {x[0]} * {g}']"

#: name -> (code, what the reason says)
BROKEN = {
    "importing": ("import no_such_module_anywhere", "no_such_module_anywhere"),
    "raising": ("raise RuntimeError('out of order')", "out of order"),
    "exiting": ("import sys\nsys.exit(3)", "SystemExit: 3"),
    "nothing": ("something_else = 1", "no attribute 'plugin'"),
    "misspelt": (
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_primitive(self, registry): 1\n"
        "plugin = Plugin()",
        "Did you mean netcl_register_primitives?",
    ),
    "unmarked": (
        "class Plugin:\n    def netcl_register_primitives(self, registry): 1\nplugin = Plugin()",
        "Put @hookimpl above it",
    ),
    "foreign": (
        "import pluggy\nmark = pluggy.HookimplMarker('otherproject')\n"
        "class Plugin:\n    @mark\n    def netcl_register_primitives(self, registry): 1\n"
        "plugin = Plugin()",
        "Put @hookimpl above it",
    ),
    "hookless": ("plugin = object()", "has no hooks"),
    "wrong_argument": (
        HEAD + "class Plugin:\n    @hookimpl\n    def netcl_register_namespaces(self, r): 1\n"
        "    @hookimpl\n    def netcl_register_primitives(self, wrong): 1\n"
        "plugin = Plugin()",
        "Argument(s) {'",
    ),
    "wrong_record": (
        CLASS + "        registry.add('no record')\nplugin = Plugin()",
        "a str to add",
    ),
    "bad_expression": (
        CLASS + "        registry.add(AutogradPrimitive('bad_op', lambda x, a: f'{x[0]} +* 2',"
        " None, arity=1))\nplugin = Plugin()",
        "bad_op",
    ),
    "bad_name": (
        CLASS + f"        registry.add(AutogradPrimitive('two words', {SQUARE}, arity=1))\n"
        "plugin = Plugin()",
        "'two words'",
    ),
    "twice": (
        CLASS
        + f"        registry.add(AutogradPrimitive('twice_op', {SQUARE}, arity=1))\n" * 2
        + "plugin = Plugin()",
        "registered already",
    ),
    "missing_template": (
        CLASS + "        registry.add_template('nowhere.cl.j2')\nplugin = Plugin()",
        "nowhere.cl.j2 was not found",
    ),
    "bad_template": (
        CLASS + "        registry.add_template('bad.cl.j2')\nplugin = Plugin()",
        "template 'bad_template/bad.cl.j2': line 1",
    ),
    "half_way": (
        CLASS + f"        registry.add(AutogradPrimitive('half_op', {SQUARE}, arity=1))\n"
        "        raise ValueError('half way')\nplugin = Plugin()",
        "ValueError: half way",
    ),
    "half_way_later": (
        CLASS + f"        registry.add(AutogradPrimitive('later_op', {SQUARE}, arity=1))\n"
        "    @hookimpl\n    def netcl_register_namespaces(self, registry):\n"
        "        registry.add('half_space', 'json')\n        raise SystemExit(1)\n"
        "plugin = Plugin()",
        "SystemExit: 1",
    ),
}
GOOD = CLASS + "        registry.add_template('plus.cl.j2', name={name!r})\nplugin = Plugin()"

REPORT = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.registry import registry

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = nc.plugins.list()
with nc.use_device("cpu"):
    values = {name: getattr(ag, name)(3.0).item() for name in ("first_op", "last_op", "short_op")}
print(json.dumps({
    "plugins": [[p.name, p.distribution, p.state, p.reason, p.traceback] for p in found],
    "warnings": [str(w.message) for w in caught if w.category is nc.plugins.PluginWarning],
    "ops": registry.op_names(),
    "namespaces": [row.record.name for row in registry.rows("namespace")],
    "values": values,
    "hooks": {
        caller: [str(impl.plugin_name) for impl in getattr(nc.plugins._manager.hook, caller)
                 .get_hookimpls()]
        for caller in ("netcl_register_primitives", "netcl_register_namespaces")
    },
}))
"""


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed: every broken plugin, good ones that sort before and after, duplicate names."""
    site = tmp_path_factory.mktemp("site")
    for name, (code, _) in BROKEN.items():
        bad = {"bad.cl.j2": "{% macro forward(x) %}{{ x }"} if name == "bad_template" else None
        install_plugin(site, name, code, bad)
    install_plugin(site, "aaa", GOOD.format(name="first_op"), {"plus.cl.j2": TEMPLATE})
    install_plugin(site, "zzz", GOOD.format(name="last_op"), {"plus.cl.j2": TEMPLATE})
    install(
        site,
        "other-aaa",
        {"other_aaa.py": "raise AssertionError('must not be imported')"},
        {"netcl_core.plugins": {"aaa": "other_aaa:plugin"}},
    )
    install(
        site,
        "other-core",
        {"other_core/__init__.py": "plugin = 1", "other_core/templates/x.cl.j2": ""},
        {"netcl_core.plugins": {"core": "other_core:plugin"}},
    )
    short = "from netcl_core.autograd import AutogradPrimitive\n"
    short += "good = AutogradPrimitive.from_template('short/short_op.cl.j2')\nbad = 'a text'\n"
    install(
        site,
        "short-road",
        {"short_road/__init__.py": short, "short_road/templates/short_op.cl.j2": TEMPLATE},
        {"netcl_core.primitives": {"short": "short_road:good", "short_bad": "short_road:bad",
                                   "aaa": "short_road:good"}},
    )  # fmt: skip
    return site


@pytest.fixture(scope="module")
def outcome(market: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a fresh process sees of the market."""
    cache = tmp_path_factory.mktemp("cache")
    path = os.pathsep.join((str(market), str(ROOT)))
    said = succeed(
        [sys.executable, "-c", REPORT], cache, PYTHONPATH=path, NETCL_CACHE_DIR=str(cache)
    )
    answer: dict[str, Any] = json.loads(said)
    return answer


def _of(outcome: dict[str, Any], distribution: str, name: str) -> tuple[str, str, str]:
    rows = [row for row in outcome["plugins"] if row[:2] == [name, distribution]]
    assert rows, outcome["plugins"]
    return rows[0][2], rows[0][3], rows[0][4]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_quarantined(outcome: dict[str, Any], name: str) -> None:
    distribution = f"netcl-plugin-{name}"
    state, reason, traceback = _of(outcome, distribution, name)
    assert state == "quarantined"
    assert BROKEN[name][1] in reason
    assert "Traceback" in traceback
    (warning,) = [text for text in outcome["warnings"] if f"of {distribution} 1.0" in text]
    assert f"plugin {name!r}" in warning and reason.rstrip(".") in warning
    assert f"Repair, upgrade or uninstall {distribution}" in warning


def test_the_others_go_on(outcome: dict[str, Any]) -> None:
    assert outcome["values"] == {"first_op": 10.0, "last_op": 10.0, "short_op": 10.0}
    assert _of(outcome, "netcl-plugin-aaa", "aaa")[0] == "active"
    assert _of(outcome, "netcl-plugin-zzz", "zzz")[0] == "active"
    assert _of(outcome, "short-road", "short")[0] == "active"


def test_nothing_is_half_registered(outcome: dict[str, Any]) -> None:
    ours = {"bad_op", "half_op", "later_op", "twice_op", "two words"}
    assert ours.isdisjoint(outcome["ops"])
    assert "half_space" not in outcome["namespaces"]
    for registered in outcome["hooks"].values():
        assert BROKEN.keys().isdisjoint(registered)


def test_duplicate_names_of_two_distributions(outcome: dict[str, Any]) -> None:
    """The first by the distribution's name stays, the other is refused before its import."""
    state, reason, _ = _of(outcome, "other-aaa", "aaa")
    assert state == "quarantined"
    assert "'aaa' is taken by netcl-plugin-aaa" in reason and "Rename the entry point" in reason
    state, reason, _ = _of(outcome, "short-road", "aaa")  # the same name in the other group
    assert state == "quarantined" and "netcl-plugin-aaa" in reason


def test_a_primitive_of_the_wrong_type(outcome: dict[str, Any]) -> None:
    state, reason, _ = _of(outcome, "short-road", "short_bad")
    assert state == "quarantined"
    assert "short-road: a str to add; expected an AutogradPrimitive" in reason


def test_the_cores_templates_cannot_be_replaced(outcome: dict[str, Any]) -> None:
    state, reason, _ = _of(outcome, "other-core", "core")
    assert state == "quarantined" and "the core's own templates" in reason


def test_the_doctor_shows_the_reasons(market: Path, tmp_path: Path) -> None:
    path = os.pathsep.join((str(market), str(ROOT)))
    command = [sys.executable, "-m", "netcl_core.cli.main", "doctor", "--json"]
    done = run(command, tmp_path, PYTHONPATH=path, NETCL_CACHE_DIR=str(tmp_path))
    assert "PluginWarning" not in done.stderr
    findings = "\n".join(json.loads(done.stdout)["findings"])
    for name in BROKEN:
        assert f"plugin {name} of netcl-plugin-{name}: " in findings


def test_autoload_off_loads_nothing(market: Path, python: Callable[..., str]) -> None:
    code = "import netcl_core as nc; print(len(nc.plugins.list()))"
    assert python(code, PYTHONPATH=str(market), NETCL_PLUGINS_AUTOLOAD="0") == "0"


def test_warnings_as_errors_name_the_plugin(market: Path, python: Callable[..., str]) -> None:
    """Whoever turns warnings into errors gets one per broken plugin, and then what works."""
    code = """
import netcl_core as nc
import netcl_core.autograd as ag
count = 0
while True:
    try:
        with nc.use_device("cpu"):
            assert ag.last_op(3.0).item() == 10
        break
    except nc.plugins.PluginWarning as warning:
        count += "quarantined" in str(warning)
print(count)
"""
    assert int(python(code, PYTHONPATH=str(market))) >= len(BROKEN)


# -- plugins of this process ---------------------------------------------------------


def primitive(name: str, factor: int = 1) -> AutogradPrimitive:
    return AutogradPrimitive(
        name,
        lambda inputs, attrs: f"{inputs[0]} * {factor}",
        lambda inputs, grad, attrs, out: [f"{grad} * {factor}"],
        arity=1,
    )


def plugin_of(*records: Any, priority: int = 0) -> Any:
    class Given:
        @nc.hookimpl
        def netcl_register_primitives(self, registry: Any) -> None:
            for record in records:
                registry.add(record, priority)

    return Given()


@pytest.fixture
def names() -> Iterator[list[str]]:
    """Names of plugins to take out again after the test."""
    given: list[str] = []
    yield given
    for name in given:
        nc.plugins.unregister(name)


def test_register_and_unregister(names: list[str]) -> None:
    with pytest.raises(MissingOpError, match="tripled"):
        _ = ag.tripled
    entry = nc.plugins.register(plugin_of(primitive("tripled", 3)), "mine")
    assert (entry.name, entry.state, entry.provides) == ("mine", "active", ("tripled",))
    assert entry in nc.plugins.list()
    assert ag.tripled(np.float32(2)).item() == 6
    nc.plugins.unregister("mine")
    assert entry not in nc.plugins.list()
    with pytest.raises(MissingOpError):
        _ = ag.tripled
    nc.plugins.register(plugin_of(primitive("tripled", 4)), "mine")
    names.append("mine")
    assert ag.tripled(np.float32(2)).item() == 8


def test_register_twice_is_an_error(names: list[str]) -> None:
    nc.plugins.register(plugin_of(primitive("once_op")), "mine")
    names.append("mine")
    with pytest.raises(PluginError, match="'mine' is registered already"):
        nc.plugins.register(plugin_of(primitive("other_op")), "mine")


def test_register_raises_and_leaves_nothing() -> None:
    with pytest.raises(RegistrationError, match="a str to add") as caught:
        nc.plugins.register(plugin_of(primitive("almost"), "wrong"), "mine")
    assert any("'mine'" in note for note in caught.value.__notes__)
    with pytest.raises(MissingOpError):
        _ = ag.almost
    nc.plugins.register(plugin_of(primitive("almost")), "mine")
    nc.plugins.unregister("mine")


def test_one_object_under_two_names(names: list[str]) -> None:
    """The second name fails, and the first one keeps working."""
    given = plugin_of(primitive("shared_op", 5))
    nc.plugins.register(given, "mine")
    names.append("mine")
    with pytest.raises(ValueError, match="already registered"):
        nc.plugins.register(given, "other")
    assert ag.shared_op(np.float32(1)).item() == 5
    nc.plugins.unregister("mine")
    nc.plugins.register(given, "mine")


def test_unregister_of_an_unknown_name() -> None:
    with pytest.raises(PluginError, match="'nobody' is unknown; expected one of"):
        nc.plugins.unregister("nobody")


@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_two_providers_of_one_name(names: list[str], order: tuple[str, str]) -> None:
    for name in order:
        nc.plugins.register(plugin_of(primitive("contested")), name)
        names.append(name)
    with pytest.raises(AmbiguousOpError) as caught:
        _ = ag.contested
    assert "left:contested and right:contested" in str(caught.value)
    assert "Uninstall one of the two" in str(caught.value)


@pytest.mark.parametrize("order", [("left", "right"), ("right", "left")])
def test_the_higher_priority_wins(names: list[str], order: tuple[str, str]) -> None:
    factors = {"left": (2, 1), "right": (3, 7)}
    for name in order:
        factor, priority = factors[name]
        nc.plugins.register(plugin_of(primitive("ranked", factor), priority=priority), name)
        names.append(name)
    assert ag.ranked(np.float32(1)).item() == 3


def test_one_provider_one_name(names: list[str]) -> None:
    """A primitive and an operator of one name and provider are a duplicate, not a tie."""

    class Both:
        @nc.hookimpl
        def netcl_register_primitives(self, registry: Any) -> None:
            registry.add(primitive("both_kinds"))

        @nc.hookimpl
        def netcl_register_operators(self, registry: Any) -> None:
            registry.add(ag.Composite("both_kinds", lambda x: x))

    with pytest.raises(RegistrationError, match="'both_kinds' is registered already"):
        nc.plugins.register(Both(), "mine")


def test_a_training_step_calls_no_hook(names: list[str]) -> None:
    """Neither pluggy nor a hook of a plugin runs once an op has been used."""
    nc.plugins.register(plugin_of(primitive("halved", 2)), "mine")
    names.append("mine")
    weight = nc.tensor(np.ones((4, 3), np.float32), requires_grad=True)

    def step() -> None:
        with ag.Tape() as tape:
            loss = ag.halved(ag.halved(weight))
        tape.backward(loss, np.ones((4, 3), np.float32))
        weight.copy_(weight.numpy() - 0.1 * weight.grad.numpy())
        weight.grad = None

    step()
    calls: list[str] = []
    hooks = {name for name in vars(hookspecs) if name.startswith("netcl_")}
    folder = str(Path(pluggy.__file__).parent)

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and (code.co_filename.startswith(folder) or code.co_name in hooks):
            calls.append(code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for _ in range(3):
            step()
    finally:
        sys.setprofile(before)
    assert calls == []


# -- hooks of the command line ---------------------------------------------------------


class Commands:
    """Adds `shout`, and fails when it is told to."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    @nc.hookimpl
    def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
        add_command(click.Command("shout"))
        if self.fails:
            raise RuntimeError("no voice")

    @nc.hookimpl
    def netcl_doctor(self) -> list[tuple[str, bool, str]]:
        if self.fails:
            raise RuntimeError("no idea")
        return [("throat", True, "clear")]


def test_a_plugins_commands_and_checks(names: list[str]) -> None:
    nc.plugins.register(Commands(), "loud")
    names.append("loud")
    assert "shout" in nc.plugins.plugin_commands()
    assert ("loud: throat", True, "clear") in nc.plugins.doctor_checks()


def test_a_failing_hook_takes_nobody_along(names: list[str]) -> None:
    nc.plugins.register(Commands(fails=True), "hoarse")
    nc.plugins.register(Commands(), "loud")
    names += ["hoarse", "loud"]
    with pytest.warns(nc.plugins.PluginWarning, match=r"'hoarse'.*no commands.*no voice"):
        commands = nc.plugins.plugin_commands()
    assert "shout" in commands
    checks = list(nc.plugins.doctor_checks())
    assert ("plugin hoarse", False, "RuntimeError: no idea") in checks
    assert ("loud: throat", True, "clear") in checks


def test_one_command_of_two_plugins(names: list[str]) -> None:
    for name in ("second", "first"):
        nc.plugins.register(Commands(), name)
        names.append(name)
    with pytest.warns(nc.plugins.PluginWarning, match="'second'.*'shout' is taken"):
        assert "shout" in nc.plugins.plugin_commands()


# -- the registry's loading ----------------------------------------------------------


def test_other_threads_wait_for_the_plugins() -> None:
    """A look-up during loading neither misses what is still to come nor loads twice."""
    registry, entered, go_on = Registry(), threading.Event(), threading.Event()
    loads: list[int] = []

    def load() -> None:
        loads.append(1)
        assert registry.find_op("slow_op") is None  # from inside: what is there so far
        entered.set()
        assert go_on.wait(30)
        transaction = registry.transaction("p")
        transaction.add("primitive", primitive("slow_op"))
        transaction.commit()

    registry.loader = load
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(registry.find_op("slow_op"))) for _ in range(4)
    ]
    threads[0].start()
    assert entered.wait(30)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert loads == [1] and len(found) == 4 and all(found)


def test_loading_is_tried_again_after_an_error() -> None:
    registry = Registry()
    attempts: list[int] = []

    def load() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt

    registry.loader = load
    with pytest.raises(KeyboardInterrupt):
        registry.load()
    registry.load()
    registry.load()
    assert len(attempts) == 2


def test_a_template_outside_any_plugin(python: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "cubed.cl.j2").write_text(
        "{% macro forward(x) %}x * x * x{% endmacro %}\n"
        "{% macro backward(x, grad, out) %}3 * grad * x * x{% endmacro %}\n",
        encoding="utf-8",
    )
    code = f"""
import netcl_core as nc
from netcl_core.autograd import AutogradPrimitive
nc.plugins.add_templates("mine", {str(tmp_path)!r})
record = AutogradPrimitive.from_template("mine/cubed.cl.j2")
print(record.name, record.arity, record.forward(["x"], {{}}))
"""
    assert python(code) == "cubed 1 x * x * x"
