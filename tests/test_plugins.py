"""Plugins of other people: good ones work everywhere, broken ones stay alone with it."""

from __future__ import annotations

import importlib
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
from broken import GOOD
from click.testing import CliRunner
from distributions import TEMPLATE, install
from environments import Environment
from netcl_market.doctor_checks import doctor_checks

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import hookspecs
from netcl_core.autograd import AutogradPrimitive
from netcl_core.cli import main
from netcl_core.errors import (
    AmbiguousOpError,
    MissingOpError,
    PluginError,
    RegistrationError,
    TemplateError,
)
from netcl_core.plugins.registry import Registry
from netcl_core.runtime.rendering import has_prefix

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
    with pytest.raises(RegistrationError, match="an object of type str to add") as caught:
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


def test_a_prefix_goes_with_its_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with one that failed; one that was there before stays."""
    for package, factor in (("pk_broken", 2), ("pk_one", 3), ("pk_two", 4)):
        code = GOOD.format(name="prefixed")
        if package == "pk_broken":
            code = code.replace("add_template('plus", "add_template('missing")
        folder = tmp_path / package / "templates"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text(code)
        (folder / "plus.cl.j2").write_text(TEMPLATE.replace("x * x + 1", f"x * {factor}"))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TemplateError):
        nc.plugins.register(importlib.import_module("pk_broken").plugin, "mine")
    for package, value in (("pk_one", 3), ("pk_two", 4)):
        nc.plugins.register(importlib.import_module(package).plugin, "mine")
        assert ag.prefixed(np.float32(1)).item() == value
        nc.plugins.unregister("mine")
    assert not has_prefix("mine")
    nc.plugins.add_templates("given", tmp_path / "pk_one" / "templates")
    nc.plugins.register(importlib.import_module("pk_two").plugin, "given")
    assert ag.prefixed(np.float32(1)).item() == 3
    nc.plugins.unregister("given")
    assert has_prefix("given")


def test_the_cores_prefix_cannot_be_registered() -> None:
    with pytest.raises(PluginError, match="the prefix of the core's own templates") as caught:
        nc.plugins.register(plugin_of(primitive("almost")), "core")
    assert caught.value.code == "NP114" and has_prefix("core")


TWO_OF_ONE = """
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.ops.choosing import unfit
from netcl_core.plugins.registry import registry

class Device:
    has_kernels, kind, extensions, opencl_c = True, "cpu", (), (1, 2)
    def __str__(self):
        return "fake"

registry.load()
reasons = [unfit(registry.find_op(name).offer, Device()) for name in ("da_op", "db_op")]
nc.plugins.unregister("da")
with nc.use_device("numpy"):
    print(reasons, ag.db_op(3.0).item(),
          [plugin.name for plugin in nc.plugins.list() if plugin.distribution == "two-of-one"],
          [name for name in registry.op_names() if name.startswith("d")])
"""


def test_two_plugins_of_one_distribution(tmp_path: Path, python: Callable[..., str]) -> None:
    """What one requires does not bind the other, and it takes only what is its own along."""
    files: dict[str, str] = {}
    points: dict[str, dict[str, str]] = {"netcl_core.plugins": {}, "netcl_core.manifest": {}}
    for name, needs in (("da", '[requires]\nopencl = "99.0"\n'), ("db", "")):
        files[f"{name}_package/__init__.py"] = GOOD.format(name=f"{name}_op")
        files[f"{name}_package/templates/plus.cl.j2"] = TEMPLATE
        files[f"{name}_package/netcl_plugin.toml"] = needs
        points["netcl_core.plugins"][name] = f"{name}_package:plugin"
        points["netcl_core.manifest"][name] = f"{name}_package:netcl_plugin.toml"
    install(tmp_path, "two-of-one", files, points)
    said = python(TWO_OF_ONE, PYTHONPATH=str(tmp_path), NETCL_PLUGINS="two-of-one")
    reason = "it needs OpenCL C 99.0, fake has 1.2"
    assert said == f"['{reason}', None] 10.0 ['db'] ['db_op']"


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
            registry.add(ag.composite(lambda x: x, name="both_kinds"))

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
        weight.overwrite(weight.numpy() - 0.1 * weight.grad.numpy())
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
    assert ("loud: throat", True, "clear") in doctor_checks()


def test_a_failing_hook_takes_nobody_along(names: list[str]) -> None:
    nc.plugins.register(Commands(fails=True), "hoarse")
    nc.plugins.register(Commands(), "loud")
    names += ["hoarse", "loud"]
    with pytest.warns(nc.plugins.PluginWarning, match=r"'hoarse'.*no commands.*no voice"):
        commands = nc.plugins.plugin_commands()
    assert "shout" in commands
    checks = list(doctor_checks())
    assert ("plugin hoarse", False, "RuntimeError: no idea") in checks
    assert ("loud: throat", True, "clear") in checks


def test_one_command_of_two_plugins(names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that names both, until a setting chooses; then the other one is told."""
    for name in ("second", "first"):
        nc.plugins.register(Commands(), name)
        names.append(name)
    said = CliRunner().invoke(main.netcl, ["shout", "--loud"])
    assert said.exit_code == 3 and "first:shout and second:shout offer it" in said.stderr
    monkeypatch.setenv("NETCL_RANK", "second:shout")
    with pytest.warns(nc.plugins.PluginWarning, match="'first'.* does not get the command 'shout'"):
        assert nc.plugins.plugin_commands()["shout"].name == "shout"


# -- the registry's loading ----------------------------------------------------------


def test_other_threads_wait_for_the_plugins() -> None:
    """A look-up during loading neither misses what is still to come nor loads twice."""
    entered, go_on = threading.Event(), threading.Event()
    loads: list[int] = []

    def load(kinds: tuple[str, ...] | None, name: str) -> None:
        if name != "slow_op":
            return
        loads.append(1)
        assert registry.find_op("slow_op") is None  # from inside: what is there so far
        entered.set()
        assert go_on.wait(30)
        transaction = registry.transaction("p")
        transaction.add("primitive", primitive("slow_op"))
        transaction.commit()

    registry = Registry(load)
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
    attempts: list[int] = []

    def load(kinds: tuple[str, ...] | None, name: str) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyboardInterrupt

    registry = Registry(load)
    with pytest.raises(KeyboardInterrupt):
        registry.load()
    registry.load()
    registry.load()
    assert len(attempts) == 3  # the first again, and then for all that is installed


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
