"""`trust = "signed"`: what is loaded is what an owner's key has signed, as the lock names it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import samples
from locked import CODE, Site
from netcl_market import signing
from netcl_plugin_tools.market.statements import statement_of

#: They start processes.
pytestmark = pytest.mark.turns(2)

SIGNED = {"NETCL_TRUST": "signed"}
ASK = """
import json
import netcl_core as nc
import netcl_core.autograd as ag
try:
    with nc.use_device("numpy"):
        value = ag.shared_op(1.0).item()
except Exception as error:
    value = f"{type(error).__name__}: {error}"
print(json.dumps([value, {p.name: [p.state, p.reason] for p in nc.plugins.list()}]))
"""
MANIFEST = 'schema = 1\n[plugin]\nname = "{0}"\napi = [1, 0]\nlicense = "MIT"\n'


def wheel(folder: Path, name: str, factor: int) -> Path:
    package = f"netcl_plugin_{name}"
    files = {f"{package}/__init__.py": CODE.format(factor, factor)}
    return samples.wheel(
        folder, f"netcl-plugin-{name}", files=files, text=MANIFEST.format(name), plugin=name
    )


def pip(site: Path, made: Path) -> None:
    words = ["install", "-q", "--no-deps", "--no-index", "--upgrade", "--target", site, made]
    subprocess.run([sys.executable, "-m", "pip", *map(str, words)], check=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two installed wheels, one of them signed by its owner, and a lock that was told so."""
    site = Site(tmp_path_factory.mktemp("signed"))
    for name, factor in (("gate", 2), ("other", 3)):
        pip(site.folder, wheel(site.work / "wheels", name, factor))
        site.names.append(name)
    public = signing.new_key(site.work / "key")
    signing.new_key(site.work / "mallory")
    (site.work / "owners.toml").write_text(
        f'keys.alice = "{public}"\n'
        'owners = {netcl-plugin-gate = ["alice"], netcl-plugin-other = ["alice"]}'
    )
    sign(site, "gate", "key")
    sign(site, "other", "mallory")
    done = site.command("--owners", "owners.toml")
    assert done.returncode == 0, done.stderr
    return site


def sign(site: Site, name: str, key: str) -> None:
    (path,) = (site.work / "wheels").glob(f"netcl_plugin_{name}-*.whl")
    envelope = signing.sign(statement_of(path), site.work / key)
    path.with_name(path.name + signing.SUFFIX).write_text(envelope)


def asked(site: Site, **variables: str) -> tuple[object, dict[str, list[str]]]:
    done = site.run("-W", "ignore", "-c", ASK, **{**SIGNED, **variables})
    assert done.returncode == 0, done.stderr
    value, states = json.loads(done.stdout.splitlines()[-1])
    return value, states


def test_only_what_was_signed_is_loaded(made: Site) -> None:
    pins = json.loads(made.lock.read_text())["plugins"]
    assert len(pins["netcl-plugin-gate"]["key"]) == 64 and "key" not in pins["netcl-plugin-other"]
    value, states = asked(made)
    assert value == 2 and states["gate"] == ["active", ""]
    assert states["other"] == [
        "disabled", 'NETCL_TRUST (trust) is "signed", and the lock names no key of it'
    ]  # fmt: skip
    assert asked(made, NETCL_TRUST="all")[0] == 3  # the higher priority


OF_GATE = "netcl_plugin_gate/__init__.py"


def _edited(site: Site) -> None:
    (site.folder / OF_GATE).write_text(CODE.format(9, 9))


def _edited_and_not_strict(site: Site) -> dict[str, str]:
    _edited(site)
    return {"NETCL_LOCK_STRICT": "0"}


def _relocked(site: Site) -> None:
    """Another file, and a lock written again without the owners: the key is gone."""
    _edited(site)
    assert site.command().returncode == 0


def _key(text: str) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        site.lock.write_text(site.lock.read_text().replace('"key": "', f'"key": {text}, "x": "'))

    return change


WAYS: dict[str, Callable[[Site], dict[str, str] | None]] = {
    "no lock": lambda site: site.lock.unlink(),
    "the lock is off": lambda site: {"NETCL_LOCK": "0"},
    "another lock file": lambda site: {"NETCL_LOCK": "nowhere.lock"},
    "not strict": _edited_and_not_strict,
    "an edited file": _edited,
    "a lock written again": _relocked,
    "an empty key": _key('""'),
    "a key of another type": _key("1"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_round_a_key_loads_nothing(made: Site, tmp_path: Path, way: str) -> None:
    site = Site(tmp_path)
    site.names = [*made.names]
    shutil.copytree(made.folder, site.folder)
    shutil.copytree(made.work, site.work, dirs_exist_ok=True)
    variables = WAYS[way](site) or {}
    done = site.run("-W", "ignore", "-c", ASK, **{**SIGNED, **variables})
    value = json.loads(done.stdout.splitlines()[-1])[0] if done.returncode == 0 else done.stderr
    assert value not in (2, 3, 9) and ("Error" in str(value)), value


def test_a_key_stays_with_the_files_that_it_was_found_for(made: Site) -> None:
    before = made.lock.read_bytes()
    assert made.command().returncode == 0
    assert made.lock.read_bytes() == before
