"""The pages of a board, rendered from the templates of this package; nothing needs a script."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from netcl_plugin_kit.testing.records import CheckRecord, Outcome

from netcl_core.config import core_source
from netcl_plugin_tools.catalogue.rendering import environment
from netcl_plugin_tools.matrix.board import Board, BoardCell, counts, together
from netcl_plugin_tools.matrix.runtimes import RUNTIMES

_FOLDER: Final = Path(__file__).parents[1] / "templates" / "matrix"
_OUTCOMES: Final = ("passed", "failed", "skipped", "xfailed")
_FAILURES: Final = 100  # on a page; the record has them all


def _inline(text: str) -> str:
    """A text as a cell of a Markdown table: one line, nothing that Markdown would take."""
    flat = " ".join(text.split())
    for mark in "\\|<>*_`[]":
        flat = flat.replace(mark, f"\\{mark}")
    return flat


_environment: Final = environment(_FOLDER)
_environment.filters["inline"] = _inline


def render(name: str, **context: Any) -> str:
    """Render a template; what is HTML or SVG has its values escaped."""
    return _environment.get_template(name).render(**context)


#: Debian's packages of the runtimes that pip does not bring.
_PACKAGES: Final = {"pocl": "pocl-opencl-icd", "oclgrind": "oclgrind"}


def workflow(**options: Any) -> str:
    """A GitHub workflow of a matrix, by the options of `netcl matrix workflow`."""
    packages = [_PACKAGES[runtime] for runtime in options["runtimes"] if runtime in _PACKAGES]
    options["project"] = shlex.quote(options["project"])
    return render("workflow.yml.j2", packages=packages, **options)


def styles() -> Iterator[tuple[str, str]]:
    """(name, text) of the style sheets: the look that all pages of netcl share, and the board's."""
    yield "text.css", core_source("catalogue/text.css")
    yield "board.css", (_FOLDER / "board.css").read_text(encoding="utf-8")


def pages(shown: Board) -> Iterator[tuple[str, str]]:
    """(path, HTML) of the board and of a page per cell that has a record."""
    total = counts(shown.places)
    overview = [(section, together(section.counts), section.columns) for section in shown.sections]
    known = {name: runtime.title for name, runtime in RUNTIMES.items()}
    yield (
        "index.html",
        render(
            "board.html.j2",
            root="",
            board=shown,
            overview=overview,
            total=total,
            titles={name: known.get(name, name) for name in shown.runtimes},
        ),
    )
    for place in shown.places:
        if place.latest is not None:
            yield f"cells/{place.slug}.html", _page(place)


def _page(place: BoardCell) -> str:
    record = place.latest
    check = record.check if record else None
    return render(
        "cell.html.j2",
        root="../",
        cell=place.cell,
        record=record,
        history=place.records[-2::-1],
        checks=_by_check(check),
        failures=_failures(check)[:_FAILURES],
        outcomes=_OUTCOMES,
    )


def _by_check(check: CheckRecord | None) -> dict[str, Counter[str]]:
    """Check -> how many of its outcomes are in which state."""
    states_of: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in check.outcomes if check else ():
        states_of[outcome.check][outcome.state] += 1
    return dict(sorted(states_of.items()))


def _failures(check: CheckRecord | None) -> list[Outcome]:
    return [outcome for outcome in check.outcomes if outcome.state == "failed"] if check else []
