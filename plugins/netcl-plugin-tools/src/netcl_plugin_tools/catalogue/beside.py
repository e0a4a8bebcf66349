"""Speed ratios of an implementation to the default one, from the records of checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from netcl_plugin_tools.catalogue.findings import Findings, Where

#: A line of the check `speed`: the case and its shapes, the ratio, the other one.
_LINE: Final = re.compile(r"(?P<case>.+): (?P<ratio>\d+\.\d+) of the time of (?P<other>.+)")


@final
@dataclass(frozen=True, slots=True)
class Beside:
    """One case on one device: its time in that of the other implementation."""

    where: Where
    case: str
    ratio: float
    other: str
    date: str

    @property
    def tone(self) -> str:
        """How its ratio is coloured."""
        return "good" if self.ratio < 1 else "warn" if self.ratio > 1 else "off"


def beside(findings: Findings) -> list[Beside]:
    """All that was measured of an op, by device."""
    return sorted(_measured(findings), key=lambda one: (one.where, one.case))


def slowest(ratios: list[Beside]) -> Beside | None:
    """The case in which it gains least, which stands for all."""
    return max(ratios, key=lambda one: (one.ratio, one.where, one.case), default=None)


def _measured(findings: Findings) -> Iterator[Beside]:
    for one in findings.outcomes:
        if one.outcome.check != "speed" or one.where is None:
            continue
        for line in dict.fromkeys(one.outcome.reason.splitlines()):
            said = None if line.startswith("NC") else _LINE.fullmatch(line)
            if said is not None:
                ratio = float(said["ratio"])
                yield Beside(one.where, said["case"], ratio, said["other"], one.date[:10])
