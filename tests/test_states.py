"""The life of a plugin: switches, what is remembered on disk, what is forgotten, strict mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from broken import GOOD, install_broken
from distributions import TEMPLATE, install, install_plugin
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_market.file_memory import FileMemory
from netcl_market.finding import InstalledDistribution, distributions
from netcl_market.requirements import plainly_fits
from netcl_market.states import States
from netcl_market.survey import survey, unknown_names
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

from netcl_core import config

STATES = """
import json, warnings
import netcl_core as nc
warnings.simplefilter("ignore")
print(json.dumps({p.name: [p.state, p.code, p.reason] for p in nc.plugins.list()
                  if "netcl-plugin-t_" in p.distribution}))
"""


def add_good(site: Path, name: str, **more: Any) -> Path:
    return install_plugin(
        site, name, GOOD.format(name=f"{name}_op"), {"plus.cl.j2": TEMPLATE}, **more
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed plugins: `t_one`, `t_two` and `t_three`."""
    for name in ("t_one", "t_two", "t_three"):
        add_good(tmp_path / "site", name)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def found(name: str) -> InstalledDistribution:
    (one,) = [each for each in distributions() if each.name == name]
    return one


# -- switches --------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("variables", "active", "word"),
    [
        ({}, {"t_one", "t_two", "t_three"}, ""),
        ({"NETCL_PLUGINS": "t_one, netcl-plugin-t.two"}, {"t_one", "t_two"}, "NETCL_PLUGINS"),
        ({"NETCL_PLUGINS": ""}, set(), "NETCL_PLUGINS"),
        ({"NETCL_PLUGINS_DISABLE": "t_one"}, {"t_two", "t_three"}, "NETCL_PLUGINS_DISABLE"),
        (
            {"NETCL_PLUGINS": "t_one,t_two", "NETCL_PLUGINS_DISABLE": "t_one"},
            {"t_two"},
            "NETCL_PLUGINS",
        ),
        ({"NETCL_PLUGINS_AUTOLOAD": "0"}, set(), "NETCL_PLUGINS_AUTOLOAD"),
    ],
)
def test_switches(
    site: Path, python: Callable[..., str], variables: dict[str, str], active: set[str], word: str
) -> None:
    said = json.loads(python(STATES, PYTHONPATH=str(site), **variables))
    assert {name for name, (state, _, _) in said.items() if state == "active"} == active
    off = {name: row for name, row in said.items() if name not in active}
    assert all(state == "disabled" and word in reason for state, _, reason in off.values())
    assert len(said) == 3


def test_one_plugin_of_a_distribution_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "two-of-one", {}, {"netcl_core.plugins": {"t_a": "a:b", "t_b": "a:b"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NETCL_PLUGINS_DISABLE", "two-of-one:t_a")
    assert (state_of("t_a")[0], state_of("t_b")[0]) == ("disabled", "found")


def test_switches_in_the_file(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.netcl]\nplugins = ["t_one", "t_two"]\nplugins-disable = ["t_two"]\n'
    )
    monkeypatch.chdir(tmp_path)
    states = {plugin.name: plugin.state for plugin in survey(States())}
    assert (states["t_one"], states["t_two"], states["t_three"]) == ("found", *["disabled"] * 2)


def test_a_switch_that_names_nobody(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_PLUGINS_DISABLE", "t_one, t_tow")
    (complaint,) = unknown_names(survey(States()))
    assert "NP403" in complaint and "did you mean t_two?" in complaint


def test_such_a_name_is_told_once(site: Path, python: Callable[..., str]) -> None:
    """Also to those who turn warnings into errors: the next use works."""
    code = """
import netcl_core as nc
try:
    nc.plugins.list()
except nc.plugins.PluginWarning as warning:
    print("NP403" in str(warning), len(nc.plugins.list()) > 2)
"""
    assert python(code, PYTHONPATH=str(site), NETCL_PLUGINS="t_one,t_tow") == "True True"


def test_a_prefix_is_free_when_its_owner_is_disabled(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"netcl_core.plugins": {"t_one": "other:plugin"}}
    install(site, "zz-other", {"other.py": ""}, points)
    prefixes = {p.distribution: p.prefix for p in survey(States())}
    assert (prefixes["netcl-plugin-t_one"], prefixes["zz-other"]) == ("t_one", "zz-other:t_one")
    monkeypatch.setenv("NETCL_PLUGINS_DISABLE", "netcl-plugin-t_one")
    prefixes = {p.distribution: p.prefix for p in survey(States())}
    assert prefixes["zz-other"] == "t_one"


def test_strict_names_all_that_failed(site: Path, python: Callable[..., str]) -> None:
    for name in ("raising", "other_api"):
        install_broken(site, name)
    code = """
import warnings
warnings.simplefilter("ignore")
import netcl_core as nc
for _ in range(2):
    try:
        nc.plugins.list()
    except nc.errors.PluginError as error:
        print(error.code, "raising" in str(error), "NP101" in str(error), "t_one" in str(error))
"""
    said = python(code, PYTHONPATH=str(site), NETCL_PLUGINS_STRICT="1").splitlines()
    assert said == ["NP404 True True False"] * 2


def test_a_superseded_plugin_warns_and_works(site: Path, python: Callable[..., str]) -> None:
    add_good(site, "t_old", manifest='[plugin]\nname = "t_old"\nsuperseded_by = "newer"\n')
    code = """
import warnings
import netcl_core as nc
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = {p.name: p.state for p in nc.plugins.list()}
text = [str(w.message) for w in caught if w.category is nc.errors.NetclDeprecationWarning]
print(found["t_old"], text)
"""
    said = python(code, PYTHONPATH=str(site))
    assert said == "active ['netcl-plugin-t_old is superseded by newer']"


def test_an_installed_plugin_may_have_the_name_of_a_registered_one(
    site: Path, python: Callable[..., str]
) -> None:
    code = """
import warnings
warnings.simplefilter("ignore")
import netcl_core as nc
class Mine:
    @nc.hookimpl
    def netcl_register_primitives(self, registry):
        pass
nc.plugins.register(Mine(), "t_one")
print(*sorted((p.distribution, p.state) for p in nc.plugins.list() if p.name == "t_one"))
with nc.use_device("numpy"):
    print(nc.autograd.t_one_op(3.0).item())
"""
    said = python(code, PYTHONPATH=str(site))
    assert said == "('netcl-plugin-t_one', 'active') ('t_one', 'active')\n10.0"


@pytest.mark.parametrize(
    ("variables", "headers", "said"),
    [
        (
            {"NETCL_PLUGINS_DISABLE": "netcl-plugin-nn"},
            [],
            "disabled (NETCL_PLUGINS_DISABLE (plugins-disable) names it)",
        ),
        ({}, ["Requires-Dist: netcl-core>=99"], "incompatible (it needs netcl-core>=99, "),
        ({}, [], "quarantined (ModuleNotFoundError: "),
    ],
)
def test_what_is_missing_is_installed_but_not_active(
    site: Path,
    python: Callable[..., str],
    variables: dict[str, str],
    headers: list[str],
    said: str,
) -> None:
    """Whatever spelling of its name a distribution has."""
    points = {"netcl_core.plugins": {"nn": "nowhere_package:plugin"}}
    install(site, "Netcl_Plugin.NN", {}, points, headers=headers)
    code = """
import warnings
import netcl_core as nc
warnings.simplefilter("ignore")
try:
    nc.nn
except nc.errors.MissingNameError as error:
    print(error)
"""
    text = python(code, PYTHONPATH=str(site), **variables)
    assert f"netcl-plugin-nn is installed but {said}" in text and "pip install" not in text
    assert text.endswith("see `netcl plugins info netcl-plugin-nn`.")


def _said_of(op: str, kinds: Sequence[str], site: Path, python: Any) -> str:
    """The error for an op whose name a plugin that is switched off has among what it brings."""
    rows = "".join(f'[[provides]]\nname = "{op}"\nkind = "{kind}"\n' for kind in kinds)
    head = 'schema = 1\n[plugin]\nname = "t_off"\napi = [1, 0]\n'
    add_good(site, "t_off", manifest=head + rows)
    code = f"""
import netcl_core.autograd as ag
try:
    ag.{op}
except AttributeError as error:
    print(error)
"""
    said: str = python(code, PYTHONPATH=str(site), NETCL_PLUGINS_DISABLE="t_off")
    return said


def test_an_op_of_a_plugin_that_is_switched_off_names_it(tmp_path: Path, python: Any) -> None:
    """Also where no catalogue knows the op: its manifest says who brings it."""
    text = _said_of("t_off_op", ["primitive"], tmp_path, python)
    assert "netcl-plugin-t-off is installed but disabled (NETCL_PLUGINS_DISABLE" in text


def test_only_who_would_bring_the_op_is_named(tmp_path: Path, python: Any) -> None:
    """Not who would bring a pattern or an implementation of that name."""
    text = _said_of("t_of_two", ["pattern", "implementation"], tmp_path, python)
    assert "no installed plugin provides this op" in text and "t-off" not in text


# -- the memory ------------------------------------------------------------------------


def remember(name: str, code: str = "NP207", reason: str = "why") -> None:
    states = States()
    states.put(found(name), "netcl_core.plugins", name.removeprefix("netcl-plugin-"), code, reason)
    states.save()


def state_of(name: str, **options: Any) -> tuple[str, str]:
    states = States()
    (plugin,) = [each for each in survey(states, **options) if each.name == name]
    states.save()
    return plugin.state, plugin.reason


def test_a_failure_is_remembered_for_these_very_files(site: Path) -> None:
    remember("netcl-plugin-t_one")
    assert state_of("t_one") == ("quarantined", "why")
    assert state_of("t_one", deadly_only=True) == ("found", "")  # a process tries it again
    assert state_of("t_two") == ("found", "")
    record = site / "netcl_plugin_t_one-1.0.dist-info" / "RECORD"
    assert str(record.parent) in config.plugin_memory("states.json").read_text()
    record.write_text(record.read_text() + "t_one_package/new.py,sha256=x,1\n")
    assert state_of("t_one") == ("found", "")
    assert str(record.parent) not in config.plugin_memory("states.json").read_text()


def test_another_version_is_not_held_for_the_old_one(site: Path) -> None:
    remember("netcl-plugin-t_one")
    metadata = site / "netcl_plugin_t_one-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    assert state_of("t_one") == ("found", "")


def test_what_ended_the_interpreter_is_not_tried_again(site: Path) -> None:
    remember("netcl-plugin-t_one", "NP208", "it ended the interpreter")
    assert state_of("t_one", deadly_only=True)[0] == "quarantined"


def test_what_another_process_notes_meanwhile_stays(site: Path) -> None:
    """A process reads, a doctor's probe writes, the process writes what it has found itself."""
    group = "netcl_core.plugins"
    remember("netcl-plugin-t_two")
    mine = States()
    mine.put(found("netcl-plugin-t_one"), group, "t_one", "NP207", "why")
    mine.put(found("netcl-plugin-t_three"), group, "t_three", "NP207", "why")
    mine.clear(found("netcl-plugin-t_two"), group, "t_two")
    for name, code in (("one", "NP208"), ("two", "NP209")):
        remember(f"netcl-plugin-t_{name}", code, "it ended")
    mine.save()
    said = [state_of(name) for name in ("t_one", "t_two", "t_three")]
    assert said == [*[("quarantined", "it ended")] * 2, ("quarantined", "why")]
    last = States()  # which has read all that
    last.clear(found("netcl-plugin-t_one"), group, "t_one")
    last.save()
    assert state_of("t_one") == ("found", "")


def test_what_is_gone_is_forgotten(site: Path) -> None:
    import shutil

    remember("netcl-plugin-t_one")
    shutil.rmtree(site / "netcl_plugin_t_one-1.0.dist-info")
    remember("netcl-plugin-t_two")
    kept = json.loads(config.plugin_memory("states.json").read_text())["plugins"]
    (key,) = [key for key in kept if key.startswith(str(site))]
    assert "t_two" in key


def test_a_plugin_that_loads_again_is_forgotten(site: Path, python: Callable[..., str]) -> None:
    install_broken(site, "raising")
    module = site / "raising_package" / "__init__.py"
    code = STATES.replace("t_", "")
    assert json.loads(python(code, PYTHONPATH=str(site)))["raising"][1] == "NP207"
    place = "(at raising_package/__init__.py:1, in <module>)"
    assert state_of("raising") == ("quarantined", f"RuntimeError: out of order {place}")
    module.write_text(GOOD.format(name="again_op"))
    (module.parent / "templates").mkdir()
    (module.parent / "templates" / "plus.cl.j2").write_text(TEMPLATE)
    assert json.loads(python(code, PYTHONPATH=str(site)))["raising"][0] == "active"
    assert state_of("raising") == ("found", "")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 1, "plugins": []}', '{"schema": 9}',
     '{"schema": 1, "plugins": {"a": {}}}', '{"schema": 1, "plugins": {"a": 3}}', "[" * 100_000,
     '{"schema": 1, "plugins": {"a": {"version": 1, "record": "", "code": "", "reason": "",'
     ' "traceback": "", "at": 1}}}'],
)  # fmt: skip
def test_a_corrupt_memory_is_none(site: Path, text: str) -> None:
    path = config.plugin_memory("states.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert state_of("t_one") == ("found", "")
    remember("netcl-plugin-t_one")
    assert state_of("t_one")[0] == "quarantined"


def test_binary_rubbish_is_no_memory(site: Path) -> None:
    path = config.plugin_memory("states.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\xff\xfe\x00")
    assert state_of("t_one") == ("found", "")


def test_a_memory_that_cannot_be_written_is_not_fatal(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "file" / "below"))
    remember("netcl-plugin-t_one")
    assert state_of("t_one") == ("found", "")


def test_the_memory_is_replaced_whole(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember("netcl-plugin-t_one")
    before = config.plugin_memory("states.json").read_text()

    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        remember("netcl-plugin-t_two")
    assert config.plugin_memory("states.json").read_text() == before
    assert not list(config.plugin_memory("states.json").parent.glob("*.tmp"))


def test_a_plugins_warning_is_not_lost_with_the_memory(
    site: Path, python: Callable[..., str], tmp_path: Path
) -> None:
    """A folder where the file should be: loading goes on."""
    install_broken(site, "raising")
    cache = tmp_path / "cache"
    (cache / "plugins" / "states.json").mkdir(parents=True)
    said = python(STATES.replace("t_", ""), PYTHONPATH=str(site), NETCL_CACHE_DIR=str(cache))
    assert json.loads(said)["raising"][0] == "quarantined"
    assert list((cache / "plugins" / "states.json").iterdir()) == []


# -- requirements ----------------------------------------------------------------------

NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(lambda n: ".".join(map(str, n)))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([">=", "<=", "<", ">", "==", "!="]), NUMBERS), max_size=3),
    NUMBERS,
)
def test_plain_versions_are_compared_as_packaging_does(
    specifiers: list[tuple[str, str]], version: str
) -> None:
    text = ",".join(f"{sign}{number}" for sign, number in specifiers)
    assert plainly_fits(text, version) == SpecifierSet(text).contains(version)


def test_older_packaging_knows_no_other_versions(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It raises for one that is none by PEP 440; a plugin that needs it is incompatible."""

    def contains(self: Any, version: str, prereleases: bool) -> bool:
        raise InvalidVersion(version)

    monkeypatch.setattr(SpecifierSet, "contains", contains)
    install(site, "old-style", {}, {}, version="2004d")
    add_good(site, "t_needy", headers=["Requires-Dist: old-style>=1"])
    states = {plugin.name: (plugin.code, plugin.reason) for plugin in survey(States())}
    assert states["t_needy"] == ("NP104", "it needs old-style>=1, but old-style 2004d is installed")
    assert states["t_one"] == ("", "")


def test_whatever_a_look_at_a_plugin_raises_is_its_state(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_good(site, "t_odd", manifest="schema = 1\n")
    real = FileMemory.recall

    def recall(memory: FileMemory, key: str, *how: Any) -> Any:
        if Path(key).parent.name == "t_odd_package":
            raise ZeroDivisionError("odd")
        return real(memory, key, *how)

    monkeypatch.setattr(FileMemory, "recall", recall)
    states = {plugin.name: (plugin.code, plugin.reason) for plugin in survey(States())}
    code, reason = states["t_odd"]
    assert code == "NP112" and reason.startswith("ZeroDivisionError: odd (at tests/test_states.py:")
    assert states["t_one"] == ("", "")


@pytest.mark.parametrize("version", ["1.0rc1", "1.0.post1", "1!2", "1.0+local", "abc"])
def test_other_versions_are_left_to_packaging(version: str) -> None:
    assert not plainly_fits(">=0", version)
