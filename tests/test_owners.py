"""Names have owners: a stranger takes nobody's place, and equal claims are decided by the user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from broken import CLASS, END, GOOD, HEAD, SQUARE
from click.testing import CliRunner
from distributions import TEMPLATE, install, install_plugin
from given import Given
from netcl_market.states import States
from netcl_market.survey import survey

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, Implementation
from netcl_core.cli import main
from netcl_core.errors import AmbiguousOpError, RegistrationError
from netcl_core.plugins.loading import in_order
from netcl_core.plugins.registry import registry

#: They start processes.
pytestmark = pytest.mark.turns(2)

ASK = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
warnings.simplefilter("ignore")
said = {}
with nc.use_device("numpy"):
    for name in %r:
        try:
            said[name] = getattr(ag, name)(3.0).item()
        except Exception as error:
            said[name] = f"{type(error).__name__}: {error}"
states = {p.id: [p.state, p.code, p.reason] for p in nc.plugins.list()}
print(json.dumps([said, states]))
"""


def asked(python: Callable[..., str], site: Path, *ops: str, **variables: str) -> tuple[Any, Any]:
    """What ops give for 3.0, or their error; and the states of the plugins by their ids."""
    said, states = json.loads(python(ASK % (ops,), PYTHONPATH=str(site), **variables))
    return said, states


def stranger(site: Path, distribution: str, name: str, code: str) -> None:
    """A plugin of a distribution that is named otherwise than its entry point."""
    package = distribution.replace("-", "_")
    files = {f"{package}/__init__.py": code, f"{package}/templates/plus.cl.j2": TEMPLATE}
    install(site, distribution, files, {"netcl_core.plugins": {name: f"{package}:plugin"}})


# -- plugins of one name ---------------------------------------------------------------


def test_a_stranger_with_a_first_partys_name_takes_nothing(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    """Neither its state nor its templates, and a setting that names the one lets no other in."""
    stranger(tmp_path, "netcl-plugin-aaa", "elementwise", GOOD.format(name="strange_op"))
    said, states = asked(python, tmp_path, "relu", "strange_op")
    assert said == {"relu": 3.0, "strange_op": 10.0}
    both = ("netcl-plugin-elementwise:elementwise", "netcl-plugin-aaa:elementwise")
    assert [states[each][0] for each in both] == ["active", "active"]
    for only in ("elementwise", "netcl-plugin-elementwise:elementwise"):
        states = asked(python, tmp_path, NETCL_PLUGINS=only)[1]
        assert [states[each][0] for each in both] == ["active", "disabled"]


def test_a_name_that_may_mean_two_distributions_lets_neither_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger(tmp_path, "elementwise", "mine", GOOD.format(name="strange_op"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NETCL_PLUGINS", "elementwise")
    found = {plugin.id: plugin for plugin in survey(States())}
    two = [found["elementwise:mine"], found["netcl-plugin-elementwise:elementwise"]]
    assert all("'elementwise', which may mean another" in plugin.reason for plugin in two)
    monkeypatch.setenv("NETCL_PLUGINS", "elementwise:mine,netcl-plugin-elementwise")
    states = {plugin.id: plugin.state for plugin in survey(States())}
    assert states["netcl-plugin-elementwise:elementwise"] == "found"


def test_a_prefix_that_two_claim_is_nobodys(tmp_path: Path, python: Callable[..., str]) -> None:
    """Whoever relies on it is refused with both named; what is the plugin's own goes on."""
    template = "AutogradPrimitive.from_template('same/plus.cl.j2', name='by_prefix')"
    stranger(tmp_path, "zz-first", "same", f"{CLASS}        registry.add({template}){END}")
    stranger(tmp_path, "aa-second", "same", GOOD.format(name="by_registrar"))
    said, states = asked(python, tmp_path, "by_registrar")
    assert said == {"by_registrar": 10.0}
    state, code, reason = states["zz-first:same"]
    assert (state, code) == ("quarantined", "NP113")
    assert "aa-second:same and zz-first:same both claim the prefix 'same'" in reason
    assert ":same/plus.cl.j2 is found in any case" in reason


# -- equal claims ----------------------------------------------------------------------


def test_two_short_roads_to_one_op_are_a_tie(tmp_path: Path, python: Callable[..., str]) -> None:
    for distribution in ("short-a", "short-b"):
        package = distribution.replace("-", "_")
        files = {f"{package}/__init__.py": f"{HEAD}op = AutogradPrimitive('one_op', {SQUARE}, 1)\n"}
        points = {"netcl_core.primitives": {"one_op": f"{package}:op"}}
        install(tmp_path, distribution, files, points)
    said = asked(python, tmp_path, "one_op")[0]["one_op"]
    assert said.startswith("AmbiguousOpError: one_op: short-a:one_op and short-b:one_op offer it")
    assert "Choose with nc.prefer('short-a:one_op') or NETCL_RANK=short-a:one_op" in said
    assert asked(python, tmp_path, "one_op", NETCL_RANK="short-b:one_op")[0] == {"one_op": 9.0}
    code = "import netcl_core as nc; print(nc.plugins.why('one_op', device='numpy'))"
    told = python(code, PYTHONPATH=str(tmp_path))
    assert "(short-a, priority 0): tied" in told and "(short-b, priority 0): tied" in told


def test_two_plugins_of_one_distribution_are_a_tie_as_well() -> None:
    record = AutogradPrimitive("tied_op", lambda x, a: f"{x[0]} + 1", None, arity=1)
    try:
        for owner in ("d:g:one", "d:g:two"):
            transaction = registry.transaction("d", owner=owner)
            transaction.add("primitive", record)
            transaction.commit()
        with pytest.raises(
            AmbiguousOpError, match=r"d:one and d:two .*NETCL_PLUGINS_DISABLE=d:two"
        ):
            _ = ag.tied_op
    finally:
        registry.remove_provider("d")


def test_two_namespaces_of_one_name_are_a_tie(
    give: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("left", "right"):
        give(name, "shared_space")
    with pytest.raises(AmbiguousOpError, match="left:shared_space and right:shared_space"):
        _ = nc.shared_space
    monkeypatch.setenv("NETCL_RANK", "right:shared_space")
    assert nc.shared_space is json


# -- commands --------------------------------------------------------------------------

ADDS = """
import click
from netcl_core import hookimpl
class Plugin:
    @hookimpl
    def netcl_cli_commands(self, add_command):
        for name in ("lock", "list", "mine"):
            add_command(click.Command(name, callback=lambda: print("taken")), group="plugins")
plugin = Plugin()
"""
RUN = """
import shlex, warnings
from click.testing import CliRunner
from netcl_core.cli import main
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for words in ("lock --help", "mine", "list", "why 'plugins lock'"):
        print(CliRunner().invoke(main.netcl, ["plugins", *shlex.split(words)]).stdout)
print(*dict.fromkeys(str(each.message) for each in caught))
"""


def test_a_command_that_another_has_is_refused_and_the_newcomer_named(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    install_plugin(tmp_path, "aaa", ADDS)
    said = python(RUN, PYTHONPATH=str(tmp_path))
    assert "Usage: netcl plugins lock [OPTIONS]" in said and said.count("taken") == 1
    assert "plugin 'tools'" not in said  # nobody blames it
    assert "-> command netcl-plugin-tools 1 used: the highest priority" in " ".join(said.split())
    for name, whose in (("lock", "netcl-plugin-tools"), ("list", "netcl-market")):
        who = "plugin 'aaa' of netcl-plugin-aaa 1.0: does not get the command"
        assert f"{who} 'plugins {name}', which is that of {whose}" in said


@pytest.mark.parametrize("name", ["", "two words", "--help", None])
def test_a_command_that_nobody_could_call_is_refused(name: Any) -> None:
    class Odd:
        @nc.hookimpl
        def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
            add_command(click.Command(name))

    nc.plugins.register(Odd(), "odd")
    try:
        with pytest.warns(nc.plugins.PluginWarning, match=r"'odd'.*no commands .*one word"):
            assert CliRunner().invoke(main.netcl, ["--help"]).exit_code == 0
    finally:
        nc.plugins.unregister("odd")


# -- the order of loading --------------------------------------------------------------


def test_plugins_load_after_those_that_they_depend_on(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    """One that uses another's op at import works whatever its name; a circle harms nobody."""
    uses = "import netcl_core as nc, netcl_core.autograd as ag\nwith nc.use_device('numpy'):\n"
    uses += "    assert ag.needed_op(3.0).item() == 10\n"
    plus, of = {"plus.cl.j2": TEMPLATE}, "Requires-Dist: netcl-plugin-"
    good = uses + GOOD.format(name="using_op")
    install_plugin(tmp_path, "aab", good, plus, headers=["Requires-Dist: netcl_plugin.zzz"])
    install_plugin(tmp_path, "zzz", GOOD.format(name="needed_op"), plus)
    for name, other in (("ring_a", "ring_b"), ("ring_b", "ring_a")):
        good = GOOD.format(name=f"{name}_op")
        install_plugin(tmp_path, name, good, plus, headers=[of + other])
    said = asked(python, tmp_path, "using_op", "ring_a_op", "ring_b_op")[0]
    assert said == {"using_op": 10.0, "ring_a_op": 10.0, "ring_b_op": 10.0}


def test_an_extra_is_no_dependency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, needs in (("o_a", "netcl-plugin-o_b; extra == 'x'"), ("o_b", "netcl-plugin-o_c>=1")):
        install_plugin(tmp_path, name, "", headers=[f"Requires-Dist: {needs}"])
    install_plugin(tmp_path, "o_c", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [plugin for plugin in survey(States()) if plugin.name.startswith("o_")]
    assert [plugin.name for plugin in in_order(found)] == ["o_a", "o_c", "o_b"]


# -- what is refused at registration ---------------------------------------------------


@pytest.mark.parametrize("priority", ["9", 1.5, True, None])
@pytest.mark.parametrize("implements", [False, True])
def test_a_priority_is_an_integer(priority: Any, implements: bool) -> None:
    record: Any = AutogradPrimitive("ranked_op", lambda x, a: x[0], None, arity=1)
    given = Given(record, priority=priority)
    if implements:
        given = Given(Implementation("matmul", "odd", print, priority=priority))
    with pytest.raises(RegistrationError, match="an integer") as caught:
        nc.plugins.register(given, "mine")
    assert caught.value.code == "NP315"
