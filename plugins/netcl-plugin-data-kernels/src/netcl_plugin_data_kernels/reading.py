"""Reads a declaration's tables: each key once, of the right type; what is left over is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, TypeVar, final

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_data_kernels.expressions import wrong

T = TypeVar("T")
_MISSING: Final = object()


@final
class ManifestTable:
    """One table of a manifest; `done` at last."""

    def __init__(self, table: Any, who: str) -> None:
        if not isinstance(table, Mapping):
            raise wrong(who, repr(table)[:80], "a table")
        self.who = who
        self._left = dict(table)
        self._known: list[str] = []

    def take(self, key: str, kind: type[T], default: Any = _MISSING) -> T:
        """The value of a key."""
        self._known.append(key)
        value = self._left.pop(key, default)
        if value is _MISSING:
            raise wrong(self.who, f"no {key!r}", f"a {_NOUNS[kind]} of that name")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise wrong(self.who, f"{key} = {value!r}"[:120], f"a {_NOUNS[kind]}")
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of texts; one text alone is one, too."""
        self._known.append(key)
        value = self._left.pop(key, default)
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, (list, tuple)) or not all(isinstance(x, str) for x in listed):
            raise wrong(self.who, f"{key} = {value!r}"[:120], "a text, or a list of texts")
        return tuple(listed)

    def tables(self, key: str) -> list[ManifestTable]:
        """A list of tables; none without the key."""
        rows = self.take(key, list, [])
        return [ManifestTable(row, f"{self.who}: {key} {i + 1}") for i, row in enumerate(rows)]

    def items(self, key: str) -> Iterator[tuple[str, Any]]:
        """The pairs of a table; none without the key."""
        yield from self.take(key, dict, {}).items()

    def done(self) -> None:
        """Raise for a key that nobody has asked for."""
        for key in self._left:
            close = get_close_matches(key, self._known, n=1)
            expected = f"one of {', '.join(self._known)}"
            raise wrong(self.who, f"the key {key!r} is unknown", close[0] if close else expected)


_NOUNS: Final[Mapping[type, str]] = {
    str: "text", int: "whole number", bool: "true or false", list: "list", dict: "table",
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an operator: its default, and what it may be."""

    op: str
    name: str
    default: Any
    least: float
    most: float
    choices: tuple[str, ...]

    @classmethod
    def of(cls, op: str, name: str, given: Any) -> Attribute:
        """An attribute from its default, or from a table with more."""
        who = f"{op}: attributes: {name}"
        table = ManifestTable(given if isinstance(given, dict) else {"default": given}, who)
        default = table.take("default", object)
        attribute = cls(
            op,
            name,
            tuple(default) if isinstance(default, list) else default,
            float(table.take("min", (int, float), -math.inf)),  # type: ignore[arg-type]
            float(table.take("max", (int, float), math.inf)),  # type: ignore[arg-type]
            table.texts("choices", ()),
        )
        table.done()
        try:
            attribute.checked(attribute.default)
        except AttributeValueError as error:
            raise wrong(who, f"the default {default!r}", str(error)) from None
        return attribute

    def checked(self, value: Any) -> Any:
        """A value that was given, as it goes on; raises AttributeValueError for a wrong one."""
        if getattr(value, "ndim", None) == 0:
            value = value.item()
        if isinstance(self.default, tuple):
            value = tuple(value) if isinstance(value, (list, tuple)) else value
            fits = isinstance(value, tuple) and all(type(number) is int for number in value)
            expected = "whole numbers"
        elif isinstance(self.default, (bool, str)):
            fits = type(value) is type(self.default) and (not self.choices or value in self.choices)
            expected = " or ".join(map(repr, self.choices)) or f"a {_NOUNS[type(self.default)]}"
        else:
            whole = isinstance(self.default, int)
            fits = isinstance(value, int if whole else (int, float)) and type(value) is not bool
            fits = fits and self.least <= value <= self.most
            expected = f"a {'whole ' if whole else ''}number{self.range}"
            value = float(value) if fits and not whole else value
        if not fits:
            raise AttributeValueError(message(self.op, f"{self.name}={value!r}", expected))
        return value

    @property
    def range(self) -> str:
        """The bounds of a number, as an error says them."""
        parts = [f"from {self.least:g}"] if self.least > -math.inf else []
        parts += [f"up to {self.most:g}"] if self.most < math.inf else []
        return "".join(f" {part}" for part in parts)
