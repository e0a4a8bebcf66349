"""What a release changed beside the one before it: ops, kernels, checks, speed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from netcl_plugin_kit.packages.metadata import clean_line

from netcl_plugin_tools.catalogue.model import Project, Release


def changes(plugin: Project) -> Iterator[dict[str, Any]]:
    """A row for each release but the first: the newest first, in words."""
    for newer, older in pairwise(plugin.releases):
        row = {"newer": newer.version, "older": older.version, "ops": _ops(newer, older)}
        known = bool(newer.findings.records and older.findings.records)
        for name, of in (("kernels", _kernels), ("checks", _checks), ("speed", _speed)):
            row[name] = [*_pairs(of(older), of(newer))] if known else None
        yield row


def _ops(newer: Release, older: Release) -> list[str]:
    """Rows of the manifests: what came, went, or says something else."""
    before, now = (
        {clean_line(row.name): row for manifest in one.wheel.manifests for row in manifest.provides}
        for one in (older, newer)
    )
    lines = [f"{name}: new" for name in sorted(now.keys() - before.keys())]
    lines += [f"{name}: gone" for name in sorted(before.keys() - now.keys())]
    return lines + [
        f"{name}: changed"
        for name in sorted(now.keys() & before.keys())
        if now[name] != before[name]
    ]


def _pairs(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """What both releases have and is not the same."""
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            yield f"{name}: {before[name]}, then {now[name]}"


def _kernels(release: Release) -> dict[str, str]:
    return {
        f"{kernel.op} {kernel.direction}, {kernel.dtype}, {where.title}": hashlib.sha256(
            kernel.source.encode("utf-8", "surrogateescape")
        ).hexdigest()[:12]
        for kernel in release.findings.kernels
        for where in kernel.where
    }


def _checks(release: Release) -> dict[str, str]:
    checks = {}
    for one in release.findings.outcomes:
        place = one.where.title if one.where is not None else ""
        words = [one.outcome.op, one.outcome.check, place, one.outcome.dtype]
        checks[", ".join(filter(None, words))] = str(one.outcome.state)
    return checks


def _speed(release: Release) -> dict[str, str]:
    return {
        f"{one.op}, {where.title}, {one.dtype}": f"{one.fraction:.2f} of a copy"
        for where, one in release.findings.roofline
    }
