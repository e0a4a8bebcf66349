"""What is installed, for a lock file: versions, digests of RECORDs and, if editable, of files."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from netcl_core.plugins.market.installed import Installed, by_name
from netcl_core.plugins.market.lock import Pin
from netcl_core.plugins.market.states import States
from netcl_core.plugins.market.survey import survey


def plugins() -> dict[str, Installed]:
    """Every installed distribution with a plugin, by its canonical name; imports none."""
    found = survey(States())
    return by_name(each.source for each in found if each.source is not None)


def pin(one: Installed) -> Pin:
    """What a lock says of a distribution."""
    if one.editable:
        return Pin(one.version, editable=True, files=digest_of_files(one))
    return Pin(one.version, one.record_digest())


def digest_of_files(one: Installed) -> str:
    """The sha256 of all files of a distribution's packages, wherever they lie."""
    digest = hashlib.sha256()
    for package in sorted(_packages(one)):
        for folder in _folders(package):
            for path in sorted(_files(folder)):
                name = f"{package}/{path.relative_to(folder).as_posix()}"
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name}\t{content}\n".encode())
    return digest.hexdigest()


def _packages(one: Installed) -> set[str]:
    """The packages that its entry points name; the core's own has its name."""
    points = one.source.points.values() if one.source is not None else ()
    found = {value.partition(":")[0].partition(".")[0].strip() for value in points}
    return found or {one.name.replace("-", "_")}


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec is not None else None
    return [Path(place) for place in places or ()]


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
