"""Writes installed distributions, good and broken ones, into a folder for PYTHONPATH."""

from __future__ import annotations

import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from textwrap import dedent

TEMPLATE = """\
{% macro forward(x) %}x * x + 1{% endmacro %}
{% macro backward(x, grad, out) %}grad * 2 * x{% endmacro %}
"""


def install(
    site: Path,
    distribution: str,
    files: dict[str, str],
    entry_points: dict[str, dict[str, str]],
    version: str = "1.0",
    headers: Sequence[str] = (),
) -> Path:
    """Write files and metadata as pip would leave them; returns the folder of the metadata.

    `entry_points`: group -> name -> value; `headers`: further lines of METADATA.
    """
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}", *headers]
    (info / "METADATA").write_text("\n".join(lines) + "\n\nText: no header\n", encoding="utf-8")
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
    listed = [*files, f"{info.name}/METADATA", f"{info.name}/entry_points.txt"]
    record = [f"{name},{_digest((site / name).read_text(encoding='utf-8'))}," for name in listed]
    (info / "RECORD").write_text(
        "\n".join([*record, f"{info.name}/RECORD,,"]) + "\n", encoding="utf-8"
    )
    return info


def install_plugin(
    site: Path,
    name: str,
    code: str,
    templates: dict[str, str] | None = None,
    manifest: str | None = None,
    headers: Sequence[str] = (),
) -> Path:
    """A plugin of one package `<name>_package`: its object `plugin`, its templates, its manifest.

    Returns the folder of its metadata.
    """
    package = f"{name}_package"
    files = {f"{package}/__init__.py": code}
    for file, text in (templates or {}).items():
        files[f"{package}/templates/{file}"] = text
    points = {"netcl_core.plugins": {name: f"{package}:plugin"}}
    if manifest is not None:
        files[f"{package}/netcl_plugin.toml"] = manifest
        points["netcl_core.manifest"] = {name: f"{package}:netcl_plugin.toml"}
    return install(site, f"netcl-plugin-{name}", files, points, headers=headers)


def write_wheel(
    folder: Path,
    distribution: str,
    files: Mapping[str, str],
    points: Mapping[str, Mapping[str, str]],
    headers: Sequence[str] = (),
    unlisted: Mapping[str, str] | None = None,
) -> Path:
    """A wheel as a build backend would write it; `unlisted` files are missing from its RECORD."""
    info = f"{distribution.replace('-', '_')}-1.0.dist-info"
    lines = ["Metadata-Version: 2.4", f"Name: {distribution}", "Version: 1.0", *headers]
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in rows.items())
        for group, rows in points.items()
    ]
    members = {
        **files,
        f"{info}/METADATA": "\n".join(lines) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "\n".join(sections),
    }
    record = [f"{name},{_digest(text)},{len(text)}" for name, text in members.items()]
    members |= {**(unlisted or {}), f"{info}/RECORD": "\n".join([*record, f"{info}/RECORD,,"])}
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{distribution.replace('-', '_')}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return wheel


def _digest(text: str) -> str:
    return "sha256=" + urlsafe_b64encode(sha256(text.encode()).digest()).decode().rstrip("=")
