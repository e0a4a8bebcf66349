"""Makes wheels of what is installed, so that tests can install it without a network."""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def with_requirements(texts: Iterable[str]) -> set[str]:
    """The canonical names of distributions and of all that they require here."""
    names: set[str] = set()
    waiting = list(texts)
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name not in names and (marker is None or marker.evaluate({"extra": ""})):
            names.add(name)
            waiting += importlib.metadata.requires(name) or ()
    return names


def repack(name: str, folder: Path) -> Path:
    """Write the wheel of an installed distribution; scripts and data files are left out."""
    installed = importlib.metadata.distribution(name)
    files = [each for each in installed.files or () if _belongs(each.parts)]
    tags = (installed.read_text("WHEEL") or "").split("Tag: ")[1:]
    stem = installed.metadata["Name"].replace("-", "_")
    path = folder / f"{stem}-{installed.version}-{tags[-1].split()[0]}.whl"  # py2 comes first
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:  # stored, since it is unpacked at once
        for file in files:
            archive.write(str(installed.locate_file(file)), file.as_posix())
    return path


def _belongs(parts: tuple[str, ...]) -> bool:
    left_out = {"__pycache__", "..", "INSTALLER", "REQUESTED", "direct_url.json"}
    return not left_out & set(parts)
