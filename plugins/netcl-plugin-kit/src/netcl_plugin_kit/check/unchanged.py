"""What an author has left as `netcl plugins new` wrote it: notes of a check, no failures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from netcl_core.autograd import Operator
from netcl_core.config import MARKET_PREFIX
from netcl_core.plugins.protocol import MANIFEST, canonical, registry
from netcl_plugin_kit.check.findings import NOTES
from netcl_plugin_kit.check.subject import Subject, module_of
from netcl_plugin_kit.new.names import EXAMPLE_OPERATOR, ProjectNames
from netcl_plugin_kit.new.project import EXAMPLE, author_of, first_files, rendered, summary
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS

_CODE: Final = "NC205"


def unchanged(subject: Subject) -> Iterator[str]:
    """A note for each thing that is as the scaffold wrote it."""
    for what in _things(subject):
        yield f"{_CODE}: {what} unchanged since `netcl plugins new`. {NOTES[_CODE].remedy}"


def _things(subject: Subject) -> Iterator[str]:
    said = subject.metadata
    addresses = [address.partition(",")[2].strip() for address in said.get_all("Project-URL") or ()]
    if any(address.startswith(EXAMPLE) for address in addresses):
        yield "the address of its source is"
    if said.get("Author") == author_of(subject.name):
        yield "its author is"
    named = list(_names(subject))
    summaries = {summary(kind, name) for kind in SCAFFOLDS.values() for name in named}
    if said.get("Summary") in summaries:
        yield "its summary is"
    left = dict.fromkeys(path for name in named for path in _files(subject, name))
    if left:
        yield f"{', '.join(left)} {'are' if len(left) > 1 else 'is'}"


def _names(subject: Subject) -> Iterator[ProjectNames]:
    """The names that a scaffold of this distribution may have had, by what it brings."""
    name = canonical(subject.name).removeprefix(MARKET_PREFIX)
    ops = {point for group, point, _ in subject.points if group != MANIFEST}
    package = module_of(subject.name)
    for op in sorted({name, *ops} | _templates(subject)):
        for operator in (EXAMPLE_OPERATOR, *_operators(subject)):
            yield ProjectNames(name, subject.name, package, op.replace("-", "_"), operator)


def _operators(subject: Subject) -> Iterator[str]:
    """The installed operators for which it has implementations, by its manifest."""
    paths = [path for path in subject.files if path.endswith("/netcl_plugin.toml")]
    for path in paths:
        try:
            rows = tomllib.loads(_text(subject, path)).get("provides", ())
            named = {row["name"] for row in rows if row["kind"] == "implementation"}
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # the manifest is checked elsewhere
        for name in sorted(named - {EXAMPLE_OPERATOR}):
            row = registry.find_op(name) if isinstance(name, str) else None
            if row is not None and isinstance(row.record, Operator):
                yield name


def _templates(subject: Subject) -> set[str]:
    """The names of its templates, each of which may be named after an op."""
    ends = ".cl.j2"
    names = (path.rpartition("/")[2] for path in subject.files)
    return {name.removesuffix(ends) for name in names if name.endswith(ends)}


def _files(subject: Subject, names: ProjectNames) -> Iterator[str]:
    """The README and the files that an author changes first, as far as they are unchanged."""
    for kind in SCAFFOLDS.values():
        written = rendered(kind, names, author_of(subject.name))
        for row in first_files(kind, names):
            path = row.split()[0]
            if _text(subject, path.removeprefix("src/")) == written.get(path):
                yield path
        if str(subject.metadata.get_payload()).strip() == written["README.md"].strip():
            yield "README.md"


def _text(subject: Subject, path: str) -> str:
    """A file of the distribution; empty if it is not there."""
    if path not in subject.files:
        return ""
    try:
        return Path(str(subject.handle.locate_file(path))).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
