"""A strict lock holds: whatever changes around a program is refused, or changes no result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from distributions import install_plugin
from locked import CODE, Site

STRICT = {"NETCL_LOCK_STRICT": "1"}
VALUES = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
warnings.simplefilter("ignore")
with nc.use_device("numpy"):
    values = [ag.shared_op(1.0).item(), ag.relu(-1.0).item()]
print(json.dumps([values, {p.name: [p.state, p.reason] for p in nc.plugins.list()}]))
"""
GREEDY = CODE.replace("priority={1}", "priority=9").replace("'shared_op'", "'relu'").format(-100)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two plugins that offer `shared_op` beside netcl-plugin-elementwise, and a lock of it."""
    made = Site(tmp_path_factory.mktemp("locked"))
    made.names.append("elementwise")
    made.install("c_first", 2, 1)
    made.install("c_second", 3, 4)
    template = made.folder / "c_second_package" / "templates" / "x.cl.j2"
    template.parent.mkdir()
    template.write_text("x")
    written = made.command()
    assert written.returncode == 0, written.stderr
    return made


@pytest.fixture
def site(locked: Site, tmp_path: Path) -> Site:
    """A copy of it."""
    made = Site(tmp_path)
    made.names = [*locked.names]
    shutil.copytree(locked.folder, made.folder)
    shutil.copy(locked.lock, made.lock)
    return made


def asked(site: Site, **variables: str) -> tuple[list[float], dict[str, list[str]]]:
    done = site.run("-c", VALUES, **{**STRICT, **variables})
    assert done.returncode == 0, done.stderr
    values, states = json.loads(done.stdout.splitlines()[-1])
    return values, states


def test_what_a_strict_lock_does_not_know_is_not_loaded(site: Site) -> None:
    """However high its priority; it is listed with the reason, by the command, too."""
    assert asked(site)[0] == [3, 0]
    install_plugin(site.folder, "greedy", "print('imported')\n" + GREEDY)
    site.install("c_third", 5, 9)
    site.names.append("greedy")
    values, states = asked(site)
    assert values == [3, 0]
    said = "NP506: NETCL_LOCK_STRICT (lock-strict) is set, and the lock does not know it"
    assert states["greedy"] == states["c_third"] == ["disabled", said]
    listing = site.run("-m", "netcl_core.cli.start", "plugins", "list", "--json", **STRICT)
    rows = {row["name"]: row["reason"] for row in json.loads(listing.stdout)["plugins"]}
    assert rows["greedy"] == said and rows["c_first"] == ""
    doctor = site.run("-m", "netcl_core.cli.start", "doctor", **STRICT)
    assert "imported" not in doctor.stdout + doctor.stderr
    values, _ = asked(site, NETCL_LOCK_STRICT="0")  # not strict, the lock decides all the same
    assert values == [3, 0]
    assert asked(site, NETCL_LOCK="0")[0] == [5, 100]


def test_settings_change_nothing(site: Site) -> None:
    """They go after a strict lock; leaving out whom it has chosen is refused."""
    assert asked(site, NETCL_RANK="netcl-plugin-c_first")[0] == [3, 0]
    assert asked(site, NETCL_LOCK_STRICT="0", NETCL_RANK="netcl-plugin-c_first")[0] == [2, 0]
    for variables in ({"NETCL_PLUGINS_DISABLE": "c_second"}, {"NETCL_PLUGINS": "elementwise"}):
        done = site.run("-c", VALUES, **STRICT, **variables)
        assert (
            done.returncode == 1 and "NP510: netcl-plugin-c-second: it is disabled (" in done.stderr
        )
        assert "serves 1 names of the lock, such as shared_op" in done.stderr


def test_the_doctor_says_who_is_missing(site: Site) -> None:
    code = "import netcl_core as nc\n"
    code += "print(*[each for each in nc.plugins.doctor_checks() if each[0] == 'lock file'])"
    said = site.run("-c", code, **STRICT, NETCL_PLUGINS_DISABLE="c_second").stdout
    assert said.startswith("('lock file', False, ")
    assert "NP510: netcl-plugin-c-second: it is disabled (" in said


def test_a_package_in_front_of_the_locked_one_is_refused(site: Site, tmp_path: Path) -> None:
    shadow = tmp_path / "work" / "c_second_package"
    shadow.mkdir()
    (shadow / "__init__.py").write_text(CODE.format(7, 4))
    done = site.run("-c", VALUES, **STRICT)
    assert done.returncode == 1
    assert f"c_second_package would be imported from {shadow}" in done.stderr
