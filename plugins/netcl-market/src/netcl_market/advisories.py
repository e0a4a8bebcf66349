"""What a market has withdrawn, and what it warns of: yanked versions, quarantine, advisories.

A market keeps them in `withdrawals.toml` beside its wheels, and publishes `advisories.json`, which
the setting `advisories` names on a machine that installs from it:

    [[yanked]]
    name = "netcl-plugin-swish"
    versions = "==1.0"
    text = "Its gradient is wrong in float16."
    date = "2026-11-27"

    [[quarantined]]
    name = "netcl-plugin-odd"
    text = "It sends files to somebody."
    date = "2026-11-27"

    [[advisory]]
    ...                      # as `yanked`, and may have `id` and `fixed`, the version to take
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, final, get_args

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from netcl_core.errors import RecordError, message
from netcl_core.plugins.protocol import canonical
from netcl_market import records

_Kind = Literal["yanked", "quarantined", "advisory"]
KINDS: Final[tuple[str, ...]] = get_args(_Kind)
SCHEMA: Final = 1


@final
@dataclass(frozen=True, slots=True)
class Advisory:
    """One row.

    Attributes:
        kind: `yanked`: pip takes it only where it is asked for by its version; `quarantined`: the
            index offers no file of it; `advisory`: a warning.
        versions: Which versions, as pip writes it; all of them where it is empty.
        fixed: The version that does not have it; empty if there is none.
    """

    kind: _Kind
    name: str
    text: str
    date: str
    versions: str = ""
    id: str = ""
    fixed: str = ""

    def hits(self, name: str, version: Version | str) -> bool:
        """Whether it is about a version of a distribution; a version that is none is hit."""
        if canonical(name) != canonical(self.name):
            return False
        try:
            return SpecifierSet(self.versions).contains(Version(str(version)), prereleases=True)
        except ValueError:
            return True

    def __str__(self) -> str:
        what = {"advisory": self.id or "an advisory"}.get(self.kind, self.kind)
        fixed = f". Take {self.fixed}" if self.fixed else ""
        return f"{what} ({self.date}): {self.text.rstrip('.')}{fixed}"


def read_withdrawals(path: Path) -> tuple[Advisory, ...]:
    """The rows of a `withdrawals.toml`; none without a file. Raises RecordError."""
    if not path.exists():
        return ()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if unknown := sorted(table.keys() - set(KINDS)):
            raise ValueError(f"the key {unknown[0]!r} means nothing")
        return _rows(_of_kind(row, kind) for kind in KINDS for row in table.get(kind, ()))
    except (OSError, ValueError, TypeError) as error:
        raise _unreadable(path, error) from error


def read_advisories(path: Path) -> tuple[Advisory, ...]:
    """The rows of an `advisories.json`; raises RecordError if it cannot be read."""
    try:
        data = json.loads(path.read_bytes())
        if type(data) is not dict or data.get("schema") != SCHEMA:
            raise ValueError(f"it has not schema {SCHEMA}")
        return _rows(data["advisories"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(path, error) from error


def as_json(advisories: Iterable[Advisory]) -> str:
    """The text of `advisories.json`."""
    rows = [asdict(advisory) for advisory in advisories]
    return json.dumps({"schema": SCHEMA, "advisories": rows}, indent=1, ensure_ascii=False) + "\n"


def warnings(
    advisories: Iterable[Advisory], installed: Mapping[str, str]
) -> list[tuple[str, str, Advisory]]:
    """(name, version, row) of what is installed: name -> version."""
    rows = tuple(advisories)
    return [
        (name, version, row)
        for name, version in sorted(installed.items())
        for row in rows
        if row.hits(name, version)
    ]


def _of_kind(row: Any, kind: str) -> Any:
    if type(row) is not dict:
        raise ValueError(f"{kind} is no list of tables, [[{kind}]]")
    if unknown := sorted(row.keys() - _FIELDS):
        raise ValueError(f"{kind}: the key {unknown[0]!r} means nothing")
    return {**row, "kind": kind}


_FIELDS: Final = frozenset(Advisory.__dataclass_fields__) - {"kind"}


def _rows(rows: Iterable[Any]) -> tuple[Advisory, ...]:
    """The rows as they are to be; raises ValueError for one that would silently hit nothing."""
    advisories: tuple[Advisory, ...] = records.read(tuple[Advisory, ...], [*rows])
    for row in advisories:
        SpecifierSet(row.versions)
        date.fromisoformat(row.date)
        if not row.text.strip() or not row.name.isascii() or not canonical(row.name):
            raise ValueError(f"{row.kind} of {row.name!r} needs a name and a text")
        if row.kind == "quarantined" and row.versions:
            raise ValueError(f"quarantined is the whole of {row.name!r}, not some versions")
    return advisories


def _unreadable(path: Path, error: Exception) -> RecordError:
    expected = "rows as docs/market.md has them"
    return RecordError(message(str(path), f"{type(error).__name__}: {error}", expected))
