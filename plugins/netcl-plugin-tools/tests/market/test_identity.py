"""Who made a wheel, a record and a name: what is signed holds, and nothing else proves anything."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import samples
from click.testing import CliRunner, Result
from netcl_market import signing
from netcl_market.owners import read_owners, resembles
from netcl_plugin_kit.packages.wheel import read_wheel
from netcl_plugin_tools.market import statements

from netcl_core.cli.main import netcl
from netcl_core.errors import NetclError, RecordError

GATE = "netcl-plugin-gate"


def run(*words: object) -> Result:
    return CliRunner().invoke(netcl, [str(word) for word in words])


class Market:
    """A market of one plugin, signed by its owner, with a record that a checker has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.wheels = folder, folder / "wheels"
        self.wheels.mkdir()
        self.records = folder / "records"
        self.records.mkdir()
        self.public = {
            name: signing.new_key(folder / name) for name in ("alice", "farm", "mallory")
        }
        self.owners = folder / "owners.toml"
        self.write_owners()
        self.wheel = self.submit(GATE, "alice")
        self.record = self.records / "check.json"
        self.note(self.wheel, "farm")

    def write_owners(self, more: str = "", **tables: Any) -> None:
        keys = {name: self.public[name] for name in ("alice", "farm")}
        said = {"keys": keys, "owners": {GATE: ["alice"]}, **tables}
        lines = ['checkers = ["farm"]', more]
        for table, rows in said.items():
            lines += [
                f"[{table}]",
                *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in rows.items()),
            ]
        self.owners.write_text("\n".join(lines))

    def submit(self, name: str, by: str, version: str = "1.0", **content: Any) -> Path:
        text = samples.manifest("gate", ["gate"])
        made = samples.wheel(self.wheels, name, version, text=text, plugin="gate", **content)
        self.sign(made, by)
        return made

    def note(self, wheel: Path, by: str, **changes: Any) -> None:
        made = samples.record(plugin=GATE, version="1.0", wheel_sha256=digest(wheel), **changes)
        self.record.write_text(json.dumps(made.as_json()))
        self.sign(self.record, by)

    def sign(self, path: Path, by: str) -> None:
        envelope = signing.sign(statements.statement_of(path), self.folder / by)
        path.with_name(path.name + signing.SUFFIX).write_text(envelope)

    def build(self, *options: str) -> Any:
        where = ["--records", str(self.records), "--owners", str(self.owners), "--json", *options]
        result = samples.build(self.wheels, self.folder / "site", *where)
        return json.loads(result.stdout)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def market(tmp_path: Path) -> Market:
    return Market(tmp_path)


def test_what_is_signed_is_there_and_says_by_whom(market: Market) -> None:
    said = market.build()
    assert (said["plugins"], said["refused"], said["unused"]) == ({GATE: ["1.0"]}, [], [])
    assert said["records"]["checks"] == 1
    page = (market.folder / "site" / "plugins" / f"{GATE}.html").read_text(encoding="utf-8")
    assert "<dt>Signed by</dt><dd>alice" in page
    verified = run("market", "verify", market.wheel, "--owners", market.owners)
    assert verified.exit_code == 0 and "signed by alice" in verified.output
    envelope = f"{market.record}{signing.SUFFIX}"
    assert "signed by farm" in run("market", "verify", envelope, "--owners", market.owners).output


def test_a_key_is_its_owners_alone_and_never_replaced(tmp_path: Path) -> None:
    made = run("market", "key", tmp_path / "key")
    assert len(made.output.strip()) == 64 and (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    before = (tmp_path / "key").read_bytes()
    assert run("market", "key", tmp_path / "key").exit_code == 2
    assert (tmp_path / "key").read_bytes() == before


# -- ways round an owner -----------------------------------------------------------------


def _edit_envelope(market: Market, change: Callable[[dict[str, Any]], Any]) -> None:
    path = market.wheel.with_name(market.wheel.name + signing.SUFFIX)
    data = json.loads(path.read_text())
    changed = change(data)
    path.write_text(json.dumps(data if changed is None else changed))


def _other_wheel(market: Market) -> None:
    """A wheel of the same name under the envelope of the first."""
    kept = market.wheel.with_name(market.wheel.name + signing.SUFFIX).read_bytes()
    market.submit(GATE, "mallory", files={"netcl_plugin_gate/more.toml": "x = 1"})
    market.wheel.with_name(market.wheel.name + signing.SUFFIX).write_bytes(kept)


def _other_name(market: Market) -> None:
    """A signed wheel's envelope beside a wheel of another name."""
    path = market.submit("netcl-plugin-other", "mallory")
    envelope = market.wheel.with_name(market.wheel.name + signing.SUFFIX)
    shutil.copy(envelope, path.with_name(path.name + signing.SUFFIX))
    market.wheel.unlink()


def _record_for_wheel(market: Market) -> None:
    shutil.copy(f"{market.record}{signing.SUFFIX}", f"{market.wheel}{signing.SUFFIX}")


def _beside(market: Market) -> Path:
    return market.wheel.with_name(market.wheel.name + signing.SUFFIX)


#: What the envelope beside a wheel may be instead of its owner's.
WAYS: dict[str, Callable[[Market], Any]] = {
    "no envelope": lambda market: _beside(market).unlink(),
    "a stranger's key": lambda market: market.sign(market.wheel, "mallory"),
    "a checker's key": lambda market: market.sign(market.wheel, "farm"),
    "a changed wheel": lambda market: market.wheel.write_bytes(market.wheel.read_bytes() + b"\0"),
    "another wheel": _other_wheel,
    "another name": _other_name,
    "a record's envelope": _record_for_wheel,
    "no JSON": lambda market: _beside(market).write_text("{"),
    "a deep file": lambda market: _beside(market).write_text("[" * 100_000),
    "a name of nobody": lambda market: market.write_owners(owners={}),
}
#: What may be edited in it.
EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no signature": lambda data: data.update(signatures=[]),
    "an empty signature": lambda data: data["signatures"][0].update(sig=""),
    "a signature of no kind": lambda data: data.update(signatures=[1]),
    "the same one twice": lambda data: data["signatures"].extend(data["signatures"]),
    "another payload": lambda data: data.update(payload="e30="),
    "another payload type": lambda data: data.update(payloadType="text/plain"),
    "a key's name alone": lambda data: data["signatures"][0].update(sig="AA=="),
    "no object": lambda data: [data],
}


@pytest.mark.parametrize("way", [*WAYS, *EDITS])
def test_a_wheel_that_its_owner_has_not_signed_is_refused(market: Market, way: str) -> None:
    if way in WAYS:
        WAYS[way](market)
    else:
        _edit_envelope(market, EDITS[way])
    said = market.build()
    assert said["plugins"] == {} and said["refused"], said
    verified = run("market", "verify", *market.wheels.glob("*.whl"), "--owners", market.owners)
    assert verified.exit_code == 1
    assert not [*(market.folder / "site").rglob("*.whl")]


RECORDS: dict[str, Callable[[Market], Any]] = {
    "nobody signed it": lambda m: Path(f"{m.record}{signing.SUFFIX}").unlink(),
    "a stranger did": lambda m: m.sign(m.record, "mallory"),
    "its author did": lambda m: m.sign(m.record, "alice"),
    "it is of another wheel": lambda m: m.note(m.folder / "owners.toml", "farm"),
    "an unsigned cell": lambda m: (
        Path(f"{m.record}{signing.SUFFIX}").unlink(),
        m.record.write_text(json.dumps(samples.cell("intel", plugin=GATE, version="1.0"))),
    ),
}


@pytest.mark.parametrize("way", RECORDS)
def test_a_record_proves_nothing(market: Market, way: str) -> None:
    RECORDS[way](market)
    said = market.build()
    assert said["plugins"] == {GATE: ["1.0"]}
    assert said["unused"] or said["refused"]
    page = (market.folder / "site" / "plugins" / f"{GATE}.html").read_text(encoding="utf-8")
    assert "No record of a check" in page


def test_a_record_that_was_changed_beside_its_envelope_counts_as_it_was_signed(
    market: Market,
) -> None:
    market.note(market.wheel, "farm", state="fail")
    market.record.write_text(market.record.read_text().replace('"fail"', '"pass"'))
    market.build()
    page = (market.folder / "site" / "plugins" / f"{GATE}.html").read_text(encoding="utf-8")
    assert "failed" in page and "passing" not in page


def test_a_record_without_a_wheel_is_not_signed(market: Market) -> None:
    market.record.write_text(json.dumps(samples.record(wheel_sha256="").as_json()))
    with pytest.raises(RecordError, match="does not say which wheel"):
        statements.statement_of(market.record)


# -- names ---------------------------------------------------------------------------------

ALIKE = {
    "gete": "gate", "gat": "gate", "gates": "gate", "gaet": "gate", "ga-te": "gate",
    "ggate": "gate",
    "sw1glu": "swiglu", "swigiu": "swiglu", "norrn": "norm", "vveight": "weight", "l0ss": "loss",
    "netcl-gate": "gate", "5wish": "swish", "2oom": "zoom", "clot": "dot",
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_a_name_that_resembles_another_needs_both_owners_words(market: Market, name: str) -> None:
    one, other = (f"netcl-plugin-{each}" for each in (ALIKE[name], name))
    assert resembles(one, other) and resembles(other, one)
    rows = {one: ["alice"], other: ["farm"]}
    for words in ({}, {other: [one]}, {one: ["netcl-plugin-more"]}):  # his own is not enough
        market.write_owners(owners=rows, resembling=words)
        with pytest.raises(RecordError, match="resemble each other"):
            read_owners(market.owners)
    market.write_owners(owners=rows, resembling={other: [one], one: [other]})
    assert read_owners(market.owners).keys_of(other) == (market.public["farm"],)


def test_names_that_are_merely_short_are_no_others() -> None:
    root = Path(__file__).resolve().parents[3]
    names = [path.name for path in (*root.glob("netcl-*"), *root.glob("examples/netcl-*"))]
    assert not [(a, b) for a in names for b in names if a != b and resembles(a, b)]


OWNERS = {
    "an unknown key": 'checkers = ["nobody"]',
    "a table of another name": "[owner]\nx = 1",
    "one key of two names": '[keys]\na = "{a}"\nb = "{a}"',
    "no key": '[keys]\na = "abc"',
    "a capital letter": '[keys]\na = "{a}"\n[owners]\n"Netcl-Plugin-X" = ["a"]',
    "another alphabet": '[keys]\na = "{a}"\n[owners]\n"netcl-plugin-\u0455wish" = ["a"]',
    "a text for a list": '[keys]\na = "{a}"\n[owners]\n"netcl-plugin-x" = "a"',
    "no TOML": "[",
}


@pytest.mark.parametrize("what", OWNERS)
def test_an_owners_file_that_may_mean_something_else_is_an_error(tmp_path: Path, what: str) -> None:
    path = tmp_path / "owners.toml"
    path.write_text(OWNERS[what].replace("{a}", "a" * 64), encoding="utf-8")
    with pytest.raises(RecordError, match="owners"):
        read_owners(path)


# -- other distributions, and code in data ----------------------------------------------------


def test_another_distribution_is_in_the_index_only_by_name(tmp_path: Path) -> None:
    samples.wheel(tmp_path / "w", "numpy", "99.0")
    samples.wheel(tmp_path / "w", GATE, text=samples.manifest("gate", ["gate"]), plugin="gate")
    result = samples.build(tmp_path / "w", tmp_path / "out")
    assert result.exit_code == 1 and "it is no plugin" in result.output
    assert not (tmp_path / "out" / "simple" / "numpy").exists()
    result = samples.build(tmp_path / "w", tmp_path / "out", "--other", "NumPy")
    assert result.exit_code == 0 and (tmp_path / "out" / "simple" / "numpy").is_dir()


INFO = "netcl_plugin_gate-1.0.dist-info"
CODE = {
    "a module": "netcl_plugin_gate/__init__.py",
    "a compiled one": "netcl_plugin_gate/fast.cpython-311-x86_64-linux-gnu.so",
    "byte code": "netcl_plugin_gate/__pycache__/x.cpython-311.pyc",
    "a path file": "netcl_plugin_gate.pth",
    "a path file in its data": "netcl_plugin_gate-1.0.data/purelib/a.pth",
    "a script": "netcl_plugin_gate-1.0.data/scripts/netcl",
    "a script of a shell": "netcl_plugin_gate/run.sh",
    "another's package": "numpy/plugin.toml",
    "a module among its metadata": f"{INFO}/x.py",
    "the same in capitals": "netcl_plugin_gate/x.PY",
    "entry points of a command": f"{INFO}/entry_points.txt",
}


@pytest.mark.parametrize("what", CODE)
def test_code_in_a_wheel_of_data_is_refused(tmp_path: Path, what: str) -> None:
    text = samples.manifest("gate", ["gate"])
    files = {CODE[what]: "x = 1\n", "netcl_plugin_gate/netcl_plugin.toml": text}
    points = "[netcl_core.manifest]\ngate = netcl_plugin_gate:netcl_plugin.toml\n"
    command = "[console_scripts]\nnetcl = netcl_plugin_gate:main\n" if "command" in what else ""
    files[f"{INFO}/entry_points.txt"] = points + command
    made = samples.wheel(tmp_path, GATE, files=files, code=False)
    with pytest.raises(NetclError, match=r"it is data, and (holds|has)"):
        read_wheel(made)


def test_data_alone_is_taken(tmp_path: Path) -> None:
    files = {"netcl_plugin_gate/netcl_plugin.toml": samples.manifest("gate", ["gate"]),
             "netcl_plugin_gate/templates/gate.cl.j2": "", "netcl_plugin_gate/py.typed": "",
             f"{INFO}/entry_points.txt":
                 "[netcl_core.manifest]\ngate = netcl_plugin_gate:netcl_plugin.toml\n"}  # fmt: skip
    assert read_wheel(samples.wheel(tmp_path, GATE, files=files, code=False)).is_data
