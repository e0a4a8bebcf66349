"""Reads dataclasses from JSON data, and says where the data are something else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

#: Makes a value of data that stand at a place; raises ValueError.
_Reader: TypeAlias = Callable[[Any, str], Any]


def read(kind: Any, data: Any, where: str = "") -> Any:
    """A value of a type, as an annotation writes it, from JSON data.

    >>> read(tuple[str, ...], ["a", "b"])
    ('a', 'b')
    >>> read(Mapping[str, int], {"n": "many"}, "counts")
    Traceback (most recent call last):
    ValueError: counts.n is 'many', which should be of type int

    Args:
        kind: A dataclass, `Mapping[str, T]`, a tuple, a Literal, `T | None`, or a plain type. A
            float has to be finite. Keys that a dataclass does not know are passed over.
        data: What `json` gave.
        where: The place of the data, for the error.

    Raises ValueError that names the innermost place.
    """
    return _reader(kind)(data, where)


@cache
def _reader(kind: Any) -> _Reader:
    origin, parts = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(kind)
    if origin is tuple:
        return _tuple_reader(parts)
    if origin is Mapping:
        return _mapping_reader(_reader(parts[1]))
    if origin is UnionType:
        inner = _reader(parts[0])
        return lambda data, where: None if data is None else inner(data, where)
    if origin is Literal:
        words = f"one of {', '.join(map(str, parts))}"
        return lambda data, where: _insist(data in parts, data, where, words)
    if kind is Any:
        return lambda data, where: data
    if kind is float:
        return lambda data, where: _insist(
            type(data) in (int, float) and math.isfinite(data), data, where, "a finite number"
        )
    words = "a text" if kind is str else f"of type {kind.__name__}"
    return lambda data, where: _insist(type(data) is kind, data, where, words)


def _dataclass_reader(kind: Any) -> _Reader:
    hints, missing = get_type_hints(kind), dataclasses.MISSING
    rows = [
        (field.name, _reader(hints[field.name]), field.default is field.default_factory is missing)
        for field in dataclasses.fields(kind)
    ]

    def reader(data: Any, where: str) -> Any:
        _insist(type(data) is dict, data, where or "the file", "a table")
        at = f"{where}." if where else ""
        return kind(**{
            name: part(data.get(name), at + name)
            for name, part, needed in rows
            if needed or name in data
        })  # fmt: skip

    return reader


def _tuple_reader(parts: tuple[Any, ...]) -> _Reader:
    part, count = _reader(parts[0]), None if ... in parts else len(parts)
    words = "a list of texts" if parts[0] is str else "a list"

    def reader(data: Any, where: str) -> Any:
        fits = type(data) in (list, tuple) and count in (None, len(data))
        if parts[0] is str:
            fits = fits and all(type(item) is str for item in data)
        _insist(fits, data, where, words)
        return tuple([part(item, f"{where}.{i}") for i, item in enumerate(data)])

    return reader


def _mapping_reader(part: _Reader) -> _Reader:
    def reader(data: Any, where: str) -> Any:
        _insist(type(data) is dict, data, where, "a table")
        return {name: part(item, f"{where}.{name}") for name, item in data.items()}

    return reader


def _insist(fits: bool, data: Any, where: str, words: str) -> Any:
    if not fits:
        shown = repr(data) if len(repr(data)) < 60 else f"a {type(data).__name__}"
        raise ValueError(f"{where} is {shown}, which should be {words}")
    return data
