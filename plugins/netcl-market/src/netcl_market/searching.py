"""Searches a catalogue, the bundled one or a file, for what a package brings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core.errors import CatalogueError, message

SCHEMA: Final = 1


@final
@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a search found: a name, what it is, and the package that brings it."""

    name: str
    kind: str
    package: str
    summary: str


def read_catalogue(path: Path) -> dict[str, dict[str, Any]]:
    """The packages of a catalogue file, as `protocol.catalogue` has them.

    Raises CatalogueError for a file that is none, or one of a newer schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        schema, packages = data["schema"], data["packages"]
        fine = schema == SCHEMA and all(map(_is_entry, packages.values()))
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise _no_catalogue(path, f"it cannot be read ({error!r:.80})") from error
    if not fine:
        raise _no_catalogue(path, f"its schema is {schema!r:.20}, or an entry is of another kind")
    table: dict[str, dict[str, Any]] = packages
    return table


def _is_entry(entry: Any) -> bool:
    """Whether an entry has what a search looks at."""
    names = [name for group in entry["provides"].values() for name in group]
    return all(isinstance(text, str) for text in [entry["summary"], *names])


def _no_catalogue(path: Path, given: str) -> CatalogueError:
    wanted = f"a catalogue.json of schema {SCHEMA}, as `netcl catalogue build` writes it"
    return CatalogueError(message(f"the catalogue {path}", given, wanted))


def search(word: str, table: dict[str, dict[str, Any]]) -> list[Hit]:
    """Everything in a catalogue whose name or summary holds a word; exact names first."""
    wanted = word.strip().lower()
    hits = []
    for package, entry in table.items():
        if wanted in package.lower() or wanted in entry["summary"].lower():
            hits.append(Hit(package, "package", package, entry["summary"]))
        for kind, names in entry["provides"].items():
            hits_of_kind = [name for name in names if wanted in name.lower()]
            hits += [Hit(name, kind, package, entry["summary"]) for name in hits_of_kind]
    return sorted(hits, key=lambda hit: (hit.name.lower() != wanted, hit.name, hit.package))
