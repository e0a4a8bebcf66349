"""The records of a matrix: written once, never changed, read back or named."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_kit.testing.records import from_json
from netcl_plugin_tools.matrix.records import load, save

from netcl_core.errors import RecordError


def test_a_record_is_never_changed(cell: Any, tmp_path: Path) -> None:
    path = save(cell(), tmp_path)
    before = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert save(cell(), tmp_path) == path
    assert save(cell(state="fail"), tmp_path) != path
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    assert path.name.startswith("netcl-plugin-swish-0.3__0.1.1__py3.11__numpy__20261122T010000Z-")


def test_a_file_in_the_way_is_not_overwritten(cell: Any, tmp_path: Path) -> None:
    path = save(cell(), tmp_path)
    path.unlink()
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        save(cell(), tmp_path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_a_record_reads_back_equal(cell: Any, check: Any, tmp_path: Path) -> None:
    from_check = from_json(check())
    record = cell(check=from_check, log="a\nb")
    save(record, tmp_path)
    assert load(tmp_path) == ([record], [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, "schema 2; expected 1. Upgrade netcl-plugin-tools"),
        ({"state": "green"}, "state is 'green', which should be one of pass"),
        ({"date": "yesterday"}, "Invalid isoformat"),
        ({"runtime": {"name": "numpy"}}, "runtime ['name']"),
        ({"check": {"kind": "check", "schema": 1}}, "expected the fields"),
        ({"level": "deep"}, "level 'deep'"),
        ({"version": "new"}, "Invalid version"),
        ({"plugin": "../../elsewhere"}, "the name '../../elsewhere'"),
        ({"python": "three"}, "Python 'three'"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(
    cell: Any, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({**cell().as_json(), **changes}))
    (tmp_path / "good.json").write_text(json.dumps(cell().as_json()))
    found, (error,) = load(tmp_path)
    assert len(found) == 1  # one bad file hides no other
    assert isinstance(error, RecordError) and "bad.json" in str(error)
    assert words in str(error)


def test_other_records_are_passed_over(check: Any, tmp_path: Path) -> None:
    (tmp_path / "check.json").write_text(json.dumps(check()))
    assert load(tmp_path) == ([], [])
    (tmp_path / "none.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    found, broken = load(tmp_path)
    assert found == [] and [str(each).split(":")[0] for each in broken] == [
        "deep.json",
        "none.json",
    ]
