"""The feed of a catalogue: its releases in Atom (RFC 4287), the newest first.

A release is dated by its newest record, and without one by the newest file in its wheel.
"""

from __future__ import annotations

import uuid
import zipfile
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from netcl_market.advisories import Advisory

from netcl_plugin_tools.catalogue.evidence import when
from netcl_plugin_tools.catalogue.model import MarketContent, Project, Release
from netcl_plugin_tools.catalogue.rendering import render

#: The names of everything in feeds are made in this space.
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "netcl catalogue")
_FIRST = datetime(1980, 1, 1, tzinfo=UTC)  # of a zip file


def feed(market: MarketContent) -> str:
    """The text of `feed.xml`."""
    entries = [_entry(plugin, release) for plugin in market.plugins for release in plugin.releases]
    entries += [
        _warning(plugin, advisory) for plugin in market.plugins for advisory in plugin.advisories
    ]
    entries.sort(key=lambda one: (one["updated"], one["title"]), reverse=True)
    updated = entries[0]["updated"] if entries else _written(_FIRST)
    name = _name(market.address or market.title)
    return render("feed.xml.j2", market=market, entries=entries, updated=updated, id=name)


def _entry(plugin: Project, release: Release) -> dict[str, Any]:
    return {
        "id": _name(plugin.name, str(release.version), release.wheel.sha256),
        "title": f"{plugin.name} {release.version}",
        "updated": _written(_date(release)),
        "href": f"plugins/{plugin.name}.html",
        "summary": plugin.summary,
        "authors": release.wheel.metadata.authors or plugin.name,
        "verdict": release.findings.verdict,
    }


def _warning(plugin: Project, row: Advisory) -> dict[str, Any]:
    """A withdrawal or an advisory."""
    day = datetime.fromisoformat(row.date).replace(tzinfo=UTC)
    return {
        "id": _name(plugin.name, row.kind, row.versions, row.date, row.text),
        "title": f"{plugin.name} {row.versions or 'of every version'}: {row.kind}",
        "updated": _written(day),
        "href": f"plugins/{plugin.name}.html",
        "summary": str(row),
        "authors": plugin.latest.wheel.metadata.authors or plugin.name,
        "verdict": "",
    }


def _name(*texts: str) -> str:
    return uuid.uuid5(_SPACE, "\0".join(texts)).urn


def _date(release: Release) -> datetime:
    return max(map(when, release.dates), default=None) or _packed(release)


def _packed(release: Release) -> datetime:
    """The date of the newest file in its wheel, whose clock has no zone."""
    with zipfile.ZipFile(release.wheel.path) as archive:
        times = [info.date_time for info in archive.infolist()]
    with suppress(ValueError):  # a wheel may hold any numbers
        return datetime(*max(times), tzinfo=UTC)
    return _FIRST


def _written(date: datetime) -> str:
    return date.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
