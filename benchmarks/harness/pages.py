"""Records as parts of a page: the last one of each device and item, with table and drawing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.records import RaceRecord, load
from harness.table import heading, libraries, markdown, notes


def last_records(folder: Path) -> dict[str, RaceRecord]:
    """The name of a file in the folder -> its record, if it is a device's last one of an item."""
    by_stem = {path.stem: load(path) for path in sorted(folder.glob("*.json"))}
    last = {
        (record.device["name"], result.item): name
        for name, record in sorted(by_stem.items(), key=lambda pair: pair[1].date)
        for result in record.results
    }
    return {name: record for name, record in by_stem.items() if name in last.values()}


def section(record: RaceRecord, drawing: str) -> Iterator[str]:
    """Lines of Markdown: the device, the table, what has no time and why, the drawing.

    Args:
        record: What was measured.
        drawing: Where its drawing lies, as seen from the page.
    """
    settings = ", ".join(f"{name} {value}" for name, value in record.settings.items())
    yield f"### {heading(record)}"
    yield ""
    yield f"{libraries(record)}; {settings}."
    yield ""
    yield from markdown(record)
    yield ""
    for note in notes(record):
        yield f"- {note}"
    yield ""
    yield f"![Bars of our best time to that of the best peer]({drawing})"
