"""Reads the record of a check back from JSON, and refuses what is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from math import isfinite
from types import GenericAlias
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from netcl_core.errors import RecordError, message
from netcl_plugin_kit.testing.records import (
    SCHEMA,
    CheckRecord,
    DeviceFacts,
    KernelSource,
    Mutants,
    Outcome,
    Roofline,
)

_PARTS: Final[Mapping[str, Any]] = {
    "devices": DeviceFacts,
    "outcomes": Outcome,
    "kernels": KernelSource,
    "mutants": Mutants,
    "roofline": Roofline,
}


def from_json(data: Mapping[str, Any]) -> CheckRecord:
    """A record from JSON data.

    Raises RecordError if the data are no record of a check, or of a newer schema.
    """
    if not isinstance(data, Mapping) or data.get("kind") != "check":
        given = data.get("kind") if isinstance(data, Mapping) else type(data).__name__
        raise RecordError(message("record", f"kind {given!r}", "a record of kind 'check'"))
    if data.get("schema") != SCHEMA:
        remedy = "Upgrade netcl-core" if isinstance(data.get("schema"), int) else ""
        raise RecordError(message("record", f"schema {data.get('schema')}", str(SCHEMA), remedy))
    try:
        known = _known(CheckRecord, data)
        for name, part in _PARTS.items():
            known[name] = tuple(_made(part, row) for row in known.get(name, ()))
        for name in ("notes", "parts"):
            known[name] = tuple(known.get(name, ()))
        made: CheckRecord = _sound(CheckRecord(**known))
        datetime.fromisoformat(made.date)
        return made
    except (TypeError, AttributeError, ValueError) as error:
        raise RecordError(message("record", str(error), "the fields of a record")) from error


def _made(part: Any, row: Mapping[str, Any]) -> Any:
    known = _known(part, row)
    return _sound(part(**{k: tuple(v) if isinstance(v, list) else v for k, v in known.items()}))


def _sound(made: Any) -> Any:
    """A part of a record whose values are of the types that its class says; else a TypeError."""
    kind: Any = type(made)
    for name, wanted in _types(kind).items():
        value = getattr(made, name)
        if not _is_a(value, wanted):
            raise TypeError(f"{kind.__name__}.{name} is {value!r:.80}")
    return made


@lru_cache
def _types(part: Any) -> dict[str, Any]:
    return get_type_hints(part)


def _is_a(value: Any, wanted: Any) -> bool:
    if get_origin(wanted) is Literal:
        return value in get_args(wanted)
    if isinstance(wanted, GenericAlias):  # tuple[something, ...]
        part = get_args(wanted)[0]
        return isinstance(value, tuple) and all(_is_a(each, part) for each in value)
    if wanted is float:
        return type(value) in (int, float) and isfinite(value)
    return type(value) is wanted


def _known(part: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(part)}
    return {key: value for key, value in data.items() if key in names}
