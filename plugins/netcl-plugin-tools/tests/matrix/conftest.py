"""What the tests of the matrix share: small wheels, and an environment whose check is a script."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_tools.matrix.environments import Made
from netcl_plugin_tools.matrix.records import CellRecord


@pytest.fixture
def make_wheel() -> Callable[..., Path]:
    """A function that writes a wheel as a build backend would."""
    return write_wheel


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    build: str = "",
    requires: Sequence[str] = (),
    python: str = ">=3.11",
    files: dict[str, str] | None = None,
    points: str | None = None,
    tag: str = "py3-none-any",
) -> Path:
    stem = name.replace("-", "_")
    headers = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    headers += [f"Requires-Python: {python}"] if python else []
    headers += [f"Requires-Dist: {each}" for each in requires]
    info = f"{stem}-{version}.dist-info"
    content = dict(files or {})
    if (points or "").partition("\n")[0] != "[netcl_core.manifest]":
        content.setdefault(f"{stem}/__init__.py", "")
    content[f"{info}/METADATA"] = "\n".join(headers) + "\n\nText: no header\n"
    content[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n" + f"Tag: {tag}\n"
    )
    if points is None and name.startswith("netcl-plugin-"):
        points = f"[netcl_core.plugins]\n{stem} = {stem}:plugin\n"
    if points:
        content[f"{info}/entry_points.txt"] = points
    record = "".join(f"{path},{digest(text)},\n" for path, text in content.items())
    record += f"{info}/RECORD,,\n"
    folder.mkdir(parents=True, exist_ok=True)
    built = f"-{build}" if build else ""
    path = folder / f"{stem}-{version}{built}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for each, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(each), text)
    return path


def digest(text: str) -> str:
    """As RECORD has it."""
    raw = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={raw.decode().rstrip('=')}"


@pytest.fixture
def shelves_of(tmp_path: Path) -> tuple[Path, Path]:
    """The folder of cores (0.1.0 and two builds of 0.1.1) and that of plugins (one, `swish`)."""
    cores, plugins = tmp_path / "cores", tmp_path / "plugins"
    write_wheel(cores, "netcl-core", "0.1.0")
    write_wheel(cores, "netcl-core", "0.1.1", build="1")
    write_wheel(cores, "netcl-core", "0.1.1", build="2", files={"netcl_core/new.py": "x = 1"})
    write_wheel(plugins, "netcl-plugin-swish", "0.3", requires=["netcl-core>=0.1.1,<0.2"])
    return cores, plugins


@pytest.fixture
def check() -> Callable[..., dict[str, Any]]:
    """A function that makes what `netcl plugins check --json` prints."""
    return check_record


@pytest.fixture(name="outcome")
def outcome_fixture() -> Callable[..., dict[str, Any]]:
    """A function that makes one of its outcomes."""
    return outcome


@pytest.fixture
def cell() -> Callable[..., CellRecord]:
    """A function that makes the record of a cell."""
    return cell_record


def check_record(**changes: Any) -> dict[str, Any]:
    """What `netcl plugins check --json` prints when all is well."""
    record = {
        "plugin": "netcl-plugin-swish",
        "version": "0.3",
        "level": "run",
        "state": "pass",
        "core": "0.1.1",
        "python": "3.11.7",
        "system": "linux-x86_64",
        "date": "2026-11-22T01:00:00+00:00",
        "seconds": 1.5,
        "devices": [device_facts()],
        "outcomes": [outcome()],
        "schema": 1,
        "kind": "check",
    }
    return {**record, **changes}


def device_facts(**changes: Any) -> dict[str, Any]:
    facts = {"id": "numpy", "name": "NumPy", "platform": "NumPy", "driver": "2.4", "kind": "cpu"}
    return {**facts, "fp16": True, "fp64": True, **changes}


def outcome(**changes: Any) -> dict[str, Any]:
    made = {"check": "values", "state": "passed", "op": "swish", "device": "numpy"}
    return {**made, "dtype": "float32", "reason": "", "remedy": "", "seconds": 0.1, **changes}


def device(**changes: Any) -> dict[str, Any]:
    """A device as `netcl devices --json` describes it."""
    facts = {
        "id": "numpy",
        "backend": "numpy",
        "kind": "cpu",
        "name": "NumPy",
        "platform": "NumPy",
        "driver_version": "2.4",
        "extensions": [],
        "local_mem_bytes": 0,
        "max_work_group_size": 1,
    }
    return {**facts, **changes}


@pytest.fixture
def numpy_path() -> dict[str, Any]:
    """The NumPy path as `netcl devices --json` describes it."""
    return device()


@pytest.fixture
def opencl() -> dict[str, Any]:
    """PoCL's device, the same way."""
    return dict(POCL)


POCL = device(
    id="opencl:0",
    backend="opencl",
    name="pthread",
    platform="Portable Computing Language",
    driver_version="3.1",
    max_work_group_size=4096,
    local_mem_bytes=1 << 20,
)


def cell_record(**changes: Any) -> CellRecord:
    """A record of a cell that passed."""
    made: dict[str, Any] = {
        "plugin": "netcl-plugin-swish",
        "version": "0.3",
        "core": "0.1.1",
        "core_build": "",
        "python": "3.11",
        "runtime": {"name": "numpy", "platform": "NumPy", "driver": "2.4", "device": "NumPy"},
        "level": "run",
        "state": "pass",
        "date": "2026-11-22T01:00:00+00:00",
        "seconds": 2.0,
        "packages": {"numpy": "2.4"},
        "content": {"python": "3.11.7"},
    }
    return CellRecord(**{**made, **changes})


PROGRAM = """#!{python}
import json, os, pathlib, sys, time
told = json.loads(max(pathlib.Path({told!r}).iterdir()).read_text())
call = pathlib.Path({calls!r}, f"{{time.time_ns():020}}-{{os.getpid()}}")
call.write_text(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))
what = told["devices" if sys.argv[1] == "devices" else "check"]
time.sleep(what.get("sleep", 0))
if "signal" in what:
    os.kill(os.getpid(), what["signal"])
sys.stdout.write(what.get("stdout", ""))
sys.stderr.write(what.get("stderr", ""))
sys.exit(what.get("code", 0))
"""


@dataclass
class Fake:
    """Environments that are all one folder, with a `netcl` that does what it is told."""

    folder: Path
    made: list[Any] = field(default_factory=list)
    answer: Made | None = None

    def tell(self, check: Any = None, devices: Any = None, **how: Any) -> None:
        """What the check does: print a record, end with a code, sleep, die of a signal.

        A new file each time: one of the same size, written again within a tick of the clock, is
        the old one to another process on some file systems.
        """
        text = "" if check is None else json.dumps(check)
        told = {"check": {"stdout": text, **how}, "devices": {"stdout": json.dumps(devices or {})}}
        (self.folder / "told" / f"{time.time_ns():020}").write_text(json.dumps(told))

    def environment(self, python: Any, supply: Any, wheels: Any, links: Path, named: Any) -> Made:
        assert {*named} <= {*wheels}
        self.made.append((python.minor, *(wheel.path.name for wheel in named)))
        return self.answer or Made(self.folder, (("numpy", "2.4"),))

    def calls(self) -> list[Any]:
        """(arguments, working directory, environment) of every call, the first one first.

        A file for each call: lines that two processes append at once get lost on some file systems.
        """
        written = sorted((self.folder / "calls").iterdir())
        return [json.loads(path.read_text()) for path in written]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """See `Fake`; its check passes. Without bubblewrap, in which it could note no call."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    folder = tmp_path / "environment"
    program = folder / "bin" / "netcl"
    program.parent.mkdir(parents=True)
    told, calls = folder / "told", folder / "calls"
    told.mkdir()
    calls.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, told=str(told), calls=str(calls)))
    program.chmod(0o755)
    made = Fake(folder)
    made.tell(check_record())
    return made
