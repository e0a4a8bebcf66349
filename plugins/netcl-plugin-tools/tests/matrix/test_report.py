"""The report of a matrix: nothing green that did not pass, nothing unescaped, history kept."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from netcl_plugin_kit.testing.records import from_json
from netcl_plugin_tools.matrix.board import board, counts, fraction, verdict
from netcl_plugin_tools.matrix.records import save
from netcl_plugin_tools.matrix.report import MARKER
from netcl_plugin_tools.matrix.signs import NOT_RUN, SIGNS

from netcl_core.cli.main import netcl

NASTY = '<script>alert("1")</script> | `x` \x1b[31m & more'


def at(name: str, **facts: str) -> dict[str, str]:
    return {"name": name, "platform": "", "driver": "", "device": "", **facts}


@pytest.fixture
def folder(tmp_path: Path, cell: Any, check: Any, outcome: Any) -> Path:
    """Records: a pass after a fail, a fail, a setup error, an unsupported cell, and gaps."""
    bad = outcome(state="failed", check="gradient", reason=NASTY, remedy="Look at <backward>")
    failed = from_json(check(state="fail", outcomes=[outcome(), bad]))
    made = [
        cell(state="fail", reason="once it was wrong", date="2026-11-20T01:00:00+00:00"),
        cell(check=from_json(check())),
        cell(runtime=at("pocl", driver="3.1"), state="fail", reason=NASTY, check=failed),
        cell(runtime=at("intel"), state="setup_error", reason="no disk", log="line <1>\nline 2"),
        cell(core="0.1.0", state="unsupported", reason="too old"),
        cell(plugin="netcl-plugin-relu", version="0.9", core_build="7", python="3.9"),
        cell(plugin="netcl-plugin-relu", version="0.10", core_build="7", python="3.12"),
    ]
    for record in made:
        save(record, tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def report(folder: Path, tmp_path: Path) -> Callable[..., Result]:
    """A function that calls `netcl matrix report`."""

    def run(*arguments: str) -> Result:
        command = ["matrix", "report", "--records", folder, "--out", tmp_path / "out", *arguments]
        return CliRunner().invoke(netcl, list(map(str, command)), catch_exceptions=False)

    return run


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [has for _, has in self.tags if name in (has.get("class") or "").split()]


def test_the_latest_record_counts_and_gaps_are_not_run(report: Any, tmp_path: Path) -> None:
    assert report().exit_code == 1
    page = Page(tmp_path / "out" / "index.html")
    cells = page.with_class("cell")
    tones = [next(n for n in (has["class"] or "").split() if n != "cell") for has in cells]
    assert len(cells) == 3 * 4 * 3  # plugins' versions x (core, build, Python) x runtimes
    assert {tone: tones.count(tone) for tone in set(tones)} == {
        "good": 3, "bad": 1, "warn": 1, "off": 1, "not_run": 30,
    }  # fmt: skip
    assert "netcl-plugin-relu 0.9" in page.text
    assert page.text.index("netcl-plugin-relu 0.9") < page.text.index("netcl-plugin-relu 0.10")


def test_every_link_leads_to_a_file_and_no_page_needs_a_script(report: Any, tmp_path: Path) -> None:
    report()
    pages = list((tmp_path / "out").rglob("*.html"))
    assert len(pages) == 1 + 6
    for path in pages:
        page = Page(path)
        assert not [tag for tag, _ in page.tags if tag == "script"]
        for _, has in page.tags:
            target = has.get("href") or ""
            if target.startswith("#"):
                assert [each for _, each in page.tags if each.get("id") == target[1:]], target
            elif target:
                assert (path.parent / target).is_file(), target


def test_each_state_has_a_sign_beside_its_colour(report: Any, tmp_path: Path) -> None:
    report()
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for state, sign in SIGNS.items():
        assert f'<span class="hidden">{sign.word}</span>' in text, state
        assert f'<span aria-hidden="true">{sign.sign}</span>' in text, state
    assert len({sign.sign for sign in SIGNS.values()}) == len(SIGNS)
    assert [state for state, sign in SIGNS.items() if sign.tone == "good"] == ["pass"]


def test_nothing_is_unescaped(report: Any, tmp_path: Path) -> None:
    report()
    for path in (tmp_path / "out").rglob("*.html"):
        assert "<script>" not in path.read_text(encoding="utf-8")
    page = next((tmp_path / "out" / "cells").glob("*pocl*"))
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;" in text
    assert "Look at &lt;backward&gt;" in text
    markdown = (tmp_path / "out" / "board.md").read_text(encoding="utf-8")
    assert r"\<script\>" in markdown
    (row,) = (line for line in markdown.splitlines() if "script" in line)
    assert row.replace(r"\|", "").count("|") == 5


def test_the_markdown_has_every_cell(report: Any, tmp_path: Path) -> None:
    report()
    text = (tmp_path / "out" / "board.md").read_text(encoding="utf-8")
    (table,) = [part for part in text.split("\n\n") if part.startswith("| plugin | core |")]
    header, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")
    )
    assert "numpy 3.11" in header
    signs = {(row[0], row[1]): dict(zip(header[2:], row[2:], strict=True)) for row in rows if row}
    assert signs["netcl-plugin-swish 0.3", "0.1.1"]["numpy 3.11"] == "✓"
    assert {sign for row in signs.values() for sign in row.values()} <= {
        each.sign for each in SIGNS.values()
    }


def test_a_broken_record_hides_no_other(report: Any, folder: Path, tmp_path: Path) -> None:
    (folder / "broken.json").write_text("{")
    result = report()
    assert result.exit_code == 1 and "passed over: broken.json" in result.stderr
    assert (tmp_path / "out" / "index.html").is_file()


def test_a_page_says_what_happened(report: Any, tmp_path: Path) -> None:
    report()
    cells = tmp_path / "out" / "cells"
    broken = Page(next(cells.glob("*intel*"))).text
    for words in ("no disk", "line <1>\nline 2", "core 0.1.1, Python 3.11, intel", "setup error"):
        assert words in broken
    passed = Page(cells / "netcl-plugin-swish-0.3__0.1.1__py3.11__numpy__run.html").text
    for words in ("Earlier records", "once it was wrong", "2026-11-20", "3.11.7", "1 packages"):
        assert words in passed
    failed = Page(next(cells.glob("*pocl*"))).text
    for words in ("What was checked", "What failed", "gradient", "3.1"):
        assert words in failed


def test_junit(report: Any, tmp_path: Path) -> None:
    report()
    root = ET.fromstring((tmp_path / "out" / "junit.xml").read_text(encoding="utf-8"))
    suites = {suite.get("name"): suite for suite in root}
    swish = suites["netcl-plugin-swish 0.3 (run)"]
    assert [swish.get(each) for each in ("tests", "failures", "errors", "skipped")] == [
        "12", "1", "1", "9",
    ]  # fmt: skip
    kinds = [[child.tag for child in case] for case in swish]
    assert kinds.count([]) == 1
    assert kinds.count(["skipped"]) == 9
    (failure,) = swish.iter("failure")
    assert NASTY.replace("\x1b", "�") == failure.get("message")


def test_badges_show_the_newest_version(report: Any, tmp_path: Path) -> None:
    report()
    out = tmp_path / "out" / "badges"
    assert sorted(path.name for path in out.iterdir()) == [
        "netcl-plugin-relu.svg", "netcl-plugin-swish.svg",
    ]  # fmt: skip
    swish = ET.fromstring((out / "netcl-plugin-swish.svg").read_text(encoding="utf-8"))
    assert swish.get("aria-label") == "matrix: 1/11"
    assert "#a61e2c" in (out / "netcl-plugin-swish.svg").read_text(encoding="utf-8")
    relu = (out / "netcl-plugin-relu.svg").read_text(encoding="utf-8")
    assert "#66625a" in relu  # it passed where it ran, and most of it did not run


def test_what_is_printed(report: Any) -> None:
    lines = report().stdout.splitlines()
    assert lines[0].split() == ["plugin", "level", "intel", "pocl", "numpy"]
    assert "netcl-plugin-swish 0.3" in lines[3]
    assert "✗ 0/4" in lines[3]
    assert any("fail" in line and "setup_error" not in line for line in lines[4:])
    data = json.loads(report("--json").stdout)
    assert data["counts"] == {
        "pass": 3, "fail": 1, "setup_error": 1, "unsupported": 1, "not_run": 30,
    }  # fmt: skip
    assert "index.html" in data["files"]


def test_a_report_takes_an_earlier_ones_place(report: Any, folder: Path, tmp_path: Path) -> None:
    report()
    out = tmp_path / "out"
    (out / "mine.txt").write_text("mine")
    for path in folder.glob("netcl-plugin-relu*"):
        path.unlink()
    assert report().exit_code == 1
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert left == {*json.loads(report("--json").stdout)["files"], MARKER, "mine.txt"}
    assert not [name for name in left if "relu" in name]


def test_a_page_of_somebody_elses_is_not_overwritten(report: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "index.html").write_text("mine")
    (tmp_path / "outside").write_text("mine")
    (out / MARKER).write_text('["../outside", "badges/none.svg"]')
    result = report()
    assert result.exit_code == 2
    assert "holds index.html, which no report wrote" in result.output
    assert sorted(path.name for path in out.iterdir()) == [MARKER, "index.html", "sub"]
    (out / "index.html").unlink()
    assert report().exit_code == 1
    assert (tmp_path / "outside").read_text() == "mine"


def test_no_record_at_all(tmp_path: Path) -> None:
    command = ["matrix", "report", "--records", str(tmp_path), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(netcl, command)
    assert result.exit_code == 3
    assert "there is none; expected records of cells" in result.output


@pytest.mark.parametrize(
    ("found", "state", "text"),
    [
        ({"pass": 3}, "pass", "3/3"),
        ({"pass": 3, "unsupported": 9}, "pass", "3/3"),
        ({"pass": 3, NOT_RUN: 1}, NOT_RUN, "3/4"),
        ({"pass": 3, "setup_error": 1}, "setup_error", "3/4"),
        ({"pass": 3, "setup_error": 1, "fail": 1}, "fail", "3/5"),
        ({"unsupported": 4}, "unsupported", ""),
        ({"unsupported": 4, NOT_RUN: 1}, "unsupported", "0/1"),
        ({}, NOT_RUN, ""),
    ],
)
def test_many_cells_together(found: dict[str, int], state: str, text: str) -> None:
    whole = {**dict.fromkeys(SIGNS, 0), **found}
    assert (verdict(whole), fraction(whole)) == (state, text)


def test_levels_are_kept_apart(cell: Any) -> None:
    shown = board([cell(level="full", state="fail"), cell(level="static"), cell()])
    assert [section.level for section in shown.sections] == ["static", "run", "full"]
    assert [counts(section.places)["pass"] for section in shown.sections] == [1, 1, 0]
