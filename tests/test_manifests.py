"""Manifests: found without an import, read tolerantly, and true of what plugins register."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import manifests
import pytest
from distributions import install, install_plugin
from netcl_market import journal
from netcl_market.file_memory import FileMemory
from netcl_market.finding import InstalledDistribution, distributions
from netcl_market.manifests import Manifest, locate, parse, table_in
from netcl_plugin_kit.check.registration import too_old

from netcl_core.dtypes import DTYPES
from netcl_core.errors import PluginError
from netcl_core.plugins.kinds import KINDS

FOLDERS = list(manifests.projects().values())
SCHEMA = json.loads(resources.files("netcl_market").joinpath("manifest_schema.json").read_text())
LEAST = {"schema": 1, "plugin": {"name": "x", "api": [1, 0], "summary": "s", "license": "MIT"}}


def test_every_manifest_is_up_to_date() -> None:
    stale = [str(path) for path in manifests.outdated()]
    assert stale == [], "run `make manifests`"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_manifest_and_registration_agree(folder: Path) -> None:
    """In both directions: nothing is promised that is not there, nothing is there unannounced."""
    rows = manifests.written(folder).get("provides", ())
    promised = {(row["kind"], row["name"]): row for row in rows}
    there = {(row["kind"], row["name"]): row for row in manifests.registered(folder.name)}
    assert promised == there
    assert promised


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_manifest_says_the_hook_api_that_it_needs(folder: Path) -> None:
    assert [str(each) for each in too_old(folder.name)] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_templates_of_a_manifest_exist(folder: Path) -> None:
    package = manifests.manifest_path(folder).parent
    prefix = manifests.written(folder)["plugin"]["name"]
    for row in manifests.written(folder).get("provides", ()):
        for template in row.get("templates", ()):
            start, _, file = template.partition("/")
            assert start == prefix and (package / "templates" / file).is_file()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_plugin_declares_its_manifest(folder: Path) -> None:
    points = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]
    (name,) = points["netcl_core.plugins"]
    package = folder.name.replace("-", "_")
    assert points["netcl_core.manifest"] == {name: f"{package}:netcl_plugin.toml"}
    made = parse(table_in(manifests.manifest_path(folder)))
    assert made.name == name and made.summary and made.license == "MIT"


# -- the schema ------------------------------------------------------------------------


def check(table: Any) -> None:
    validator = pytest.importorskip("jsonschema", reason="the extra check is not installed")
    validator.validate(table, SCHEMA)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_manifest_fits_the_schema(folder: Path) -> None:
    check(manifests.written(folder))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"unknown": 1},
        {"plugin": {"name": "x"}},
        {"plugin": {**LEAST["plugin"], "extra": 1}},  # type: ignore[dict-item]
        {"requires": {"device_types": ["toaster"]}},
        {"provides": [{"name": "x", "kind": "wish"}]},
        {"provides": [{"name": "x", "kind": "primitive", "dtypes": ["float128"]}]},
        {"provides": [{"name": "x", "kind": "namespace", "priority": 1}]},
        {"provides": [{"name": "x", "kind": "implementation", "differentiable": True}]},
        {"provides": [{"name": "x", "kind": "amp_policy", "dtypes": ["float16"]}]},
    ],
)
def test_the_schema_refuses(change: dict[str, Any]) -> None:
    check(LEAST)
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        check({**LEAST, **change})


def test_the_schema_knows_what_the_core_knows() -> None:
    row = SCHEMA["properties"]["provides"]["items"]["properties"]
    assert row["kind"]["enum"] == [*KINDS]
    assert row["dtypes"]["items"]["enum"] == list(DTYPES)
    plugin = SCHEMA["properties"]["plugin"]["properties"]
    assert plugin.keys() <= Manifest.__dataclass_fields__.keys()


# -- reading ---------------------------------------------------------------------------


def test_unknown_keys_are_ignored() -> None:
    made = parse({**LEAST, "later": {"a": 1}, "provides": [{"name": "f", "kind": "op", "new": 2}]})
    assert made.provides[0].name == "f" and made.api == (1, 0)
    assert parse({}).name == "" and parse({"plugin": {"summary": 3}}).summary == ""


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ({"schema": "1"}, "NP111"),
        ({"schema": 2}, "NP105"),
        ({"schema": True}, "NP111"),
        ({"plugin": []}, "NP111"),
        ({"plugin": {"api": [1]}}, "NP111"),
        ({"plugin": {"api": [1, "0"]}}, "NP111"),
        ({"plugin": {"api": [True, 0]}}, "NP111"),
        ({"plugin": {"superseded_by": 1}}, "NP111"),
        ({"requires": {"extensions": "cl_khr_fp16"}}, "NP111"),
        ({"requires": {"extensions": [1]}}, "NP111"),
        ({"requires": {"local_mem_bytes": "1"}}, "NP111"),
        ({"requires": {"opencl": 1.2}}, "NP111"),
        ({"requires": {"opencl": "1.2.0"}}, "NP111"),
        ({"requires": {"opencl": "latest"}}, "NP111"),
        ({"provides": {}}, "NP111"),
        ({"provides": [{"name": "x", "kind": "primitive", "priority": "1"}]}, "NP111"),
    ],
)
def test_keys_that_decide_are_typed(table: dict[str, Any], code: str) -> None:
    with pytest.raises(PluginError) as caught:
        parse(table)
    assert caught.value.code == code


class Small:
    """A device as manifests see it."""

    has_kernels, kind, extensions = True, "cpu", ("cl_khr_fp64",)
    local_mem_bytes, max_work_group_size, opencl_c = 1000, 64, (1, 2)

    def __str__(self) -> str:
        return "small"


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ({}, None),
        ({"device_types": ["cpu"], "extensions": ["cl_khr_fp64"]}, None),
        ({"device_types": ["gpu"]}, "it needs a gpu, small is a cpu"),
        ({"extensions": ["cl_khr_fp16"]}, "small lacks cl_khr_fp16"),
        ({"local_mem_bytes": 2000}, "it needs local_mem_bytes of at least 2000, small has 1000"),
        ({"max_work_group_size": 65}, "it needs max_work_group_size of at least 65"),
        ({"opencl": "1.2"}, None),
        ({"opencl": "1.0"}, None),
        ({"opencl": "1.10"}, "it needs OpenCL C 1.10, small has 1.2"),
        ({"opencl": "3.0"}, "it needs OpenCL C 3.0, small has 1.2"),
        ({"optional_extensions": ["cl_khr_fp16"]}, None),
    ],
)
def test_what_a_device_has_to_have(requires: dict[str, Any], reason: str | None) -> None:
    said = parse({"requires": requires}).requires.unmet(Small())
    assert said == reason or (reason and said and said.startswith(reason))


@pytest.mark.parametrize(
    ("requires", "anything"),
    [
        ({}, True),
        ({"optional_extensions": ["cl_khr_fp16"]}, True),
        ({"opencl": "1.2"}, False),
        ({"extensions": ["cl_khr_fp64"]}, False),
        ({"local_mem_bytes": 1}, False),
    ],
)
def test_every_device_will_do(requires: dict[str, Any], anything: bool) -> None:
    assert parse({"requires": requires}).requires.anything is anything


# -- finding ---------------------------------------------------------------------------


@pytest.fixture
def installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], InstalledDistribution]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def find(name: str) -> InstalledDistribution:
        (found,) = [each for each in distributions() if each.name == name]
        return found

    return find


def test_a_manifest_is_found_in_the_list_of_files(
    tmp_path: Path, installed: Callable[[str], InstalledDistribution]
) -> None:
    install_plugin(tmp_path, "listed", "raise AssertionError", manifest="schema = 1\n")
    path = locate(installed("netcl-plugin-listed"), "listed_package:netcl_plugin.toml")
    assert path == tmp_path / "listed_package" / "netcl_plugin.toml"


def test_a_manifest_of_an_editable_installation(
    tmp_path: Path,
    installed: Callable[[str], InstalledDistribution],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files are elsewhere on the path; neither the package nor its parent is imported."""
    source = tmp_path / "elsewhere"
    package = source / "outer_name" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "netcl_plugin.toml").write_text("schema = 1\n")
    monkeypatch.syspath_prepend(str(source))
    value = "outer_name.inner:netcl_plugin.toml"
    install(tmp_path, "edited", {}, {"netcl_core.manifest": {"edited": value}})
    assert locate(installed("edited"), value) == package / "netcl_plugin.toml"
    assert "outer_name" not in sys.modules


@pytest.mark.parametrize(
    "value", ["nowhere:x.toml", "json:nothing.toml", "json:../x", "json:/etc/passwd", ":x", "json"]
)
def test_a_manifest_that_is_not_there(
    tmp_path: Path, installed: Callable[[str], InstalledDistribution], value: str
) -> None:
    install_plugin(tmp_path, "listed", "", manifest="schema = 1\n")
    assert locate(installed("netcl-plugin-listed"), value) is None


def test_a_broken_neighbour_hides_nobody(
    tmp_path: Path, installed: Callable[[str], InstalledDistribution]
) -> None:
    """Metadata that are no text, no metadata at all, a RECORD that is no CSV."""
    good = install_plugin(tmp_path, "listed", "", manifest="schema = 1\n")
    (good / "RECORD").write_text('"unclosed,\n')
    for name, files in {
        "binary": {"entry_points.txt": b"\xff\xfe[netcl_core.plugins]"},
        "hollow": {},
        "nameless": {"entry_points.txt": b"[netcl_core.plugins]\nx = y:z\n", "METADATA": b""},
    }.items():
        folder = tmp_path / f"{name}-1.dist-info"
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
    found = {each.name: each for each in distributions()}
    assert "METADATA" in found["nameless"].problem
    value = "listed_package:netcl_plugin.toml"
    assert locate(found["netcl-plugin-listed"], value) is not None


def test_a_newer_copy_without_entry_points_hides_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path / "old", "copied", "")
    install(tmp_path / "new", "netcl-plugin-copied", {}, {}, version="2.0")
    monkeypatch.syspath_prepend(str(tmp_path / "old"))
    assert "netcl-plugin-copied" in {each.name for each in distributions()}
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    assert "netcl-plugin-copied" not in {each.name for each in distributions()}


# -- what is remembered of them --------------------------------------------------------

MANIFEST = """schema = 1
[plugin]
name = "kept"
api = [1, 0]
[[provides]]
name = "kept_op"
kind = "primitive"
tolerance = {float32 = 1e-6}
"""


def read(memory: FileMemory, path: Path) -> Manifest:
    return memory.recall(str(path), [str(path)], lambda: table_in(path), parse)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A manifest that the memory in `tmp_path / "memory.json"` knows."""
    path = tmp_path / "netcl_plugin.toml"
    path.write_text(MANIFEST)
    memory = FileMemory(tmp_path / "memory.json")
    read(memory, path)
    memory.save()
    return path


def read_again(path: Path) -> Manifest:
    return read(FileMemory(path.with_name("memory.json")), path)


def test_a_manifest_that_is_remembered_is_not_parsed_again(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = parse(tomllib.loads(MANIFEST))
    monkeypatch.setattr(tomllib, "loads", lambda text: pytest.fail("it was parsed"))
    assert read_again(kept) == expected


def test_a_manifest_that_has_changed_is_parsed_again(kept: Path) -> None:
    kept.write_text(MANIFEST.replace("kept_op", "made_op"))  # of the same size
    assert [row.name for row in read_again(kept).provides] == ["made_op"]


def test_a_broken_manifest_is_refused_every_time(kept: Path) -> None:
    kept.write_text("schema = ")
    for _ in range(2):
        memory = FileMemory(kept.with_name("memory.json"))
        with pytest.raises(PluginError, match="Invalid value") as refused:
            read(memory, kept)
        assert refused.value.code == "NP110"
        memory.save()


def test_what_json_cannot_hold_is_parsed_every_time(kept: Path) -> None:
    kept.write_text(f"{MANIFEST}\n[other]\nday = 2026-01-02\n")
    memory = FileMemory(kept.with_name("memory.json"))
    assert read(memory, kept).name == "kept"
    memory.save()
    assert json.loads(kept.with_name("memory.json").read_text())["files"] == {}


@pytest.mark.parametrize(
    "damaged",
    ["", "[]", "{", '{"schema": 1}', '{"schema": 1, "files": {"x": [1, 2]}}', "\0" * 9],
)
def test_a_damaged_memory_costs_nothing_but_time(kept: Path, damaged: str) -> None:
    kept.with_name("memory.json").write_text(damaged)
    assert read_again(kept).name == "kept"


def test_a_table_without_a_bottom_is_not_written(tmp_path: Path) -> None:
    table: dict[str, Any] = {}
    for _ in range(100_000):
        table = {"a": table}
    journal.save(tmp_path / "memory.json", 1, table)
    assert list(tmp_path.iterdir()) == []


def test_what_is_gone_is_forgotten(kept: Path) -> None:
    other = kept.with_name("other.toml")
    other.write_text(MANIFEST)
    memory = FileMemory(kept.with_name("memory.json"))
    read(memory, other)
    kept.unlink()
    memory.save()
    table = json.loads(kept.with_name("memory.json").read_text())
    assert list(table["files"]) == [str(other)]


def test_any_number_is_remembered(tmp_path: Path) -> None:
    """A thousand plugins are no reason to parse half of them again."""
    path = tmp_path / "memory.json"
    memory = FileMemory(path)
    for number in range(1000):
        file = tmp_path / f"{number}.toml"
        file.touch()
        memory.recall(str(file), [str(file)], lambda: {"a": 1}, len)
    memory.save()
    again = FileMemory(path)
    for number in range(1000):
        file = str(tmp_path / f"{number}.toml")
        assert again.recall(file, [file], lambda: pytest.fail("it was parsed"), len) == 1


@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt", "RECORD", "netcl_plugin.toml"])
def test_what_is_remembered_of_a_distribution_goes_with_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Changed in place, with no other folder touched; a wrong memory is none."""
    memory = tmp_path / "memory.json"
    info = install_plugin(tmp_path / "site", "facts", "", manifest=MANIFEST)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])

    def seen() -> tuple[Any, ...]:
        known = FileMemory(memory)
        (one,) = distributions(known)
        known.save()
        place = one.listed.get("facts_package:netcl_plugin.toml")
        made = None if place is None else read(FileMemory(memory), Path(place))
        return one.version, sorted(one.points), place is None, made and made.name

    first = seen()
    assert first == seen() == ("1.0", first[1], False, "kept")
    path = info / file if file != "netcl_plugin.toml" else tmp_path / "site/facts_package" / file
    changes = {
        "METADATA": ("1.0", "2.0"),
        "entry_points.txt": ("[netcl_core.plugins]", "[x]"),
        "RECORD": ("netcl_plugin.toml", "x"),
        "netcl_plugin.toml": ("kept", "made"),
    }
    path.write_text(path.read_text().replace(*changes[file]))
    changed = seen()
    assert changed != first and changed == seen()


def test_a_read_only_folder_costs_nothing_but_time(kept: Path, tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "netcl_plugin.toml" / "memory.json")  # no folder at all
    assert read(memory, kept).name == "kept"
    memory.save()
