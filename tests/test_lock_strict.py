"""A strict lock holds: whatever changes around a program is refused, or changes no result."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from distributions import install_plugin
from locked import CODE, Site

#: They start processes.
pytestmark = pytest.mark.turns(2)

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
    code += "from netcl_market.doctor_checks import doctor_checks\n"
    code += "print(*[each for each in doctor_checks() if each[0] == 'lock file'])"
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


def edit(site: Site, name: str = "c_second") -> None:
    with (site.folder / f"{name}_package" / "__init__.py").open("a") as code:
        code.write("\n")


def strictly(site: Site) -> None:
    """The lock file says itself that it is strict."""
    table = json.loads(site.lock.read_text())
    site.lock.write_text(json.dumps({**table, "strict": True}))


def test_the_lock_itself_may_be_strict(site: Site) -> None:
    """An empty variable, and a nearer lock, change nothing."""
    strictly(site)
    edit(site)
    site.work = site.work / "below"
    site.work.mkdir()
    (site.work / "netcl.lock").write_text(site.lock.read_text().replace("true", "false"))
    for variables in ({}, {"NETCL_LOCK_STRICT": ""}, {"NETCL_LOCK_STRICT": "0"}):
        done = site.run("-c", VALUES, **variables)
        assert done.returncode == 1 and "NP505: netcl-plugin-c-second" in done.stderr


def test_an_empty_variable_is_not_set(site: Site) -> None:
    (site.work / "netcl.toml").write_text("lock-strict = true\n")
    edit(site)
    done = site.run("-c", VALUES, NETCL_LOCK_STRICT="")
    assert done.returncode == 1 and "NP505: netcl-plugin-c-second" in done.stderr


def required(lock: str, digest: str) -> str:
    return f"import netcl_core as nc\nnc.require_lock({lock!r}, sha256={digest!r})\n" + VALUES


def test_a_program_may_require_its_lock(site: Site, tmp_path: Path) -> None:
    """Wherever it runs, and whatever settings say."""
    digest = hashlib.sha256(site.lock.read_bytes()).hexdigest()
    lock, site.work = str(site.lock), tmp_path
    done = site.run("-c", required(lock, digest), NETCL_LOCK="0")
    assert done.returncode == 0, done.stderr
    late = f"import netcl_core as nc\nnc.plugins.list()\nnc.require_lock({lock!r})"
    more = f"import netcl_core as nc\nnc.require_lock({lock!r})\nnc.require_lock('netcl.lock')"
    (tmp_path / "netcl.lock").write_bytes(Path(lock).read_bytes())
    gone = required("gone.lock", digest)
    for code in (required(lock, "0" * 64), required(lock, ""), gone, late, more):
        done = site.run("-W", "ignore", "-c", code)
        assert done.returncode == 1 and "nc.require_lock(" in done.stderr
    edit(site)
    done = site.run("-c", required(lock, digest), NETCL_LOCK_STRICT="0")
    assert done.returncode == 1 and "NP505: netcl-plugin-c-second" in done.stderr


PATCHING = """
import atexit, os, sys
import netcl_market.lock_check as check
import netcl_market.lock_differences as differences
import netcl_market.lock_verification as verification
differences.differences = check.differences = lambda locked, now: []
verification.compare = check.compare = lambda *args, **given: []
print("netcl.lock fits")
atexit.register(os._exit, 0)
"""


@pytest.mark.parametrize("name", ["c_second", "new"])
def test_no_plugin_gives_its_own_verdict(site: Site, name: str) -> None:
    """Neither a locked one that was changed nor a new one runs before files are compared."""
    code = PATCHING + CODE.format(3, 4)
    if name == "new":
        install_plugin(site.folder, name, code)
        site.names.append(name)
    else:
        (site.folder / f"{name}_package" / "__init__.py").write_text(code)
    done = site.command("--check")
    start = f"NP50{6 if name == 'new' else 5}: netcl-plugin-{name.replace('_', '-')}: "
    assert done.returncode == 1 and done.stdout.startswith(start)
    assert "netcl.lock fits" not in done.stdout
