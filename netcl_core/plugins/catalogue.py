"""The market as it was when this core was released: which package brings what.

The bundled snapshot `catalogue.json` is written from the manifests of the first-party
plugins. It is the remedy when an op is missing, and what `netcl plugins search` looks in.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final, final

from netcl_core.errors import CatalogueError, message
from netcl_core.plugins.registry import registry
from netcl_core.plugins.resolution import canonical

FILE: Final = "catalogue.json"
SCHEMA: Final = 1


@final
@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a search found: a name, what it is, and the package that brings it."""

    name: str
    kind: str
    package: str
    summary: str


@functools.lru_cache(maxsize=1)
def catalogue() -> dict[str, dict[str, Any]]:
    """Package name -> `summary`, `license`, `maturity` and `provides`: {kind: [name, ...]}."""
    text = resources.files("netcl_core.plugins").joinpath(FILE).read_text(encoding="utf-8")
    table: dict[str, dict[str, Any]] = json.loads(text)["packages"]
    return table


def read_catalogue(path: Path) -> dict[str, dict[str, Any]]:
    """The same from a file; raises CatalogueError if it is none, or one of a newer schema."""
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
    wanted = f"a {FILE} of schema {SCHEMA}, as `netcl catalogue build` writes it"
    return CatalogueError(message(f"the catalogue {path}", given, wanted))


@functools.cache
def providers(*kinds: str) -> dict[str, str]:
    """The package that brings each name of some kinds."""
    return {
        name: package
        for package, entry in catalogue().items()
        for kind in kinds
        for name in entry["provides"].get(kind, ())
    }


def how_to_get(name: str, *kinds: str) -> str | None:
    """What to do about a missing name of one of these kinds; None if nobody is known."""
    withheld = (registry.withheld.get((kind, name)) for kind in kinds)
    package = next(filter(None, withheld), None) or providers(*kinds).get(name)
    if package is None:
        return None
    state = registry.inactive.get(canonical(package))
    if state is not None:
        return f"{package} is installed but {state}: see `netcl plugins info {package}`"
    return f"Install it with: pip install {package}"


def search(word: str, table: dict[str, dict[str, Any]]) -> list[Hit]:
    """Everything in a catalogue whose name or summary holds a word; exact names first."""
    wanted = word.strip().lower()
    hits = []
    for package, entry in table.items():
        if wanted in package.lower() or wanted in entry["summary"].lower():
            hits.append(Hit(package, "package", package, entry["summary"]))
        for kind, names in entry["provides"].items():
            found = [name for name in names if wanted in name.lower()]
            hits += [Hit(name, kind, package, entry["summary"]) for name in found]
    return sorted(hits, key=lambda hit: (hit.name.lower() != wanted, hit.name, hit.package))
