"""Types and names of OpenCL C, read from a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from netcl_plugin_data_kernels.cursor import Cursor
from netcl_plugin_data_kernels.vocabulary import ATTRIBUTES, QUALIFIERS, TYPES


@final
@dataclass(frozen=True, slots=True)
class Name:
    """What a name stands for: a value; a pointer or an array of `type`, with its sizes as C.

    Another work-item may change a `shared` value between two looks at it. Nothing may be stored
    by a `const` pointer.
    """

    type: str
    pointer: bool = False
    sizes: tuple[str, ...] = ()
    shared: bool = False
    const: bool = False


class DeclarationReader(Cursor):
    """Reads the types of declarations, and knows what names stand for.

    Attributes:
        scopes: What names stand for, in the blocks around.
    """

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.scopes: list[dict[str, Name]] = [{}]

    def named(self, name: str) -> Name | None:
        """What a name stands for; None: nothing here."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def specifiers(self) -> tuple[set[str], str]:
        """Qualifiers, attributes and the words of a type."""
        words: set[str] = set()
        type_: list[str] = []
        while True:
            text = self.text
            if text in QUALIFIERS:
                words.add(text)
            elif text in TYPES:
                type_.append(text)
            elif text == "__attribute__":
                self.attribute()
                continue
            else:
                break
            self.take()
        if not type_:
            self.refuse("a type of OpenCL C")
        return words, " ".join(type_)

    def attribute(self) -> None:
        first, depth = self.now, 0
        self.take()
        start = self.place
        while True:
            depth += {"(": 1, ")": -1}.get(self.take(), 0)
            if depth <= 0:
                break
        if not ATTRIBUTES.fullmatch(self.since(start)):
            self.refuse("a work-group size, or a hint", first)

    def declares(self) -> bool:
        text = self.text
        return text in TYPES or text in QUALIFIERS or text == "__attribute__"
