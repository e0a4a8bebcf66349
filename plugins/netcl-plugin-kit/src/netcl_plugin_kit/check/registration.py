"""The manifest that a registration deserves, and where a manifest says something else.

This is the one definition of what `[[provides]]` has to say: the first-party manifests are
written with it, a scaffold begins with it, and the check compares with it.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from netcl_market.finding import FILE

from netcl_core import DTYPES, plugins
from netcl_core.plugins.protocol import (
    KINDS,
    REGISTERED,
    SINCE,
    Plugin,
    Row,
    implementing,
    plugin_commands,
    registry,
    withdraw,
)
from netcl_plugin_kit.check.findings import CheckFinding
from netcl_plugin_kit.testing.cases import Case

#: What a row means that leaves a key out; a key without a default has to be there.
_DEFAULTS: Final[Mapping[str, Any]] = {"priority": 0, "elementwise": False}


def provided(distribution: str, cases: Sequence[Case] = ()) -> list[dict[str, Any]]:
    """The rows of `[[provides]]` that follow from what a distribution registers, sorted.

    Dtypes, and gradients of structured ops, follow from their cases; a key that nothing is
    known of is left out.
    """
    registry.load()
    rows = [
        _row(row, [case for case in cases if case.op == row.record.name])
        for kind in REGISTERED
        for row in registry.rows(kind)
        if row.provider == distribution
    ]
    ours = [plugin for plugin in plugins.list() if plugin.distribution == distribution]
    rows += [{"name": name, "kind": "command"} for name in plugin_commands(ours)]
    return sorted(rows, key=lambda row: (row["kind"], row["name"], *_rank(row)))


def _row(row: Row, cases: Sequence[Case]) -> dict[str, Any]:
    record = row.record
    facts = {"name": record.name, "kind": row.kind, **_TOLD[row.kind](record, cases)}
    if "priority" in KINDS[row.kind].keys:
        facts["priority"] = getattr(record, "priority", row.priority)
    return facts


def taken(cases: Sequence[Case]) -> list[str]:
    """The dtypes that an op takes, which its cases say; none: there are no cases."""
    dtypes = {dtype for case in cases for dtype in case.takes}
    return [dtype for dtype in DTYPES if dtype in dtypes]


def _of_primitive(record: Any, cases: Sequence[Case]) -> dict[str, Any]:
    facts = {"dtypes": taken(cases) or list(DTYPES), "differentiable": record.backward is not None}
    templates = {"templates": [record.template]} if record.template else {}
    return {**facts, "elementwise": True, **templates}


def _of_operator(record: Any, cases: Sequence[Case]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if dtypes := taken(cases):
        facts["dtypes"] = dtypes
    if cases:
        facts["differentiable"] = any(case.differentiable for case in cases)
    elif hasattr(record, "backward"):  # of a function of other ops only its cases tell
        facts["differentiable"] = record.backward is not None
    return {**facts, "elementwise": False}


def _of_pattern(record: Any, cases: Sequence[Case]) -> dict[str, Any]:
    facts = {"dtypes": list(record.dtypes), "templates": list(record.templates)}
    return {key: value for key, value in facts.items() if value}


#: What a record tells beside its name, by its kind.
_TOLD: Final[Mapping[str, Callable[[Any, Sequence[Case]], dict[str, Any]]]] = {
    "primitive": _of_primitive,
    "operator": _of_operator,
    "implementation": lambda record, cases: {"dtypes": list(record.requires.dtypes)},
    "pattern": _of_pattern,
    "amp_policy": lambda record, cases: {"storage": record.storage},
    "namespace": lambda record, cases: {},
}


def toml(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the text of a manifest."""
    return "\n\n".join("\n".join(["[[provides]]", *pairs(row)]) for row in rows)


def pairs(table: Mapping[str, Any]) -> Iterator[str]:
    """TOML lines: JSON's texts, numbers, booleans and lists are TOML's."""
    for key, value in table.items():
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"


def unpromise(plugin: Plugin) -> None:
    """Let a plugin load whatever it brings, so that a manifest that does not say it is seen.

    One that is data brings what its manifest says.
    """
    withdraw(plugin)
    if plugin.manifest is not None and plugin.kind == "code":
        plugin.manifest = replace(plugin.manifest, rows=())


# -- comparison ------------------------------------------------------------------------


def differences(
    rows: Sequence[Mapping[str, Any]], promised: Sequence[Mapping[str, Any]]
) -> list[CheckFinding]:
    """Where a manifest's rows differ from those that a registration deserves."""
    mine, theirs = _grouped(rows), _grouped(promised)
    findings = [
        CheckFinding(
            "NC304",
            f"it registers the {kind} {name!r}, which the manifest does not list",
            name,
            remedy=_write(mine[kind, name]),
        )
        for kind, name in sorted(mine.keys() - theirs.keys())
    ]
    findings += [
        CheckFinding(
            "NC305", f"the manifest lists the {kind} {name!r}, which it does not register", name
        )
        for kind, name in sorted(theirs.keys() - mine.keys())
    ]
    for kind, name in sorted(mine.keys() & theirs.keys()):
        text = "; ".join(_compared(mine[kind, name], theirs[kind, name]))
        if text:
            remedy = _write(mine[kind, name])
            findings.append(CheckFinding("NC306", f"{kind} {name!r}: {text}", name, "", remedy))
    return findings


_Rows = dict[tuple[str, str], list[Mapping[str, Any]]]


def _grouped(rows: Sequence[Mapping[str, Any]]) -> _Rows:
    """(kind, name) -> its rows by priority: an operator may have several implementations."""
    grouped: _Rows = defaultdict(list)
    for row in rows:
        grouped[str(row.get("kind")), str(row.get("name"))].append(row)
    for group in grouped.values():
        group.sort(key=_rank)
    return dict(grouped)


def _rank(row: Mapping[str, Any]) -> tuple[float, list[str]]:
    """The place of a row among those of its kind and name, wherever a manifest has it."""
    priority, dtypes = row.get("priority", 0), row.get("dtypes")
    return (
        priority if isinstance(priority, int) else math.inf,
        sorted(map(str, dtypes)) if isinstance(dtypes, list) else [],
    )


def too_old(distribution: str) -> Iterator[CheckFinding]:
    """Hooks that are younger than the hook API for which a plugin's manifest says it is written."""
    for hook, since in SINCE.items():
        for plugin, own in implementing(hook):
            told = plugin.manifest.api if plugin.manifest is not None else since
            if plugin.distribution == distribution and told < since and not own.optional:
                older, needed = (".".join(map(str, version)) for version in (told, since))
                given = f"{plugin.name!r} has the hook {hook} of hook API {needed}; it says {older}"
                yield CheckFinding("NC307", given, remedy=f"Write api = {list(since)} into {FILE}")


def unused(distribution: str) -> Iterator[CheckFinding]:
    """Implementations that nothing can ever use."""
    for row in (row for kind in REGISTERED for row in registry.rows(kind)):
        reason = registry.unused(row) if row.provider == distribution else ""
        if reason:
            yield CheckFinding(
                "NC308", f"{row.kind} {row.record.name!r}: {reason}", row.record.name
            )


def _write(rows: Sequence[Mapping[str, Any]]) -> str:
    return f"Write into {FILE}:\n{toml(rows)}"


def _compared(
    mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    if len(mine) != len(theirs):
        yield f"{len(theirs)} rows, {len(mine)} are registered"
        return
    for right, given in zip(mine, theirs, strict=True):
        for key, value in right.items():
            said = given.get(key, _DEFAULTS.get(key))
            if not _agrees(key, value, said):
                shown = "nothing" if said is None else json.dumps(said)
                yield f"{key} is {shown}, registered is {json.dumps(value)}"


def _agrees(key: str, registered: Any, said: Any) -> bool:
    """Whether a manifest's value is true; it may promise fewer dtypes than there are."""
    if key == "elementwise" and said is False:
        return True  # the default: left out or not, it promises nothing
    if key == "dtypes":
        if not registered:  # an implementation that takes any dtype
            return True
        known = isinstance(said, list) and bool(said)
        return known and all(kind in registered for kind in said)
    if isinstance(registered, list):
        return isinstance(said, list) and sorted(map(str, said)) == sorted(registered)
    return type(said) is type(registered) and bool(said == registered)
