"""Writes installed distributions, good and broken ones, into a folder for PYTHONPATH."""

from __future__ import annotations

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
) -> None:
    """Write files and metadata as pip would leave them. `entry_points`: group -> name -> value."""
    for name, text in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
    )
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")


def install_plugin(
    site: Path, name: str, code: str, templates: dict[str, str] | None = None
) -> None:
    """A plugin of one package `<name>_package`, its object `plugin` and its templates."""
    package = f"{name}_package"
    files = {f"{package}/__init__.py": code}
    for file, text in (templates or {}).items():
        files[f"{package}/templates/{file}"] = text
    install(
        site,
        f"netcl-plugin-{name}",
        files,
        {"netcl_core.plugins": {name: f"{package}:plugin"}},
    )
