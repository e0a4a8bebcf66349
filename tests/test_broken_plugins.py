"""Broken plugins, one of each kind and all together: each is named, and everything else works."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import BROKEN, DEADLY, GOOD, install_broken, install_duplicates
from distributions import TEMPLATE, install, install_plugin
from environments import ROOT, run, succeed
from netcl_market.failures import FAILURES

from netcl_core.plugins.protocol import PAGE

#: They start processes.
pytestmark = pytest.mark.turns(2)

REPORT = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins import hooks
from netcl_core.plugins.registry import registry

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = nc.plugins.list()
with nc.use_device("numpy"):
    values = {name: getattr(ag, name)(3.0).item() for name in ("first_op", "last_op", "short_op")}
print(json.dumps({
    "plugins": [[p.name, p.distribution, p.state, p.code, p.reason, p.traceback] for p in found],
    "warnings": [str(w.message) for w in caught if w.category is nc.plugins.PluginWarning],
    "ops": registry.op_names(),
    "namespaces": [row.record.name for row in registry.rows("namespace")],
    "values": values,
    "hooks": {
        caller: [str(impl.plugin_name) for impl in getattr(hooks._manager.hook, caller)
                 .get_hookimpls()]
        for caller in ("netcl_register_primitives", "netcl_register_namespaces")
    },
}))
"""


def install_good(site: Path) -> None:
    """Healthy plugins that sort before and after the broken ones."""
    install_plugin(site, "aaa", GOOD.format(name="first_op"), {"plus.cl.j2": TEMPLATE})
    install_plugin(site, "zzz", GOOD.format(name="last_op"), {"plus.cl.j2": TEMPLATE})
    short = "from netcl_core.autograd import AutogradPrimitive\n"
    short += "good = AutogradPrimitive.from_template('short_op/short_op.cl.j2')\nbad = 'a text'\n"
    short += "more = AutogradPrimitive.from_template('short_op/short_op.cl.j2', name='aaa')\n"
    install(
        site,
        "short-road",
        {"short_road/__init__.py": short, "short_road/templates/short_op.cl.j2": TEMPLATE},
        {"netcl_core.primitives": {"short_op": "short_road:good", "short_bad": "short_road:bad",
                                   "aaa": "short_road:more"}},
    )  # fmt: skip


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed: every broken plugin, good ones that sort before and after, duplicate names."""
    site = tmp_path_factory.mktemp("site")
    for name in BROKEN:
        install_broken(site, name)
    install_good(site)
    install_duplicates(site)
    return site


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def _variables(site: Path, cache: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join((str(site), str(ROOT)))
    return {"PYTHONPATH": path, "NETCL_CACHE_DIR": str(cache), **more}


@pytest.fixture(scope="module")
def outcome(market: Path, cache: Path) -> dict[str, Any]:
    """What a fresh process sees of the market."""
    said = succeed([sys.executable, "-c", REPORT], cache, **_variables(market, cache))
    answer: dict[str, Any] = json.loads(said)
    return answer


def _of(outcome: dict[str, Any], distribution: str, name: str) -> tuple[str, str, str, str]:
    rows = [row for row in outcome["plugins"] if row[:2] == [name, distribution]]
    assert rows, [row[:3] for row in outcome["plugins"]]
    state, code, reason, traceback = rows[0][2:]
    return state, code, reason, traceback


def _entry(name: str) -> str:
    """The name under which a broken plugin is listed: a malformed one has only a distribution."""
    return f"netcl-plugin-{name}" if name == "malformed" else name


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_named(outcome: dict[str, Any], name: str) -> None:
    distribution, row = f"netcl-plugin-{name}", BROKEN[name]
    state, code, reason, traceback = _of(outcome, distribution, _entry(name))
    assert (state, code) == (row.state, row.failure), reason
    assert FAILURES[code].state == state
    assert row.reason in reason
    assert code.startswith("NP1") or "Traceback" in traceback
    assert code.startswith("NP1") or f"while loading the plugin {name!r}" in traceback
    (warning,) = [text for text in outcome["warnings"] if f"of {distribution} 1.0" in text]
    assert f"plugin {_entry(name)!r}" in warning and f"{state} ({code}: " in warning
    assert reason.splitlines()[0].rstrip(".") in warning and f"{PAGE}#{code.lower()}" in warning
    assert f"Repair, upgrade or uninstall {distribution}" in warning


@pytest.mark.nightly  # two processes for each; all of them together are named above
@pytest.mark.parametrize("name", BROKEN)
def test_alone_it_harms_nobody(tmp_path: Path, name: str) -> None:
    """One broken plugin beside healthy ones: those work, and `netcl plugins` names it."""
    install_broken(tmp_path / "site", name)
    install_good(tmp_path / "site")
    variables = _variables(tmp_path / "site", tmp_path)
    said = json.loads(succeed([sys.executable, "-c", REPORT], tmp_path, **variables))
    assert said["values"] == {"first_op": 10.0, "last_op": 10.0, "short_op": 10.0}
    command = [sys.executable, "-m", "netcl_core.cli.main", "plugins", "list", "--json"]
    done = run(command, tmp_path, **variables)
    assert done.returncode == 1, done.stderr
    rows = {row["distribution"]: row for row in json.loads(done.stdout)["plugins"]}
    row = rows[f"netcl-plugin-{name}"]
    assert (row["state"], row["code"]) == (BROKEN[name].state, BROKEN[name].failure)
    assert BROKEN[name].reason in row["reason"] and row["remedy"]


def test_the_others_go_on(outcome: dict[str, Any]) -> None:
    assert outcome["values"] == {"first_op": 10.0, "last_op": 10.0, "short_op": 10.0}
    assert _of(outcome, "netcl-plugin-aaa", "aaa")[0] == "active"
    assert _of(outcome, "netcl-plugin-zzz", "zzz")[0] == "active"
    assert _of(outcome, "short-road", "short_op")[0] == "active"


def test_nothing_is_half_registered(outcome: dict[str, Any]) -> None:
    ours = {"bad_op", "half_op", "later_op", "twice_op", "two words", "tensor", "of_nobody"}
    assert ours.isdisjoint(outcome["ops"])
    assert "half_space" not in outcome["namespaces"]
    for registered in outcome["hooks"].values():
        assert registered and BROKEN.keys().isdisjoint(key.split(":")[-1] for key in registered)


def test_duplicate_names_of_two_distributions(outcome: dict[str, Any]) -> None:
    """They are several plugins, and what becomes of one is nothing to the others."""
    assert _of(outcome, "other-aaa", "aaa")[:2] == ("quarantined", "NP207")  # its own fault
    assert _of(outcome, "netcl-plugin-aaa", "aaa")[0] == "active"
    assert _of(outcome, "short-road", "aaa")[0] == "active" and "aaa" in outcome["ops"]


def test_a_primitive_of_the_wrong_type(outcome: dict[str, Any]) -> None:
    state, code, reason, _ = _of(outcome, "short-road", "short_bad")
    assert (state, code) == ("quarantined", "NP305")
    assert (
        "short-road: an object of type str to add; expected an instance of AutogradPrimitive"
        in reason
    )


def test_the_cores_templates_cannot_be_replaced(outcome: dict[str, Any]) -> None:
    state, code, reason, _ = _of(outcome, "other-core", "core")
    assert (state, code) == ("quarantined", "NP114") and "the core's own templates" in reason


def test_the_doctor_shows_the_reasons(market: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "netcl_core.cli.main", "doctor", "--json"]
    done = run(command, tmp_path, **_variables(market, tmp_path))
    assert "PluginWarning" not in done.stderr
    findings = "\n".join(json.loads(done.stdout)["findings"])
    for name, row in BROKEN.items():
        assert f"plugin {_entry(name)} of netcl-plugin-{name}: {row.failure}: " in findings


def test_warnings_as_errors_name_the_plugin(market: Path, python: Callable[..., str]) -> None:
    """Whoever turns warnings into errors gets one per broken plugin, and then what works."""
    code = """
import netcl_core as nc
import netcl_core.autograd as ag
count = 0
while True:
    try:
        with nc.use_device("numpy"):
            assert ag.last_op(3.0).item() == 10
        break
    except nc.plugins.PluginWarning as warning:
        count += "quarantined" in str(warning) or "incompatible" in str(warning)
print(count)
"""
    assert int(python(code, PYTHONPATH=str(market))) >= len(BROKEN)


# -- the probe -------------------------------------------------------------------------

PROBE = """
import json, sys
from netcl_market.probe import probe
deaths = probe(float(sys.argv[1]))
assert "netcl_core.plugins.loading" not in sys.modules and "jinja2" not in sys.modules
print(json.dumps([[d.plugin, d.code, d.reason] for d in deaths]))
"""


def test_what_ends_the_interpreter_is_found_and_left_out(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("crash", "leaving", "exiting"):
        install_broken(site, name)
    install_good(site)
    variables = _variables(site, tmp_path)
    assert run([sys.executable, "-c", REPORT], tmp_path, **variables).returncode != 0
    said = succeed([sys.executable, "-c", PROBE, "60"], tmp_path, **variables)
    deaths = {name: (code, reason) for name, code, reason in json.loads(said)}
    assert deaths == {
        name: (DEADLY[name].failure, DEADLY[name].reason) for name in ("crash", "leaving")
    }
    outcome = json.loads(succeed([sys.executable, "-c", REPORT], tmp_path, **variables))
    assert outcome["values"]["last_op"] == 10  # the next process leaves them alone
    assert _of(outcome, "netcl-plugin-crash", "crash")[:2] == ("quarantined", "NP208")
    for name in ("crash", "leaving"):
        (site / f"{name}_package" / "__init__.py").write_text("")
    assert json.loads(succeed([sys.executable, "-c", PROBE, "60"], tmp_path, **variables)) == []
    outcome = json.loads(succeed([sys.executable, "-c", REPORT], tmp_path, **variables))
    assert _of(outcome, "netcl-plugin-crash", "crash")[1] == "NP205"  # it is imported again


def test_what_hangs_is_found(tmp_path: Path) -> None:
    install_broken(tmp_path / "site", "hang")
    variables = _variables(tmp_path / "site", tmp_path, NETCL_PLUGINS="hang")
    said = json.loads(succeed([sys.executable, "-c", PROBE, "2"], tmp_path, **variables))
    assert [(name, code) for name, code, _ in said] == [("hang", "NP209")]


def test_the_doctor_survives_a_crash(tmp_path: Path) -> None:
    install_broken(tmp_path / "site", "crash")
    command = [sys.executable, "-m", "netcl_core.cli.main", "doctor", "--json"]
    variables = _variables(tmp_path / "site", tmp_path, NETCL_PLUGINS="crash")
    done = run(command, tmp_path, **variables)
    findings = [line for line in json.loads(done.stdout)["findings"] if "crash" in line]
    assert len(findings) == 1 and "NP208" in findings[0], findings
