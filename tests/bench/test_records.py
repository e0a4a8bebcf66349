"""Records: read as written, compared by ratios, drawn and tabled without breaking anything."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.comparing import fallen
from harness.pages import last_records, section
from harness.plot import svg
from harness.records import RaceOutcome, RaceRecord, RaceResult, latest, load, save
from harness.table import duration, header, markdown, notes, rows

from netcl_core.errors import ArgumentError


def result(
    case: str = "a", ours: float | None = 1.0, others: Any = None, **facts: Any
) -> RaceResult:
    outcomes = {"netcl": RaceOutcome("timed" if ours else "failed", True, ours)}
    times = {"torch": 2.0, "jax": 4.0} if others is None else others
    outcomes |= {name: RaceOutcome("timed", False, seconds) for name, seconds in times.items()}
    return RaceResult("item", case, outcomes, **facts)


def record(*results: RaceResult, **facts: Any) -> RaceRecord:
    given = {"name": "Box", "platform": "P", "kind": "cpu", "driver": "1", "units": "2"}
    made = RaceRecord("2026-11-20T01:00:00+00:00", given, {"torch": "2"}, {"budget": "1"}, results)
    return replace(made, **facts)


SOME = record(
    result(limit="copy", limit_seconds=0.5),
    result("<b> & c", None),
    RaceResult("item", "c", {}, needs="needs conv2d"),
)


# -- files -------------------------------------------------------------------------------


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(SOME, tmp_path / "a.json")
    assert load(tmp_path / "a.json") == SOME


def test_a_record_has_its_ratios(tmp_path: Path) -> None:
    save(SOME, tmp_path / "a.json")
    first = json.loads((tmp_path / "a.json").read_text())["results"][0]
    assert (first["ours"], first["peer"]) == ("netcl", "torch")
    assert (first["ratio"], first["of_limit"]) == (0.5, 2.0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "cell", "schema": 1}',
                                  '{"kind": "bench", "schema": 0, "results": []}'])  # fmt: skip
def test_what_is_no_record_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(
        ArgumentError, match=r"a\.json.*expected a record of `python benchmarks --json`"
    ):
        load(tmp_path / "a.json")


def test_the_last_record_of_the_device_is_found_in_a_folder(tmp_path: Path) -> None:
    dates = ["2026-11-20T01:00:00+00:00", "2026-11-22T01:00:00+00:00", "2026-11-21T01:00:00+00:00"]
    for number, date in enumerate(dates):
        save(record(date=date), tmp_path / f"{number}.json")
    other = record(device={**SOME.device, "name": "Other"}, date="2026-11-23T01:00:00+00:00")
    save(other, tmp_path / "3.json")
    save(record(result("b"), date=dates[0]), tmp_path / "0.json")
    save(record(result("a", 0.5), date=dates[1]), tmp_path / "1.json")
    save(record(result("a"), date=dates[2]), tmp_path / "2.json")
    last = latest(tmp_path, "Box")
    assert last.date == dates[1]
    assert [(each.case, each.ratio()) for each in last.results] == [("b", 0.5), ("a", 0.25)]
    assert latest(tmp_path / "0.json", "Box").date == dates[0]
    with pytest.raises(ArgumentError, match=r"4 records in .*, none of Third"):
        latest(tmp_path, "Third")


# -- the comparison ----------------------------------------------------------------------


def test_a_busier_machine_is_no_regression() -> None:
    now = result(ours=3.0, others={"torch": 6.0, "jax": 12.0}, limit="copy", limit_seconds=1.5)
    assert fallen([now], SOME) == []


def test_ours_slower_beside_all_is_one() -> None:
    now = result(ours=1.3, limit="copy", limit_seconds=0.5)
    assert fallen([now], SOME) == [
        "item/a: netcl takes 0.65 of torch, 0.50 before (1.30 times, 1.25 are tolerated)"
    ]
    assert fallen([now], SOME, tolerance=0.31) == []


def test_a_faster_peer_is_none() -> None:
    assert fallen([result(others={"torch": 0.1, "jax": 4.0})], SOME) == []


def test_without_peers_the_limit_is_what_counts() -> None:
    then = record(result(others={}, limit="copy", limit_seconds=0.5))
    now = record(result(ours=2.0, others={}, limit="copy", limit_seconds=0.5))
    assert [line[:36] for line in fallen(now.results, then)] == [
        "item/a: netcl takes 4.00 of the limi"
    ]


def test_ours_that_fails_now_fell_behind() -> None:
    wrong = replace(result(), outcomes={"netcl": RaceOutcome("wrong", True, None, "off by 1")})
    assert fallen([wrong], SOME) == ["item/a: netcl was timed, and is wrong now: off by 1"]


def test_of_two_runs_the_better_time_counts_and_each_fault() -> None:
    first, second = result(ours=3.0, limit_seconds=0.5), result(others={"torch": 1.0, "jax": 5.0})
    assert first.or_faster(second) == result(others={"torch": 1.0, "jax": 4.0}, limit_seconds=0.5)
    failed = result(ours=None)
    assert failed.or_faster(second).troubles() == second.or_faster(failed).troubles() != []


def test_cases_and_peers_of_one_record_alone_are_not_compared() -> None:
    new = result("new", 100.0)
    absent = result(ours=100.0, others={"third": 1.0})
    assert fallen([new, absent], SOME) == []


# -- what is shown -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (0.001234, "1.23 ms"), (0.9996, "1e+03 ms"), (12e-6, "12 us"),
     (3e-8, "0.03 us"), (1234.0, "1234 s")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_table() -> None:
    assert header(SOME) == ["case", "netcl", "/ torch", "/ jax", "/ limit"]
    assert list(rows(SOME, "**")) == [
        ["item/a", "1 s", "**0.50**", "0.25", "2.00 (copy)"],
        ["item/<b> & c", "failed", "-", "-", ""],
        ["item/c", "", "", "", ""],
    ]
    assert [*markdown(SOME)][2] == "| item/a | 1 s | **0.50** | 0.25 | 2.00 (copy) |"


def test_what_has_no_time_is_said_once() -> None:
    lost = {"jax": RaceOutcome("absent", False, None, "not installed"),
            "torch": RaceOutcome("failed", False, None, "ValueError: x")}  # fmt: skip
    some = record(*(replace(result(case), outcomes=lost) for case in "ab"), SOME.results[2])
    assert list(notes(some)) == [
        "jax: absent, not installed",
        "item/a: torch failed, ValueError: x",
        "item/b: torch failed, ValueError: x",
        "item/c: needs conv2d",
    ]


def test_a_page_has_the_last_record_of_each_device(tmp_path: Path) -> None:
    other = {**SOME.device, "name": "Other"}
    save(replace(SOME, date="2026-11-19T01:00:00+00:00"), tmp_path / "old.json")
    save(SOME, tmp_path / "new.json")
    save(replace(SOME, device=other), tmp_path / "other.json")
    second = replace(result(), item="second")
    save(record(second, date="2026-11-10T00:00:00+00:00"), tmp_path / "second.json")
    found = last_records(tmp_path)
    assert [*found] == ["new", "other", "second"]
    lines = list(section(found["other"], "a.svg"))
    assert lines[0] == "### Other, 2 units, P 1, 2026-11-20"
    assert "| item/a | 1 s | **0.50** | 0.25 | 2.00 (copy) |" in lines
    assert "- item/c: needs conv2d" in lines and lines[-1].endswith("(a.svg)")


def test_the_drawing_is_whole() -> None:
    tree = ET.fromstring(svg(SOME))
    space = "{http://www.w3.org/2000/svg}"
    texts = [each.text for each in tree.iter(f"{space}text")]
    assert "item/a" in texts and "0.50 of torch" in texts
    assert not any("<b>" in (text or "") for text in texts), "it has no time"
    bars = [each for each in tree.iter(f"{space}rect") if each.get("height") == "13"]
    assert [bar.get("width") for bar in bars] == ["60.0"]
    assert len(list(tree.iter(f"{space}path"))) == 1


def test_names_are_escaped() -> None:
    assert "&lt;b&gt; &amp; c" in svg(record(result("<b> & c")))
