"""The badges of a plugin: small SVG pictures for a README elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from netcl_plugin_tools.catalogue.findings import reached
from netcl_plugin_tools.catalogue.model import Market, Project
from netcl_plugin_tools.catalogue.rendering import render
from netcl_plugin_tools.catalogue.views import SIGNS
from netcl_plugin_tools.matrix.board import together

#: Kind of badge -> what it shows, as the text that stands for the picture.
BADGES: Final = {"version": "version", "checks": "state of the checks", "matrix": "matrix"}
_BLUE: Final = "#1f4d7a"
#: By the tone of a sign.
_COLOURS: Final = {"good": "#1b6e3d", "bad": "#a61e2c", "warn": "#8a5300", "off": "#66625a"}
_WIDE, _NARROW = frozenset("mwMWABCDEFGHKNOPQRSUVXYZ%@"), frozenset("fijlrtI.,:;|!'()[] 1")


def badges(market: Market) -> Iterator[tuple[str, str]]:
    """(path, SVG) of every badge of every plugin."""
    for plugin in market.plugins:
        for kind in BADGES:
            yield f"badges/{plugin.name}/{kind}.svg", badge(*_said(plugin, kind))


def badge(label: str, text: str, colour: str) -> str:
    """One badge."""
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


def _said(plugin: Project, kind: str) -> tuple[str, str, str]:
    latest = plugin.latest
    if kind == "version":
        return "netcl plugin", str(latest.version), _BLUE
    if kind == "checks":
        record, state = latest.findings.deepest, latest.findings.verdict
        text = {"failed": "failing", "passed": "passing"}.get(state, "not checked")
        return "checks", f"{text} ({reached(record)})" if record else text, _colour(state)
    state, passed = together(latest.cell_counts)
    return "matrix", passed or SIGNS[state].word, _colour(state)


def _colour(state: str) -> str:
    return _COLOURS[SIGNS[state].tone]
