"""The owners file of a market: whose key may sign wheels of which name, and whose records count.

checkers = ["farm"]
others = ["netcl-core"]

[keys]
alice = "5f1d..."
farm = "90ab..."

[owners]
netcl-plugin-swish = ["alice"]

[resembling]
netcl-plugin-swish = ["netcl-plugin-swiss"]
netcl-plugin-swiss = ["netcl-plugin-swish"]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Final, final

from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import RecordError, message
from netcl_core.plugins.protocol import canonical
from netcl_market import records

#: What looks alike, or nearly so: each is read as what it is taken for.
_ALIKE: Final = (
    ("rn", "m"), ("vv", "w"), ("cl", "d"), ("0", "o"), ("1", "l"), ("i", "l"), ("5", "s"),
    ("2", "z"), ("8", "b"), ("-", ""),
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Owners:
    """What an owners file says.

    Attributes:
        keys: The public keys by the names that the rest uses.
        owners: distribution -> who may sign its wheels.
        checkers: Whose records of checks count.
        resembling: distribution -> names like its own that its owner has nothing against. Both have
            to say so.
        others: Distributions that are no plugins and may be in the index all the same.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    checkers: tuple[str, ...] = ()
    resembling: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def keys_of(self, name: str) -> tuple[str, ...]:
        """The public keys that may sign wheels of a distribution."""
        return tuple(self.keys[who] for who in self.owners.get(canonical(name), ()))

    @property
    def keys_of_checkers(self) -> tuple[str, ...]:
        """The public keys that may sign records."""
        return tuple(self.keys[who] for who in self.checkers)

    def who(self, key: str) -> str:
        """The name of a public key; empty for nobody's."""
        return next((name for name, each in self.keys.items() if each == key), "")


def read_owners(path: Path) -> Owners:
    """Read an owners file; raises RecordError that says what is wrong with it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        if unknown := sorted(table.keys() - Owners.__dataclass_fields__.keys()):
            raise ValueError(f"the key {unknown[0]!r} means nothing")
        owners: Owners = records.read(Owners, table)
        _insist(owners)
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors are ValueErrors
        given = str(error)
        raise RecordError(
            message(str(path), given, "an owners file, as in docs/market.md")
        ) from error
    return owners


def _insist(owners: Owners) -> None:
    """Raise ValueError for what contradicts itself, so that no typing error opens a door."""
    named = {who for row in (*owners.owners.values(), owners.checkers) for who in row}
    if missing := sorted(named - owners.keys.keys()):
        raise ValueError(f"the key of {missing[0]!r} is missing")
    if len(set(owners.keys.values())) < len(owners.keys):
        raise ValueError("two names have one key")
    for who, key in owners.keys.items():
        if len(key) != 64 or set(key) - set("0123456789abcdef"):
            raise ValueError(f"keys.{who} is no public key (64 digits in hexadecimal)")
    for name in (*owners.owners, *owners.resembling, *owners.others):
        if name != canonical(name) or not name.isascii():
            raise ValueError(f"{name!r} is no name in its normal form, {canonical(name)!r}")
    if pairs := unwanted(owners.owners, owners):
        raise ValueError(
            " and ".join(pairs[0]) + " resemble each other, and not both owners agreed"
        )


def unwanted(names: Iterable[str], owners: Owners) -> list[tuple[str, str]]:
    """The pairs of names that resemble each other without the word of both owners."""
    agreed = {(one, other) for one, row in owners.resembling.items() for other in row}
    return [
        pair
        for pair in combinations(sorted(set(names)), 2)
        if resembles(*pair) and not {pair, pair[::-1]} <= agreed
    ]


def resembles(one: str, other: str) -> bool:
    """Whether a name may be taken for another: one letter, a swap, or what looks like it."""
    names = [
        canonical(name).removeprefix(MARKET_PREFIX).removeprefix("netcl-") for name in (one, other)
    ]
    if names[0] == names[1]:
        return canonical(one) != canonical(other)
    looks = [_look(name) for name in names]
    return looks[0] == looks[1] or _one_slip(*names) or _one_slip(*looks)


def _look(name: str) -> str:
    for text, taken_for in _ALIKE:
        name = name.replace(text, taken_for)
    return name


def _one_slip(one: str, other: str) -> bool:
    """Whether one letter is another, lost or added, or two are swapped."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1:
        return False
    same = (a == b for a, b in zip(short, long, strict=False))
    start = next((i for i, equal in enumerate(same) if not equal), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start : start + 2] == long[start : start + 2][::-1]
    return short[start + 1 :] == long[start + 1 :] or (
        swapped and short[start + 2 :] == long[start + 2 :]
    )
