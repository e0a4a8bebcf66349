"""What is installed, as a lock file sees it: versions, digests of RECORDs, editable or not."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_core.plugins.market.finding import Distribution, find
from netcl_core.plugins.market.requirements import CORE
from netcl_core.plugins.resolution import canonical
from netcl_core.version import VERSION

#: Rows of RECORD that tell of this machine and not of the distribution: what the installer writes
#: about itself, byte code, and scripts, whose first line names an interpreter.
_OF_THIS_MACHINE: Final = re.compile(
    r"(\.\.|/|[A-Za-z]:)|(.*[/\\])?__pycache__[/\\]|"
    r"[^/\\]+\.dist-info[/\\](RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_\w+\.json)$"
)


@final
@dataclass(frozen=True, slots=True)
class Installed:
    """One installed distribution: the core, or one that brings plugins."""

    name: str
    version: str
    source: Distribution | None

    @property
    def record_path(self) -> Path | None:
        """The file RECORD; None if there is none, or it lies in an archive."""
        path = None if self.source is None else Path(self.source.location, "RECORD")
        return path if path is not None and path.is_file() else None

    def record_digest(self) -> str:
        """The digest of RECORD without the rows that tell of this machine; empty without RECORD."""
        text = self.source.metadata("RECORD") if self.source is not None else None
        return "" if text is None else digest_of_record(text)

    @property
    def editable(self) -> bool:
        """Whether it is a link to its sources."""
        text = self.source.metadata("direct_url.json") if self.source is not None else None
        return is_editable(text or "")


def is_editable(direct_url: str) -> bool:
    """Whether a `direct_url.json` (PEP 610) says that a distribution is a link to its sources."""
    try:
        return json.loads(direct_url)["dir_info"]["editable"] is True
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def core() -> Installed:
    """The core; without metadata of its own it is a checkout on the path."""
    return Installed(CORE, VERSION, find(CORE))


def by_name(distributions: Iterable[Distribution]) -> dict[str, Installed]:
    """The installed distributions by their canonical names, sorted."""
    found = {canonical(each.name): each for each in distributions}
    return {name: Installed(name, found[name].version, found[name]) for name in sorted(found)}


def digest_of_record(text: str) -> str:
    """The sha256 of a RECORD's rows, sorted, so that it is the same wherever pip installs them."""
    try:
        rows = [row[:2] for row in csv.reader(text.splitlines()) if row]
    except csv.Error:  # then it is no CSV, and every byte counts
        rows = [[line] for line in text.splitlines()]
    kept = sorted("\t".join(row) for row in rows if not _OF_THIS_MACHINE.match(row[0]))
    return hashlib.sha256("\n".join(kept).encode("utf-8", "surrogatepass")).hexdigest()
