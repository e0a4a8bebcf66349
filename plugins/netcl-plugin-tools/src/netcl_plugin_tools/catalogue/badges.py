"""The badges of a plugin: small SVG pictures for a README elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from netcl_plugin_tools.catalogue.findings import reached
from netcl_plugin_tools.catalogue.model import MarketContent, Project
from netcl_plugin_tools.catalogue.rendering import render
from netcl_plugin_tools.catalogue.views import SIGNS
from netcl_plugin_tools.matrix.board import together

#: Kind of badge -> what it shows, as the text that stands for the picture.
BADGES: Final = {"version": "version", "checks": "state of the checks", "matrix": "matrix"}
_BLUE: Final = "#1f4d7a"
#: By the tone of a sign.
_COLOURS: Final = {"good": "#1b6e3d", "bad": "#a61e2c", "warn": "#8a5300", "off": "#66625a"}
_WIDE, _NARROW = frozenset("mwMWABCDEFGHKNOPQRSUVXYZ%@"), frozenset("fijlrtI.,:;|!'()[] 1")


def badges(market: MarketContent) -> Iterator[tuple[str, str]]:
    """(path, SVG) of every badge of every plugin."""
    for plugin in market.plugins:
        for kind in BADGES:
            yield f"badges/{plugin.name}/{kind}.svg", _of_kind(plugin, kind)


def matrix_badge(state: str, passed: str) -> str:
    """The badge of a matrix: how many cells passed, else the word for its state."""
    return _badge("matrix", passed or SIGNS[state].word, _colour(state))


def _badge(label: str, text: str, colour: str) -> str:
    return render(
        "badge.svg.j2",
        label=label,
        text=text,
        colour=colour,
        left=_width(label) + 12,
        right=_width(text) + 12,
    )


def _width(text: str) -> int:
    """About as wide as the text is in a sans serif of 11 pixels."""
    return round(sum(9 if c in _WIDE else 4.5 if c in _NARROW else 6.8 for c in text))


def _of_kind(plugin: Project, kind: str) -> str:
    latest = plugin.latest
    if kind == "version":
        return _badge("netcl plugin", str(latest.version), _BLUE)
    if kind == "checks":
        record, state = latest.findings.deepest, latest.findings.verdict
        text = {"failed": "failing", "passed": "passing"}.get(state, "not checked")
        said = f"{text} ({reached(record)})" if record else text
        return _badge("checks", said, _colour(state))
    return matrix_badge(*together(latest.cell_counts))


def _colour(state: str) -> str:
    return _COLOURS[SIGNS[state].tone]
