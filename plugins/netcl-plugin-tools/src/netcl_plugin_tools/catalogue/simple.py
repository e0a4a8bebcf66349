"""The package index `simple/`: PEP 503 in HTML, PEP 691 in JSON, metadata as of PEP 658, yanked
files as of PEP 592, quarantine as of PEP 792.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from netcl_plugin_kit.packages.wheel import Wheel

from netcl_plugin_tools.catalogue.model import MarketContent, Project, Release
from netcl_plugin_tools.catalogue.rendering import render

_META = {"api-version": "1.4"}


def index(market: MarketContent) -> Iterator[tuple[str, str]]:
    """(path, text) of the index's files; the wheels and their metadata lie in `wheels/`."""
    projects = sorted([*market.plugins, *market.others], key=lambda each: each.name)
    links = [{"href": f"{each.name}/", "text": each.name, "data": {}} for each in projects]
    yield (
        "simple/index.html",
        render("simple.html.j2", title="Simple index", links=links, quarantined=""),
    )
    names = [{"name": each.name} for each in projects]
    yield "simple/index.json", _json({"meta": _META, "projects": names})
    for project in projects:
        wheels = _wheels(project)
        links = [_link(release, wheel) for release, wheel in wheels]
        page = render(
            "simple.html.j2",
            title=f"Links for {project.name}",
            links=links,
            quarantined=project.quarantined,
        )
        yield f"simple/{project.name}/index.html", page
        yield f"simple/{project.name}/index.json", _json(_data(project, wheels))


def _wheels(project: Project) -> list[tuple[Release, Wheel]]:
    """The oldest version first, as indexes list them; none of a project in quarantine."""
    if project.quarantined:
        return []
    return [(release, wheel) for release in reversed(project.releases) for wheel in release.wheels]


def _link(release: Release, wheel: Wheel) -> dict[str, Any]:
    data = {
        "core-metadata": f"sha256={_metadata_digest(wheel)}",
        "dist-info-metadata": f"sha256={_metadata_digest(wheel)}",  # its name before PEP 714
    }
    if wheel.metadata.requires_python:
        data["requires-python"] = wheel.metadata.requires_python
    if release.yanked:
        data["yanked"] = release.yanked
    return {"href": f"{_url(wheel)}#sha256={wheel.sha256}", "text": wheel.file, "data": data}


def _data(project: Project, wheels: list[tuple[Release, Wheel]]) -> dict[str, Any]:
    files = []
    for release, wheel in wheels:
        one: dict[str, Any] = {
            "filename": wheel.file,
            "url": _url(wheel),
            "hashes": {"sha256": wheel.sha256},
            "size": wheel.size,
            "core-metadata": {"sha256": _metadata_digest(wheel)},
        }
        if wheel.metadata.requires_python:
            one["requires-python"] = wheel.metadata.requires_python
        if release.yanked:
            one["yanked"] = release.yanked
        files.append(one)
    status: dict[str, Any] = {"status": "quarantined" if project.quarantined else "active"}
    if project.quarantined:
        status["reason"] = project.quarantined
    versions = [str(each.version) for each in reversed(project.releases)]
    data = {"meta": _META, "name": project.name, "project-status": status}
    return {**data, "versions": versions, "files": files}


def _url(wheel: Wheel) -> str:
    return f"../../wheels/{quote(wheel.file)}"


def _metadata_digest(wheel: Wheel) -> str:
    return hashlib.sha256(wheel.raw_metadata).hexdigest()


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def snapshot(market: MarketContent) -> str:
    """`catalogue.json`, of the layout of the core's own, for `netcl plugins search`."""
    packages: dict[str, Any] = {}
    for plugin in market.plugins:
        provides: dict[str, list[str]] = {}
        for op in sorted(plugin.ops, key=lambda each: (each.row.kind, each.name)):
            provides.setdefault(op.row.kind, []).append(op.name)
        manifest = plugin.manifests[0]
        packages[plugin.name] = {
            "summary": plugin.summary,
            "license": manifest.license or plugin.latest.wheel.metadata.licence,
            "maturity": manifest.maturity,
            "provides": provides,
        }
    return _json({"schema": 1, "packages": packages})
