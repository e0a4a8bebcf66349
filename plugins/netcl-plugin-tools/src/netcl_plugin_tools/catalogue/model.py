"""The market as the pages show it: projects, their releases, and what was found about each."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, final

from netcl_market.advisories import Advisory
from netcl_market.manifests import Manifest, Provided, Requires
from netcl_plugin_kit.packages.metadata import clean_line
from netcl_plugin_kit.packages.wheel import Wheel
from netcl_plugin_kit.testing.records import CheckRecord
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from netcl_core.plugins.protocol import KINDS
from netcl_plugin_tools.catalogue.evidence import Evidence, wheel_of, when
from netcl_plugin_tools.catalogue.findings import Findings, merge
from netcl_plugin_tools.matrix.records import RUNTIME, STATES, CellRecord

_PLAIN: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,60}")


@final
@dataclass(frozen=True, slots=True)
class Op:
    """One row of a manifest; `slug` is its page's name, empty for a kind without pages."""

    row: Provided
    name: str
    requires: Requires
    slug: str = ""


@final
@dataclass(frozen=True, slots=True)
class Release:
    """One version: its wheels (one without a platform first), and what records say of it."""

    version: Version
    wheels: tuple[Wheel, ...]
    findings: Findings
    cells: tuple[CellRecord, ...]
    advisories: tuple[Advisory, ...] = ()

    @property
    def yanked(self) -> str:
        """Why it was yanked; empty if it was not."""
        return next(
            (advisory.text for advisory in self.advisories if advisory.kind == "yanked"), ""
        )

    @property
    def wheel(self) -> Wheel:
        """The one whose metadata speak for the version."""
        return self.wheels[0]

    @property
    def dates(self) -> list[str]:
        """When its records were made."""
        return [
            *(one.date for one in self.findings.records),
            *(cell.date for cell in self.cells),
        ]

    @property
    def checked(self) -> str:
        """The day of its newest record; empty without one."""
        return max(self.dates, key=when)[:10] if self.dates else ""

    @property
    def cell_counts(self) -> Counter[str]:
        """How many cells of the matrix are in which state."""
        return Counter(cell.state for cell in self.cells)


@final
@dataclass(frozen=True, slots=True)
class Project:
    """A distribution with its releases, the newest first."""

    name: str
    releases: tuple[Release, ...]
    ops: tuple[Op, ...]
    advisories: tuple[Advisory, ...] = ()

    @property
    def latest(self) -> Release:
        """The release that pip installs: the newest that is neither yanked nor a pre-release.

        If there is none, the newest that is not yanked, else the newest.
        """
        there = [release for release in self.releases if not release.yanked] or [*self.releases]
        return next((name for name in there if not name.version.is_prerelease), there[0])

    @property
    def quarantined(self) -> str:
        """Why the index offers no file of it; empty if it does."""
        return next(
            (advisory.text for advisory in self.advisories if advisory.kind == "quarantined"), ""
        )

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """Those of the latest release; none: the distribution is no plugin."""
        return self.latest.wheel.manifests

    @property
    def summary(self) -> str:
        """Its summary in one line."""
        texts = [manifest.summary for manifest in self.manifests if manifest.summary]
        return clean_line(texts[0] if texts else self.latest.wheel.metadata.summary)

    @property
    def pages(self) -> list[Op]:
        """The ops that have a page."""
        return [op for op in self.ops if op.slug]


@final
@dataclass(slots=True)
class MarketContent:
    """Everything that the pages are made of.

    Attributes:
        others: Distributions in the index that are no plugins.
        refused: (file, reason) of wheels; `evidence.refused` has the records'.
        unused: What a record is of that no wheel here is.
        signers: The name of a wheel's file -> whose key signed it.
        address: Where the catalogue will be, with a slash at its end; empty if nobody said.
    """

    title: str
    plugins: list[Project]
    others: list[Project]
    evidence: Evidence
    refused: list[tuple[str, str]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    address: str = ""
    signers: Mapping[str, str] = field(default_factory=dict)

    @property
    def problems(self) -> int:
        """How many files were refused."""
        return len(self.refused) + len(self.evidence.refused)

    @property
    def wheels(self) -> int:
        """How many wheels the index has."""
        projects = (*self.plugins, *self.others)
        return sum(len(one.wheels) for project in projects for one in project.releases)

    @property
    def records(self) -> int:
        """How many records were read."""
        return len(self.evidence.everything)

    @property
    def date(self) -> str:
        """When the newest record was made; empty without records."""
        dates = [one.date for one in self.evidence.everything]
        return max(dates, key=when)[:10] if dates else ""


def assemble(
    title: str,
    wheels: Iterable[Wheel],
    refused: list[tuple[str, str]],
    evidence: Evidence,
    withdrawn: Sequence[Advisory] = (),
    signers: Mapping[str, str] | None = None,
) -> MarketContent:
    """Group wheels by project and version, and give each release its records."""
    grouped: dict[str, dict[Version, list[Wheel]]] = defaultdict(lambda: defaultdict(list))
    for wheel in wheels:
        grouped[wheel.name][wheel.version].append(wheel)
    names = _distributions(grouped)
    records, cells, unused = _filed(evidence, grouped, names)
    projects = []
    for name, versions in sorted(grouped.items()):
        releases = tuple(
            Release(
                version,
                tuple(sorted(versions[version], key=lambda each: (not each.pure, each.file))),
                merge(records.get((name, version), ())),
                _newest(cells.get((name, version), ())),
                tuple(advisory for advisory in withdrawn if advisory.hits(name, version)),
            )
            for version in sorted(versions, reverse=True)
        )
        about = tuple(
            advisory for advisory in withdrawn if canonicalize_name(advisory.name) == name
        )
        project = Project(name, releases, (), about)
        projects.append(replace(project, ops=tuple(_ops(project.manifests))))
    plugins = [each for each in projects if each.manifests]
    others = [each for each in projects if not each.manifests]
    return MarketContent(title, plugins, others, evidence, refused, unused, signers=signers or {})


def _distributions(grouped: Mapping[str, Mapping[Version, Sequence[Wheel]]]) -> dict[str, str]:
    """A plugin's name -> its distribution; a record may say either. Nobody's if two share it."""
    names_of: dict[str, set[str]] = defaultdict(set)
    for name, versions in grouped.items():
        for wheel in (wheel for wheels in versions.values() for wheel in wheels):
            for manifest in wheel.manifests:
                names_of[canonicalize_name(manifest.name)].add(name)
    return {plugin: min(names) for plugin, names in names_of.items() if len(names) == 1}


def _filed(
    evidence: Evidence,
    grouped: Mapping[str, Mapping[Version, Sequence[Wheel]]],
    names: Mapping[str, str],
) -> tuple[
    dict[tuple[str, Version], list[CheckRecord]],
    dict[tuple[str, Version], list[CellRecord]],
    list[str],
]:
    """Records and cells by project and version, and texts about those that are of no wheel."""
    records: dict[tuple[str, Version], list[CheckRecord]] = defaultdict(list)
    cells: dict[tuple[str, Version], list[CellRecord]] = defaultdict(list)
    unused = set()
    for one in evidence.everything:
        plugin = canonicalize_name(one.plugin)
        name = plugin if plugin in grouped else names.get(plugin, plugin)
        version = next(
            (advisory for advisory in grouped.get(name, ()) if _is(advisory, one.version)), None
        )
        sha256 = wheel_of(one)
        if version is None:
            unused.add(f"{one.plugin} {one.version}: no wheel of it is here")
        elif not sha256:
            unused.add(f"{one.plugin} {one.version}: the record does not say of which wheel it is")
        elif all(wheel.sha256 != sha256 for wheel in grouped[name][version]):
            unused.add(
                f"{one.plugin} {one.version}: the record is of another build ({sha256[:12]})"
            )
        elif isinstance(one, CheckRecord):
            records[name, version].append(one)
        else:
            cells[name, version].append(one)
    return records, cells, sorted(unused)


def _is(version: Version, text: str) -> bool:
    try:
        return version == Version(text)
    except InvalidVersion:
        return False


def _newest(cells: Iterable[CellRecord]) -> tuple[CellRecord, ...]:
    """Of each place in the matrix the newest cell, at each level, on each device.

    One that never came to a device counts until its place has a newer one.
    """
    newest: dict[tuple[str, ...], CellRecord] = {}
    last: dict[tuple[str, ...], CellRecord] = {}
    for cell in sorted(cells, key=lambda each: (when(each.date), STATES.index(each.state))):
        place = (cell.cell.line, cell.python, cell.runtime["name"], cell.level)
        if place in last and not last[place].runtime["device"]:
            del newest[*place, *_machine(last[place])]
        last[place] = newest[*place, *_machine(cell)] = cell
    return tuple(newest[key] for key in sorted(newest))


def _machine(cell: CellRecord) -> tuple[str, ...]:
    return tuple(cell.runtime[name] for name in RUNTIME if name != "name")


def _ops(manifests: Iterable[Manifest]) -> Iterable[Op]:
    taken: set[str] = set()
    rows = [(row, manifest) for manifest in manifests for row in manifest.provides]
    for row, manifest in sorted(rows, key=lambda pair: (pair[0].name.lower(), pair[0].kind)):
        kind = KINDS.get(row.kind)
        slug = _slug(row, taken) if kind is not None and kind.has_page else ""
        yield Op(row, clean_line(row.name) or "(no name)", manifest.requires, slug)


def _slug(row: Provided, taken: set[str]) -> str:
    """A file name for an op, whose name may be anything; different on every file system."""
    slug = row.name if _PLAIN.fullmatch(row.name) else ""
    attempt = 0
    while not slug or slug in taken:
        digest = hashlib.sha256(f"{row.kind}\0{row.name}\0{attempt}".encode()).hexdigest()
        slug = f"{re.sub('[^a-z0-9_]+', '-', row.name.lower())[:40].strip('-')}-{digest[:12]}"
        attempt += 1
    taken.add(slug)
    return slug
