"""Wheels and records to make catalogues of: sound ones, hostile ones, broken ones."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from netcl_plugin_kit.testing.records import (
    CheckRecord,
    DeviceFacts,
    KernelSource,
    Mutants,
    Outcome,
    Roofline,
)

from netcl_core.cli.main import netcl

#: Text that must never become markup, wherever it comes from.
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
README = """\
# netcl-plugin-swiglu

A gate. <b>raw</b> <script>alert(3)</script> [web](https://example.org/?a=1&b=2)
[bad](javascript:alert(4)) [file](docs/more.md) [down](#details) ![picture](https://example.org/x.png)

#### Details

| left | right |
|:-----|------:|
| 1    | 2     |

```python
import netcl_core as nc  # <i>not</i> markup
```
"""
MANIFEST = """\
schema = 1
[plugin]
name = "{name}"
api = [1, 0]
summary = "{summary}"
license = "MIT"
maturity = "beta"
[requires]
opencl = "1.2"
optional_extensions = ["cl_khr_fp16"]
local_mem_bytes = 4096
device_types = ["gpu", "cpu"]
"""
OP = """
[[provides]]
name = {name}
kind = "{kind}"
dtypes = ["float16", "float32"]
differentiable = true
priority = 5
templates = ["swiglu/swiglu.cl.j2"]
"""
RAISES = "raise RuntimeError('a catalogue must not import a plugin')\n"


def manifest(
    name: str, ops: Mapping[str, str] | Sequence[str] = (), summary: str = "A gated unit"
) -> str:
    """A manifest that provides ops: name -> kind, or names of primitives."""
    kinds = ops if isinstance(ops, Mapping) else dict.fromkeys(ops, "primitive")
    rows = [OP.format(name=json.dumps(op), kind=kind) for op, kind in kinds.items()]
    return MANIFEST.format(name=name, summary=summary.replace('"', '\\"')) + "".join(rows)


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: Mapping[str, str] | None = None,
    text: str | None = None,
    headers: Sequence[str] = (),
    readme: str = "",
    plugin: str = "",
    lie: str = "",
    group: str = "netcl_core.plugins",
    code: bool = True,
) -> Path:
    """Write a wheel: `text` is the manifest of its plugin, `lie` a file that RECORD is wrong about.

    Without `plugin` it is a distribution without entry points.
    """
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    fields = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *headers]
    content = {**({f"{package}/__init__.py": RAISES} if code else {}), **(files or {})}
    points = ""
    if plugin:
        points = f"[{group}]\n{plugin} = {package}:plugin\n"
    if text is not None:
        content[f"{package}/netcl_plugin.toml"] = text
        points += f"[netcl_core.manifest]\n{plugin} = {package}:netcl_plugin.toml\n"
    if points:
        content[f"{info}/entry_points.txt"] = points
    content[f"{info}/METADATA"] = "\n".join(fields) + f"\n\n{readme}"
    content[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{path},{_digest(path + lie if path == lie else body)},"
            for path, body in content.items()]  # fmt: skip
    content[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, body in content.items():
            archive.writestr(zipfile.ZipInfo(inner), body.encode("utf-8", "surrogateescape"))
    return path


def _digest(body: str) -> str:
    raw = hashlib.sha256(body.encode("utf-8", "surrogateescape")).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def good_wheels(folder: Path) -> None:
    """Three plugins, one of them in several versions, one of them hostile; and a dependency."""
    headers = [
        "Summary: A gated unit",
        "License-Expression: MIT",
        "Requires-Python: >=3.8",
        "Requires-Dist: sample-helper>=1",
        "Requires-Dist: torch; extra == 'test'",
        "Author-email: Ada <ada@example.org>",
        "Project-URL: Source, https://example.org/swiglu",
        "Project-URL: Evil, javascript:alert(5)",
        "Description-Content-Type: text/markdown; charset=UTF-8",
    ]
    ops = {"swiglu": "primitive", "geglu": "primitive", "gate": "operator", "gates": "namespace"}
    for version in ("0.9", "0.10", "0.11rc1", "0.10.post1"):
        info = f"netcl_plugin_swiglu-{version}.dist-info"
        documents = {
            f"{info}/licenses/LICENSE": f"Licence <text> & {EVIL}",
            f"{info}/CHANGELOG.md": f"# Changelog\n\n## {version}\n\n- It is here.\n",
        }
        made = manifest("swiglu", ops)
        wheel(folder / "deep", "netcl-plugin-swiglu", version, documents, made, headers, README,
              "swiglu")  # fmt: skip
    wheel(folder, "sample-helper", "1.2", headers=["Summary: No plugin"])
    plain = manifest("plain", summary="Says little")
    wheel(folder, "netcl-plugin-plain", text=plain, plugin="plain")
    evil = manifest("evil", [EVIL, "../../up", "Swiglu", "", "x" * 300], summary=EVIL)
    wheel(folder, "netcl-plugin-evil", text=evil, headers=[f"Author: {EVIL}"], readme=EVIL,
          plugin="evil")  # fmt: skip


def bad_wheels(folder: Path) -> dict[str, str]:
    """Wheels that a catalogue has to refuse, and a part of the reason for each."""
    text = manifest("bad", ["op"])
    reasons = {}

    def add(path: Path, reason: str) -> None:
        reasons[path.name] = reason

    add(wheel(folder, "bad-without-manifest", plugin="bad"), "has no manifest")
    address = ["Requires-Dist: helper @ https://example.org/helper.whl"]
    add(wheel(folder, "bad-address", headers=address, text=text, plugin="bad"), "by the address")
    add(wheel(folder, "bad-toml", text="schema = ", plugin="bad"), "its manifest bad_toml/")
    add(wheel(folder, "bad-future", text="schema = 9", plugin="bad"), "has schema 9")
    add(wheel(folder, "bad-type", text="schema = 1\nplugin = 3", plugin="bad"), "plugin = 3")
    for number, name in enumerate(("../up.py", "/etc/up.py", "a/../../up.py", "c:/up.py", "a\\up")):
        made = wheel(folder, f"bad-path-{number}", files={name: "x = 1"}, text=text, plugin="bad")
        add(made, "paths below its own folder")
    path = wheel(folder, "bad-record", text=text, plugin="bad", lie="bad_record/__init__.py")
    add(path, "not the file of its RECORD")
    path = wheel(folder, "bad-stranger", text=text, plugin="bad")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("bad_stranger/extra.py", "x = 1")
    add(path, "bad_stranger/extra.py stands either")
    path = wheel(folder, "bad-member", files={"bad_member/\u00e9.py": ""}, text=text, plugin="bad")
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xe9\xe9"))
    add(path, "cannot be unzipped")
    add(wheel(folder, "bad-text", readme="l\udce4tin"), "UTF-8 text")
    parts = ["Content-Type: multipart/mixed; boundary=x"]
    add(wheel(folder, "bad-parts", headers=parts, readme="--x\n\na\n--x--"), "UTF-8 text")
    path = wheel(folder, "bad-zip")
    path.write_bytes(path.read_bytes()[:200])
    add(path, "cannot be unzipped")
    path = wheel(folder, "bad-crc", text=text, plugin="bad")
    path.write_bytes(path.read_bytes().replace(b"must not import", b"must now import", 1))
    add(path, "cannot be unzipped")
    path = folder / "bad-name.whl"
    path.write_bytes(b"")
    add(path, "a name like")
    path = wheel(folder, "bad-version")
    add(path.rename(folder / "bad_version-2.0-py3-none-any.whl"), "as its file is named")
    path = wheel(folder, "bad-python", headers=["Requires-Python: new"])
    add(path, "Invalid specifier")
    path = wheel(folder, "bad-requirement", headers=["Requires-Dist: ~~~"])
    add(path, "what packaging can read")
    big = "x" * (5 << 20)
    path = wheel(folder, "bad-size", text=f"{text}\n# {big}", plugin="bad")
    add(path, "at most")
    return reasons


INTEL = DeviceFacts("opencl:0", "CPU A", "Intel(R) OpenCL", "2026.1", "cpu", True, True)
POCL = DeviceFacts("opencl:1", "CPU B", "Portable Computing Language", "3.1", "cpu", False, True)
NUMPY = DeviceFacts("numpy", "NumPy", "", "2.4", "cpu", True, True)
SOURCE = "__{word} void {op}_{way}(__global const {dtype} *x) {{ /* {note} */ }}\n"


@functools.cache
def digest() -> str:
    """That of the wheel of netcl-plugin-swiglu 0.10.post1, which is the same each time."""
    with tempfile.TemporaryDirectory() as folder:
        good_wheels(Path(folder))
        (path,) = Path(folder).rglob("netcl_plugin_swiglu-0.10.post1-*")
        return hashlib.sha256(path.read_bytes()).hexdigest()


def text_of(data: Any, wheel: Path) -> str:
    """A record, or several, as if they were of another wheel than swiglu's."""
    return json.dumps(data).replace(digest(), hashlib.sha256(wheel.read_bytes()).hexdigest())


def source(op: str, way: str = "forward", dtype: str = "float32", note: str = "") -> str:
    """A kernel."""
    return SOURCE.format(word="kernel", op=op, way=way, dtype=dtype, note=note)


def record(**changes: Any) -> CheckRecord:
    """A record of a full check of netcl-plugin-swiglu 0.10.post1."""
    outcomes = [Outcome("manifest", "passed"), Outcome("wheel", "failed", reason="no licence")]
    kernels, roofline = [], []
    for device in (INTEL, POCL, NUMPY):
        for op in ("swiglu", "geglu"):
            outcomes.append(Outcome("values", "passed", op, device.id, "float32"))
            half = Outcome("values", "skipped", op, device.id, "float16", "no half precision")
            outcomes.append(half if not device.fp16 else Outcome("values", "passed", op, device.id))
            for way in ("forward", "backward"):
                language = "python" if device is NUMPY else "opencl"
                text = "def f(x):\n    return x < 1\n" if device is NUMPY else source(op, way)
                kernels.append(KernelSource(op, device.id, "float32", way, language, text))
    outcomes.append(
        Outcome(
            "gradient", "failed", "geglu", "opencl:1", "float32", f"off by 2 {EVIL}", "Derive it"
        )
    )
    outcomes.append(Outcome("non-finite", "xfailed", "swiglu", "numpy", "float16", "known"))
    roofline.append(Roofline("swiglu", "opencl:0", "float32", 1 << 20, 0.87))
    made: dict[str, Any] = {
        "plugin": "netcl-plugin-swiglu",
        "version": "0.10.post1",
        "level": "full",
        "state": "fail",
        "core": "0.1.1",
        "python": "3.12.1",
        "system": "linux-x86_64",
        "date": "2026-03-04T05:06:07+00:00",
        "seconds": 12.5,
        "devices": (INTEL, POCL, NUMPY),
        "outcomes": tuple(outcomes),
        "kernels": tuple(kernels),
        "mutants": (Mutants("swiglu", 12, 11, (f"sign {EVIL}",)), Mutants("geglu", 9, 9)),
        "roofline": tuple(roofline),
        "wheel_sha256": digest(),
        "parts": ("wheel", "manifest", "values", "sanitizer", "mutants", "roofline"),
        "notes": (f"It comes without a licence file {EVIL}",),
    }
    return CheckRecord(**(made | changes))


def cell(
    name: str, state: str = "pass", core: str = "0.1.1", python: str = "3.12", **changes: Any
) -> dict[str, Any]:
    """A cell of the matrix, as JSON data."""
    place = {"name": name, "platform": "P", "driver": "1", "device": f"{name} device"}
    return {
        "schema": 1,
        "kind": "cell",
        "plugin": "swiglu",
        "version": "0.10.post1",
        "core": core,
        "core_build": "",
        "python": python,
        "runtime": place,
        "level": "run",
        "state": state,
        "reason": "" if state == "pass" else f"because {EVIL}",
        "date": "2026-03-05T00:00:00+00:00",
        "seconds": 3.0,
        "packages": {"numpy": "2.4.6"},
        "content": {"plugin": digest()},
        "check": None,
    } | changes


def records(folder: Path) -> None:
    """Records of checks and cells, and files that are none."""
    (folder / "cells").mkdir(parents=True)
    contents: dict[str, Any] = {
        "check.json": record().as_json(),
        "other.json": record(plugin="netcl-plugin-elsewhere").as_json(),
        "build.json": record(wheel_sha256="0" * 64).as_json(),
        "bad-kind.json": {"schema": 1, "kind": "song"},
        "bad-schema.json": {**record().as_json(), "schema": 2},
        "bad-list.json": [1, 2],
        "bad-state.json": cell("pocl", "green"),
        "bad-runtime.json": cell("pocl", runtime="pocl"),
        "cells/1.json": cell("intel"),
        "cells/2.json": cell("pocl", "fail"),
        "cells/3.json": cell("gpu", "setup_error"),
        "cells/4.json": cell("intel", "unsupported", core="0.1.0"),
        "cells/5.json": cell("pocl", python="3.9", check=record().as_json()),
    }
    for name, data in contents.items():
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    (folder / "bad-json.json").write_text("{", encoding="utf-8")
    nest = "[" * 800 + "]" * 800  # JSON's reader takes it; what walks it needs more room
    (folder / "bad-nest.json").write_text(f'{{"kind": "check", "notes": {nest}}}')
    (folder / "bad-depth.json").write_text("[" * 100_000, encoding="utf-8")


def build(wheels: Path, out: Path, *options: str) -> Result:
    """Run `netcl catalogue build`."""
    command = ["catalogue", "build", "--wheels", str(wheels), "--out", str(out)]
    command += ["--other", "sample-helper", *options]
    return CliRunner().invoke(netcl, command)
