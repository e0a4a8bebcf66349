"""`netcl plugins prefer`: the setting `resolve`, by name or by measurement, and the lock file."""

from __future__ import annotations

import math
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import permutations
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from netcl_market.tables import print_text
from netcl_plugin_kit.speed.comparing import (
    Measured,
    TimedCandidate,
    data_of,
    measured,
    print_measured,
)
from netcl_plugin_kit.why.decisions import why

import netcl_core as nc
from netcl_core.cli import print_json
from netcl_core.errors import ArgumentError, MissingOpError, NetclError, message
from netcl_core.inspect.choices import offers_of
from netcl_core.plugins.protocol import canonical, decision_on, meant, registry
from netcl_plugin_tools.lock.renewing import renewer
from netcl_plugin_tools.settings import file
from netcl_plugin_tools.settings.file import Table

_WHO: Final = "plugins prefer"
_RESOLVE: Final = "resolve"


@final
@dataclass(frozen=True, slots=True)
class _Written:
    """What became of a choice: the file, whether it changed, and what was and is said there."""

    path: Path
    changed: bool
    before: Any
    now: Any


def choose(op: str, choice: str, as_json: bool) -> int:
    """Have a provider or an implementation serve a name from now on."""
    registry.load()
    _settle(op, _meant(op, choice), as_json)
    return 0


def forget(op: str, as_json: bool) -> int:
    """Leave a name to the rules again; 2 for one that nobody has."""
    registry.load()
    if op not in _resolve(file.table()):
        list(_offered(op))
    _settle(op, [], as_json)
    return 0


def choose_measured(
    op: str, shapes: str | None, attrs: Sequence[str], dtype: str, device: str | None, as_json: bool
) -> int:
    """Have those serve an op that are the fastest on this machine; 1 if nothing computes it."""
    measurement = measured(op, shapes, attrs, dtype, device)
    if not as_json:
        print_measured(measurement)
        print_text(f"\nmeasured with: {'; '.join(str(call) for call, _ in measurement.calls)}")
    order, part = fastest_order(measurement)
    if not order:
        print_json({**data_of(measurement), "choice": None}) if as_json else print(
            "nothing computes it"
        )
        return 1
    if shapes is None and not as_json:
        small = "the shapes of the conformance cases are small"
        print_text(f"note: {small}; --shapes measures with yours")
    if part < WORTH:
        _settle(op, [*order, *_owners(op)], as_json, data_of(measurement))
    elif as_json:
        print_json({**data_of(measurement), "choice": None})
    else:
        faster = f"by more than {100 - 100 * WORTH:.0f} %"
        print(f"{op} stays as it is: nothing is faster {faster} than what serves")
    return 0


# -- who is meant --------------------------------------------------------------------------


def _offered(name: str) -> Iterator[tuple[str, str]]:
    """Each provider of a name, and its implementation's label or ""; raises MissingOpError."""
    rows = registry.op_rows(name, parts=True)
    if rows:
        yield from ((row.provider, "") for row in rows)
        yield from ((o.provider, o.label) for o in offers_of(name) if o.item not in rows)
        return
    try:
        said = why(name)
    except MissingOpError:
        commands, _ = decision_on(name)
        if not commands:
            raise
        yield from ((command.provider, "") for command in commands)
    else:
        yield from ((candidate.provider, "") for candidate in said.candidates)


def _meant(op: str, choice: str) -> list[str]:
    """What the setting says for a choice: a distribution, or one of its implementations."""
    offered = list(dict.fromkeys(_offered(op)))
    distribution, _, label = choice.partition(":")
    whole = meant(distribution, [provider for provider, _ in offered])
    for provider, _ in offered:
        if not label and canonical(provider) in whole:
            return [canonical(provider)]
    wanted = (label or choice).strip().lower()
    candidates = [
        f"{canonical(provider)}:{own}"
        for provider, own in offered
        if own.lower() == wanted and (not label or canonical(provider) in whole)
    ]
    if len(candidates) == 1:
        return [*candidates, *_owners(op)]
    known = [f"{canonical(provider)}{own and ':'}{own}" for provider, own in offered]
    if candidates:
        raise ArgumentError(message(_WHO, f"{choice!r} may mean {' or '.join(candidates)}"))
    words = {key.lower(): key for row in (*offered, known) for key in row if key}
    close = get_close_matches(choice.lower(), words, n=1)
    remedy = f"Did you mean {words[close[0]]!r}?" if close else ""
    given = f"nobody offers {op} as {choice!r}"
    raise ArgumentError(message(_WHO, given, f"one of {', '.join(known)}", remedy))


def _owners(op: str) -> list[str]:
    """Whose operator has the implementations, where several bring one of that name."""
    rows = registry.op_rows(op, parts=True)
    row = registry.find_op(op) if len(rows) > 1 else None
    return [] if row is None else [canonical(row.provider)]


# -- writing and telling -------------------------------------------------------------------


def _settle(
    op: str, entries: Sequence[str], as_json: bool, more: dict[str, Any] | None = None
) -> None:
    """Write a choice into the file and the lock, and tell what became of it."""
    renew = renewer(_WHO)  # a lock that cannot be read leaves the file as it is
    written = _write(op, entries)
    notes = [*renew(op), *file.overruled(_RESOLVE)]
    if as_json:
        data = {"op": op, "file": str(written.path), "changed": written.changed}
        choice = {"choice": written.now, "before": written.before, "notes": notes}
        print_json({**(more or {}), **data, **choice})
    else:
        _tell(op, written, notes)


def _write(op: str, entries: Sequence[str]) -> _Written:
    """Have the file name those for an op, and the lock file choose so; none: forget it."""
    said = list(entries) if len(entries) != 1 else entries[0]

    def edit(table: Table) -> None:
        resolve = _resolve(table)
        if entries:
            table.setdefault(_RESOLVE, {})[op] = said
        elif op in resolve:
            del resolve[op]
            if not resolve:
                del table[_RESOLVE]

    before = _resolve(file.table()).get(op)
    path, changed = file.change(_WHO, edit)
    return _Written(path, changed, before, said or None)


def _resolve(table: Table) -> Table:
    """The setting, which may be one text for many ops: there is no place for one of them."""
    resolve = table.get(_RESOLVE, {})
    if not isinstance(resolve, MutableMapping):
        given = f"{_RESOLVE} is {resolve!r:.60} in {file.place()}"
        raise ArgumentError(message(_WHO, given, "a table of ops"))
    return resolve


def _tell(op: str, written: _Written, notes: Sequence[str]) -> None:
    now = "left to the rules" if written.now is None else _shown(written.now)
    if not written.changed:
        print(f"{op}: already {now} in {written.path}")
    else:
        was = "" if written.before is None else f", before: {_shown(written.before)}"
        print(f"{op}: {now} in {written.path}{was}")
    for line in (*notes, *_effect(op)):
        print(line)


def _shown(said: Any) -> str:
    return said if isinstance(said, str) else ", then ".join(map(str, said))


def _effect(op: str) -> Iterator[str]:
    """Who serves on the default device from now on."""
    try:
        with nc.plugins.unlocked():
            said = why(op)
    except NetclError:  # a command, or nobody's
        return
    for candidate in said.candidates:
        if candidate.chosen:
            yield f"-> {candidate.label} ({candidate.provider}): {candidate.reason}"


# -- the order of candidates that serves some measured calls fastest -----------------------

#: By how much less time an order has to take than the rules' one: less is noise.
WORTH: Final = 0.95
#: Of how many candidates all orders are compared: nobody has more that are worth it.
_MOST: Final = 6
#: Who, and in the calls that it computes the time in that of who serves now.
_Ratios: TypeAlias = dict[str, dict[int, float]]


def fastest_order(measurement: Measured) -> tuple[list[str], float]:
    """The candidates, the first choice first, and what the calls take in the time they take now.

    Each is `<distribution>:<label>`. In a call serves the first that does not refuse it; times
    are compared by their geometric mean. The order is empty where nothing was measured.
    """
    ratios: _Ratios = {}
    for number, (_, candidates) in enumerate(measurement.calls):
        for candidate in candidates:
            if candidate.ratio:
                ratios.setdefault(name_of(candidate), {})[number] = candidate.ratio
    calls = {number for row in ratios.values() for number in row}
    if not calls:
        return [], 1.0
    best = sorted(ratios, key=lambda name: math.prod(ratios[name].values()))[:_MOST]
    order = min(permutations(best), key=lambda names: _cost(names, ratios, calls))
    kept = [name for name in order if any(_serving(order, ratios, n) == name for n in calls)]
    return kept, math.exp(_cost(order, ratios, calls) / len(calls))


def name_of(candidate: TimedCandidate) -> str:
    """How the setting `resolve` names a candidate."""
    return f"{candidate.provider}:{candidate.label}"


def _serving(order: Sequence[str], ratios: _Ratios, call: int) -> str:
    return next((name for name in order if call in ratios[name]), "")


def _cost(order: Sequence[str], ratios: _Ratios, calls: set[int]) -> float:
    """The logarithms of the times; a call that nobody of them computes costs as much as now."""
    names = {call: _serving(order, ratios, call) for call in calls}
    return sum(math.log(ratios[name][call]) for call, name in names.items() if name)
