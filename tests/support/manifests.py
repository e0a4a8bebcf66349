"""Writes the manifest of every first-party plugin from what it registers.

    python tests/support/manifests.py            write the files that differ
    python tests/support/manifests.py --check    name them and exit with 1 instead

What a registration does not tell comes from the plugin's `pyproject.toml` (summary, licence) and
from its conformance cases (dtypes, and gradients of structured ops). The keys of
`[plugin]` and `[requires]` that a person wrote are kept.
"""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import renewal
from netcl_market.finding import FILE
from netcl_market.manifests import SCHEMA
from netcl_plugin_kit.check.registration import pairs, provided, toml, unpromise
from netcl_plugin_kit.testing import table_of

from netcl_core.plugins.loading import load_installed
from netcl_core.version import API_VERSION

ROOT = Path(__file__).resolve().parents[2]
KEPT = ("api", "maturity", "superseded_by")


def projects() -> dict[str, Path]:
    """Distribution name -> folder of every first-party plugin."""
    return {path.parent.name: path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))}


def manifest_path(folder: Path) -> Path:
    """Where a plugin's manifest lies: in its package."""
    return folder / "src" / folder.name.replace("-", "_") / FILE


def registered(distribution: str) -> list[dict[str, Any]]:
    """The rows of `[[provides]]` that follow from what a plugin registers, sorted."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_installed(unpromise)
    return provided(distribution, table_of(distribution).cases)


def written(folder: Path) -> dict[str, Any]:
    """The manifest as it stands; empty if there is none."""
    path = manifest_path(folder)
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def wanted(folder: Path) -> str:
    """The text that a plugin's manifest ought to have."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (name,) = project["entry-points"]["netcl_core.plugins"]
    old = written(folder)
    plugin = {
        "name": name,
        "api": list(API_VERSION),
        "summary": project["description"],
        "license": project["license"],
        "maturity": "alpha",
    }
    plugin |= {key: old["plugin"][key] for key in KEPT if key in old.get("plugin", {})}
    lines = ["# Written by `make manifests` from what the plugin registers.", f"schema = {SCHEMA}"]
    lines += ["", "[plugin]", *pairs(plugin)]
    if old.get("requires"):
        lines += ["", "[requires]", *pairs(old["requires"])]
    if rows := registered(project["name"]):
        lines += ["", toml(rows)]
    return "\n".join(lines) + "\n"


def catalogue() -> dict[str, Any]:
    """The bundled catalogue: what the manifests of all first-party plugins say."""
    packages: dict[str, Any] = {}
    for name, folder in projects().items():
        manifest = written(folder)
        provides: dict[str, list[str]] = {}
        for row in manifest.get("provides", ()):
            provides.setdefault(row["kind"], []).append(row["name"])
        plugin = manifest["plugin"]
        entry = {key: plugin[key] for key in ("summary", "license", "maturity")}
        packages[name] = {**entry, "provides": provides}
    return {"schema": 1, "packages": packages}


def outdated() -> dict[Path, str]:
    """The manifests that differ from what they ought to be."""
    outdated_pages = {}
    for folder in projects().values():
        path, text = manifest_path(folder), wanted(folder)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            outdated_pages[path] = text
    return outdated_pages


if __name__ == "__main__":
    renewal.main(outdated)
