"""Types and names of OpenCL C, read from a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from netcl_plugin_data_kernels.cursor import Cursor
from netcl_plugin_data_kernels.vocabulary import ATTRIBUTES, BYTES, QUALIFIERS, TYPES

#: The most elements of one dimension of an array.
_ELEMENTS: Final = 1 << 31


@final
@dataclass(frozen=True, slots=True)
class DeclaredName:
    """What a name stands for: a value; a pointer or an array of `type`, with its sizes as C.

    Another work-item may change a `shared` value between two looks at it. Nothing may be stored
    by a `const` pointer.
    """

    type: str
    pointer: bool = False
    sizes: tuple[str, ...] = ()
    shared: bool = False
    const: bool = False


def unfit(parameters: Sequence[DeclaredName], args: Sequence[str]) -> str:
    """What a kernel's parameters should be that is launched with `args`; empty: they are that."""
    if len(parameters) != len(args):
        return f"{len(args)} parameters"
    for number, (of, arg) in enumerate(zip(parameters, args, strict=True), 1):
        size = BYTES.get(arg, 0)
        if of.pointer == bool(size) or (size and BYTES.get(of.type) != size):
            return f"parameter {number} " + (f"of type {arg}" if size else "for a buffer")
        if arg == "in" and not of.const:
            return f"a pointer to const as parameter {number}, which is an input"
    return ""


class DeclarationReader(Cursor):
    """Reads the types of declarations, and knows what names stand for.

    Attributes:
        scopes: What names stand for, in the blocks around.
    """

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.scopes: list[dict[str, DeclaredName]] = [{}]

    def named(self, name: str) -> DeclaredName | None:
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

    def size(self) -> int:
        """A number of elements: whole numbers, their products and sums."""
        total, product = 0, 1
        while True:
            if not self.text.isdecimal() or self.text[0] == "0":  # 010 are eight
                self.refuse("a whole number of elements")
            product *= int(self.take())
            if max(product, total) > _ELEMENTS:
                self.refuse(f"at most {_ELEMENTS} elements")
            if not self.given("*"):
                total, product = total + product, 1
                if not self.given("+"):
                    self.want("]")
                    return total

    def declares(self) -> bool:
        text = self.text
        return text in TYPES or text in QUALIFIERS or text == "__attribute__"
