"""Wheels are read as data: the sound ones whole, the others refused by name and with a reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import samples
from netcl_plugin_kit.packages.metadata import clean, read_metadata
from netcl_plugin_kit.packages.wheel import read_wheel


def test_every_bad_wheel_is_refused_and_named(tmp_path: Path) -> None:
    samples.good_wheels(tmp_path / "wheels")
    wanted = samples.bad_wheels(tmp_path / "wheels")
    result = samples.build(tmp_path / "wheels", tmp_path / "out", "--json")
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    refused = {one["file"]: one["reason"] for one in said["refused"]}
    assert refused.keys() == wanted.keys()
    for name, reason in wanted.items():
        assert reason in refused[name], name
        assert (reason in "cannot be unzipped") == ("cannot be unzipped" in refused[name]), name
    page = (tmp_path / "out" / "findings.html").read_text(encoding="utf-8")
    there = {path.name for path in (tmp_path / "out").rglob("*") if path.suffix == ".whl"}
    for name in wanted:
        assert f"<code>{name}</code>" in page
        assert name not in there
    assert said["plugins"].keys() == {
        "netcl-plugin-evil", "netcl-plugin-plain", "netcl-plugin-swiglu",
    }  # fmt: skip


def test_nothing_of_a_wheel_is_imported(inputs: Path, site: Path) -> None:
    """Every wheel's package raises when it is imported."""
    assert not [name for name in sys.modules if name.startswith(("netcl_plugin_swiglu", "bad_"))]


def test_a_wheel(inputs: Path) -> None:
    (path,) = inputs.rglob("netcl_plugin_swiglu-0.10.post1*.whl")
    made = read_wheel(path)
    assert (made.name, str(made.version), made.pure) == ("netcl-plugin-swiglu", "0.10.post1", True)
    assert made.size == path.stat().st_size
    (manifest,) = made.manifests
    assert [row.name for row in manifest.provides] == ["swiglu", "geglu", "gate", "gates"]
    assert manifest.requires.local_mem_bytes == 4096
    assert made.changelog.startswith("# Changelog")
    assert made.licences[0][0] == "LICENSE" and "Licence <text>" in made.licences[0][1]
    metadata = made.metadata
    assert metadata.licence == "MIT" and metadata.requires_python == ">=3.8"
    assert metadata.requires == ("sample-helper>=1",)  # torch is an extra's
    assert metadata.links == (("Source", "https://example.org/swiglu"),)
    assert metadata.readme_type == "text/markdown" and "A gate." in metadata.readme


def test_a_single_primitive_needs_no_manifest(tmp_path: Path) -> None:
    """Its op is that of the entry point, and what else is said comes from METADATA."""
    headers = ["Summary: A bend", "License-Expression: MIT"]
    group = "netcl_core.primitives"
    samples.wheel(tmp_path / "w", "bend", headers=headers, plugin="bend", group=group)
    result = samples.build(tmp_path / "w", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads((tmp_path / "out" / "catalogue.json").read_text(encoding="utf-8"))
    entry = said["packages"]["bend"]
    assert entry["summary"] == "A bend" and entry["provides"] == {"primitive": ["bend"]}


def test_versions_are_sorted_and_the_latest_is_no_pre_release(site: Path, inputs: Path) -> None:
    result = samples.build(inputs / "wheels", site.parent / "again", "--json")
    versions = json.loads(result.stdout)["plugins"]["netcl-plugin-swiglu"]
    assert versions == ["0.11rc1", "0.10.post1", "0.10", "0.9"]
    page = (site / "plugins" / "netcl-plugin-swiglu.html").read_text(encoding="utf-8")
    assert page.index("0.11rc1-py3") < page.index("0.10.post1-py3") < page.index("0.9-py3")
    assert "<dt>Version</dt><dd>0.10.post1</dd>" in page


def test_the_same_name_twice(tmp_path: Path) -> None:
    """Equal files are one; of two different ones the second is refused."""
    for folder in ("a", "b"):
        samples.wheel(tmp_path / "w" / folder, "sample-helper")
    assert samples.build(tmp_path / "w", tmp_path / "one").exit_code == 0
    samples.wheel(tmp_path / "w" / "c", "sample-helper", headers=["Summary: Another"])
    result = samples.build(tmp_path / "w", tmp_path / "two", "--json")
    assert result.exit_code == 1
    (refused,) = json.loads(result.stdout)["refused"]
    assert refused["file"].startswith("c/") and "another of its name" in refused["reason"]


def test_control_characters_are_left_out() -> None:
    assert clean("a\x1b[31m\u202eb\ud800\r\nc\td") == "a[31mb\nc\td"
    raw = "Metadata-Version: 2.1\nName: x\nVersion: 1\nSummary: red \x1b[31m text\n\nlong\x00er\n"
    made = read_metadata(raw.encode())
    assert made.summary == "red [31m text" and made.readme == "longer\n"


@pytest.mark.parametrize("field", ["Name", "Version"])
def test_metadata_without_a_name_or_version(tmp_path: Path, field: str) -> None:
    path = samples.wheel(tmp_path, "sample-helper", headers=[])
    raw = path.read_bytes().replace(f"{field}: ".encode(), f"{field[:-1]}x: ".encode())
    path.write_bytes(raw)
    result = samples.build(tmp_path, tmp_path.parent / f"out-{field}", "--json")
    assert result.exit_code == 1 and len(json.loads(result.stdout)["refused"]) == 1
