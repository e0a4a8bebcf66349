"""How hooks are called: fewer arguments, optional ones, optional hooks; and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from netcl_market.doctor_checks import doctor_checks
from netcl_plugin_kit.check import registration

import netcl_core as nc
from netcl_core.errors import PluginError, RegistrationError
from netcl_core.plugins import hooks, loading
from netcl_core.plugins.registry import registry


@pytest.fixture
def give() -> Iterator[Callable[[Any, str], Any]]:
    """Register a plugin by name; all are taken out again after the test."""
    names: list[str] = []

    def register(plugin: Any, name: str) -> Any:
        entry = nc.plugins.register(plugin, name)
        names.append(name)
        return entry

    yield register
    for name in names:
        nc.plugins.unregister(name)


def plugin_of(**functions: Callable[..., Any]) -> Any:
    """A plugin with these hooks, each a plain function."""
    return marked_plugin(**{name: nc.hookimpl(each) for name, each in functions.items()})


def marked_plugin(**functions: Callable[..., Any]) -> Any:
    """A plugin of functions that are marked already."""
    return type("Plugin", (), {name: staticmethod(each) for name, each in functions.items()})()


def test_a_hook_may_take_fewer_arguments(give: Callable[[Any, str], Any]) -> None:
    calls: list[str] = []

    def no_cases() -> str:
        calls.append("cases")
        return "it needs none"

    def nothing() -> None:
        calls.append("registration")

    given = plugin_of(
        netcl_register_primitives=nothing,
        netcl_cli_commands=nothing,
        netcl_conformance_cases=no_cases,
    )
    entry = give(given, "brief")
    assert entry.state == "active" and calls == ["registration"]
    nc.plugins.plugin_commands([entry])
    ((_, hook),) = [
        each for each in loading.implementing("netcl_conformance_cases") if each[0] is entry
    ]
    assert hook(op="anything") == "it needs none"
    assert calls == ["registration", "registration", "cases"]


def test_an_optional_argument_is_given(give: Callable[[Any, str], Any]) -> None:
    """pluggy leaves out what has a default; a plugin would register nothing, silently."""

    def add(registry: Any = None, *, later: str = "not yet") -> None:
        registry.add("optional_space", "json")
        assert later == "not yet"

    entry = give(plugin_of(netcl_register_namespaces=add), "optional")
    assert entry.provides == ("optional_space",)

    def commands(add_command: Any = None) -> None:
        add_command(click.Command("optional-command"))

    added = give(plugin_of(netcl_cli_commands=commands), "commanding")
    assert nc.plugins.plugin_commands([added]).keys() == {"optional-command"}


def test_methods_of_every_sort_are_hooks(give: Callable[[Any, str], Any]) -> None:
    class Plugin:
        @staticmethod
        @nc.hookimpl
        def netcl_register_namespaces(registry: Any) -> None:
            registry.add("static_space", "json")

        @classmethod
        @nc.hookimpl
        def netcl_doctor(cls) -> list[tuple[str, bool, str]]:
            return [(cls.__name__, True, "well")]

    assert give(Plugin(), "sorts").provides == ("static_space",)
    assert ("sorts: Plugin", True, "well") in doctor_checks()


def test_a_hook_under_another_name(give: Callable[[Any, str], Any]) -> None:
    def add(registry: Any) -> None:
        registry.add("named_space", "json")

    marked = nc.hookimpl(specname="netcl_register_namespaces")(add)
    assert give(marked_plugin(add_mine=marked), "named").provides == ("named_space",)


@pytest.mark.parametrize("option", ["wrapper", "hookwrapper", "tryfirst", "trylast"])
@pytest.mark.parametrize("hook", ["netcl_register_primitives", "netcl_doctor"])
def test_what_would_mean_nothing_is_refused(option: str, hook: str) -> None:
    """Also where the hook is called much later; and nothing of the plugin stays."""

    def function() -> Iterator[None]:
        yield

    marked = nc.hookimpl(**{option: True})(function)
    for _ in range(2):
        with pytest.raises(PluginError, match=rf"marks {hook} with {option}=True") as caught:
            nc.plugins.register(marked_plugin(**{hook: marked}), "mine")
        assert caught.value.code == "NP314"
    assert "mine" not in loading.known and hooks._manager.get_plugin("mine") is None


def test_two_functions_for_one_hook_are_refused() -> None:
    def first() -> None:
        return None

    def second() -> None:
        return None

    again = nc.hookimpl(specname="netcl_doctor")(second)
    plugin = marked_plugin(netcl_doctor=nc.hookimpl(first), again=again)
    with pytest.raises(PluginError, match="it has netcl_doctor twice") as caught:
        nc.plugins.register(plugin, "mine")
    assert caught.value.code == "NP314"


def test_an_optional_hook_of_a_newer_core_is_passed_over(give: Callable[[Any, str], Any]) -> None:
    def never() -> None:
        raise AssertionError("called")

    later = nc.hookimpl(optionalhook=True)(never)
    entry = give(marked_plugin(netcl_register_dreams=later), "early")
    assert entry.state == "active" and entry.provides == ()
    with pytest.raises(PluginError, match="'netcl_register_dreams' is no hook") as caught:
        nc.plugins.register(plugin_of(netcl_register_dreams=never), "strict")
    assert caught.value.code == "NP301"


@pytest.mark.parametrize("optional", [True, False])
def test_an_optional_hook_needs_no_newer_api(
    optional: bool, give: Callable[[Any, str], Any], tmp_path: Path
) -> None:
    """A plugin for hook API 1.0 may offer patterns to those cores that ask for them."""
    marked = nc.hookimpl(optionalhook=optional)(lambda registry: None)
    entry = give(marked_plugin(netcl_register_patterns=marked), "patient")
    entry.manifest = SimpleNamespace(api=(1, 0))
    found = [each.text for each in registration.too_old("patient")]
    text = "'patient' has the hook netcl_register_patterns of hook API 1.2; it says 1.0"
    assert found == ([] if optional else [text])


def test_a_failing_hook_is_its_own(give: Callable[[Any, str], Any]) -> None:
    """The other plugins' hooks are called, before it and after it."""

    def fails(registry: Any) -> None:
        registry.add("two words", "json")

    give(plugin_of(netcl_register_namespaces=lambda registry: registry.add("a_1", "json")), "a")
    with pytest.raises(RegistrationError) as caught:
        nc.plugins.register(plugin_of(netcl_register_namespaces=fails), "b")
    assert "while registering the plugin 'b'" in caught.value.__notes__
    give(plugin_of(netcl_register_namespaces=lambda registry: registry.add("c_1", "json")), "c")
    names = {row.record.name for row in registry.rows("namespace")}
    assert {"a_1", "c_1"} <= names
