"""What programs read of a board: JUnit XML, badges, Markdown, JSON."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any

from packaging.version import Version

from netcl_plugin_tools.catalogue.badges import matrix_badge
from netcl_plugin_tools.matrix.board import Board, BoardCell, counts, together, verdict
from netcl_plugin_tools.matrix.pages import render
from netcl_plugin_tools.matrix.records import Cell, State, reasons
from netcl_plugin_tools.matrix.signs import NOT_RUN, SIGNS


def junit(shown: Board) -> str:
    """The board as JUnit XML: a suite per plugin, a case per cell."""
    root = ET.Element("testsuites", name="netcl matrix")
    for section in shown.sections:
        name = f"{section.plugin} {section.version} ({section.level})"
        counts = section.counts
        suite = ET.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(section.places)),
            failures=str(counts["fail"]),
            errors=str(counts["setup_error"]),
            skipped=str(counts["unsupported"] + counts[NOT_RUN]),
        )
        for place in section.places:
            _case(suite, name, place)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, name: str, place: BoardCell) -> None:
    record = place.latest
    where = f"core {place.cell.line}, Python {place.cell.python}, {place.cell.runtime}"
    seconds = f"{record.seconds if record else 0:.3f}"
    case = ET.SubElement(suite, "testcase", classname=name, name=where, time=seconds)
    kind = {"pass": "", "fail": "failure", "setup_error": "error"}.get(place.state, "skipped")
    if kind:
        text = record.reason if record else SIGNS[NOT_RUN].word
        ET.SubElement(case, kind, message=_plain(text)).text = _plain(record.log if record else "")


def _plain(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else "�" for character in text
    )


def badges(shown: Board) -> Iterator[tuple[str, str]]:
    """(plugin, SVG) of the badge of each plugin's newest version."""
    for plugin, section in shown.newest_sections().items():
        yield plugin, matrix_badge(*together(section.counts))


def summary(shown: Board) -> list[list[str]]:
    """A row per plugin and version, a column per runtime: `✓ 6/6`, over cores and Pythons."""
    return [
        [
            f"{section.plugin} {section.version}",
            section.level,
            *(f"{SIGNS[state].sign} {text}".strip() for state, text in section.columns),
        ]
        for section in shown.sections
    ]


def details(shown: Board) -> tuple[list[str], list[list[str]]]:
    """A column per runtime and Python that ran, and a row per plugin and core with their signs."""
    ran = {place.cell.runtime + place.cell.python for place in shown.places if place.latest}
    pythons = sorted({place.cell.python for place in shown.places}, key=Version)
    columns = [
        (runtime, python)
        for runtime in shown.runtimes
        for python in pythons
        if runtime + python in ran
    ]
    rows_of: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for section in shown.sections:
        for place in section.places:
            row = rows_of.setdefault((f"{section.plugin} {section.version}", place.cell.line), {})
            row[place.cell.runtime, place.cell.python] = SIGNS[place.state].sign
    return [f"{runtime} {python}" for runtime, python in columns], [
        [*who, *(row.get(column, SIGNS[NOT_RUN].sign) for column in columns)]
        for who, row in rows_of.items()
    ]


def ungreen(shown: Board) -> list[tuple[State, str, list[Cell]]]:
    """Why cells failed or could not be set up."""
    records = (place.latest for place in shown.places if place.latest)
    return reasons(records, ("fail", "setup_error"))


def markdown(shown: Board) -> str:
    """A summary for a page of documentation."""
    return render(
        "board.md.j2",
        board=shown,
        rows=summary(shown),
        details=details(shown),
        reasons=ungreen(shown),
        found=counts(shown.places),
    )


def data(shown: Board) -> dict[str, Any]:
    """The board as JSON data."""
    return {
        "newest": shown.newest,
        "counts": counts(shown.places),
        "plugins": [
            {
                "plugin": section.plugin,
                "version": section.version,
                "level": section.level,
                "counts": section.counts,
                "state": verdict(section.counts),
            }
            for section in shown.sections
        ],
    }
