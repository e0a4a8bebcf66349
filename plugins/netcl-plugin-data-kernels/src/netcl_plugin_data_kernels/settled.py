"""Which variables of a kernel hold a value that no compiler may take for another at each use.

A value that C leaves undefined (`(int)NAN`, `1 / 0`) may be one number when an index is compared
with its bounds and another when it is used: compilers make use of that. What is here finds the
variables that are made of numbers for which this cannot happen, from all that a source writes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, final

from netcl_plugin_data_kernels.vocabulary import ASKING, words

_INTEGERS: Final = words(
    "bool char uchar short ushort int uint long ulong size_t ptrdiff_t unsigned signed"
)
_SIGNS: Final = words("+ - * / % & | ^ ~ ! << >> < > <= >= == != && || ? : ( ) ,") | _INTEGERS
_FUNCTIONS: Final = re.compile(rf"min|max|clamp|sizeof|{ASKING.pattern}")


def is_clean(tokens: Sequence[str], settled: Collection[str]) -> bool:
    """Whether whole numbers alone are joined, by what is defined for all of them.

    A division is by a number that stands there and is not zero.
    """
    for before, text, after in zip(("", *tokens), tokens, (*tokens[1:], ""), strict=False):
        digits = text.rstrip("uUlL")
        if before in ("/", "%"):
            clean = digits.isdecimal() and int(digits) != 0
        elif after == "(" and _FUNCTIONS.fullmatch(text):
            clean = True
        else:
            clean = text in _SIGNS or text in settled or digits.isdecimal()
        if not clean:
            return False
    return True


@final
class Writes:
    """What a source declares and writes, by name: one variable's if two have the same."""

    def __init__(self) -> None:
        self._declared: dict[str, bool] = {}
        self._written: dict[str, list[Sequence[str]]] = {}

    def declare(self, name: str, type_: str, plain: bool) -> None:
        """A variable; `plain`: it is no array or pointer, and nobody else changes it."""
        whole = plain and _INTEGERS.issuperset(type_.split())
        self._declared[name] = whole and self._declared.get(name, True)

    def write(self, name: str, tokens: Sequence[str]) -> None:
        """What a variable gets, or its operator and what follows."""
        self._written.setdefault(name, []).append(tokens)

    def hand_out(self, name: str) -> None:
        """A function gets its address, or has its name."""
        self._declared[name] = False

    def settled(self) -> frozenset[str]:
        """The variables that only ever hold clean values."""
        names = {name for name, whole in self._declared.items() if whole}
        users: dict[str, set[str]] = {}
        for name in names:
            for word in {text for tokens in self._written.get(name, ()) for text in tokens}:
                users.setdefault(word, set()).add(name)
        waiting = [*names]
        while waiting:
            name = waiting.pop()
            written = self._written.get(name, ())
            if name in names and not all(is_clean(index, names) for index in written):
                names.remove(name)
                waiting += users.get(name, ())
        return frozenset(names)
