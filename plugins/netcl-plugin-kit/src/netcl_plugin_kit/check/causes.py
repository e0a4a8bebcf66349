"""Failures of one cause in one line: a fault in a kernel fails most checks in every dtype."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from netcl_plugin_kit.testing.records import Outcome

#: What differs between failures of one cause: devices, numbers, what stands before an exception.
_VARYING: Final = re.compile(r"<Device [^>]*>|[-+]?\b\d[\w.+-]*|\bnan\b|\binf\b")
_STEP: Final = re.compile(r"^.*?(?=\b\w*(?:Error|Exception|Exit): )")
_MOST: Final = 6
#: The codes of what makes any other check fail, too.
_SPOILING: Final = ("NC701", "NC702")


@final
@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that look alike; the first of them is shown."""

    first: Outcome
    others: Sequence[Outcome]

    @property
    def reason(self) -> str:
        """The first line of the first one's reason, and where else it happens."""
        line = self.first.reason.partition("\n")[0]
        if not self.others:
            return line
        return f"{line} (and {len(self.others)} more like it: {', '.join(self._elsewhere())})"

    def _elsewhere(self) -> list[str]:
        devices: dict[str, None] = {}
        for name in ("check", "dtype", "device"):
            own = getattr(self.first, name)
            devices |= dict.fromkeys(
                value for other in self.others if (value := getattr(other, name)) != own and value
            )
        names = [*devices]
        more = [f"{len(names) - _MOST} others"] if len(names) > _MOST else []
        return names[:_MOST] + more or ["in other shapes"]


def causes(failed: Sequence[Outcome]) -> list[Cause]:
    """Failures by what they have in common, in the order of the first of each.

    Of an op's those come first that may be the cause of all others: what spoils memory.
    """
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in sorted(failed, key=_follows):
        groups.setdefault((outcome.op, _essence(outcome)), []).append(outcome)
    return [Cause(group[0], group[1:]) for group in groups.values()]


def _follows(outcome: Outcome) -> bool:
    return not outcome.reason.startswith(_SPOILING)


@final
class Told:
    """Says a cause when its first failure is found, with what to do."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._known: set[tuple[str, str]] = set()

    def told(self, outcome: Outcome) -> None:
        """Say a failure, unless one of the same cause was said."""
        cause = outcome.op, _essence(outcome)
        if cause not in self._known:
            self._known.add(cause)
            text, remedy = (x.partition("\n")[0] for x in (outcome.reason, outcome.remedy))
            self._say(f"{outcome.check}: {text}{f' -> {remedy}' if remedy else ''}")


def _essence(outcome: Outcome) -> str:
    """The first line of a reason without what belongs to one dtype, device or shape."""
    line = _STEP.sub("", outcome.reason.partition("\n")[0])
    for word in filter(None, (outcome.device, outcome.dtype)):
        line = line.replace(word, "")
    return _VARYING.sub("", line) or outcome.check
