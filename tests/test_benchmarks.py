"""The items of benchmarks/: each gives cases for both kinds of devices; none is timed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness.cases import RaceCase
from harness.finding import chosen, items_in
from harness.peers import PEERS
from harness.records import load

ROOT = Path(__file__).resolve().parent.parent
ITEMS = items_in([ROOT / "benchmarks"])


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("item", ITEMS)
def test_an_item_gives_cases(item: str, kind: str) -> None:
    found: list[RaceCase] = [case for _, case in chosen(ITEMS, [item], kind)]
    names = [case.name for case in found]
    assert len(set(names)) == len(names) > 0
    for case in found:
        assert case.needs or case.makers.keys() <= PEERS.keys()
        assert any(PEERS[name].ours for name in case.makers)
        assert case.limit is None or case.limit.scale > 0


def test_the_page_names_each_item_and_each_script() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    part = page.partition("## What is there")[2]
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - ITEMS.keys()
    assert {*re.findall(r"`(\w+)`", part)} == ITEMS.keys()
    assert {*re.findall(r"`(\w+)\.py`", part)} == scripts - {"bandwidth", "__main__"}


@pytest.mark.parametrize(
    "path", [*(ROOT / "benchmarks" / "records").glob("*.json")], ids=lambda path: path.stem
)
def test_a_record_can_be_read(path: Path) -> None:
    record = load(path)
    assert record.results and {each.item for each in record.results} <= ITEMS.keys()
    assert not [line for each in record.results for line in each.troubles()]
