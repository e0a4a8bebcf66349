"""A source on its way: its tokens in, and out what is written instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from netcl_plugin_data_kernels.vocabulary import Refused, Token, tokens

#: Parentheses, statements and casts in each other; more of them crash a compiler.
DEEPEST: Final = 64


class Cursor:
    """Stands before a token of a source, and copies what was read.

    Attributes:
        text: The token's text.
        depth: How much the token is inside of.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens = tokens(source)
        self._place = 0
        self.text = self._tokens[0].text
        self.depth = 0
        self._out: list[str] = []
        self._copied = 0

    @property
    def now(self) -> Token:
        """The token."""
        return self._tokens[self._place]

    def peek(self, ahead: int = 1) -> str:
        """The text of a token further on."""
        return self._tokens[min(self._place + ahead, len(self._tokens) - 1)].text

    def take(self) -> str:
        """The token's text; the next one is next."""
        text = self.text
        self._place += 1
        if self._place == len(self._tokens):
            self._place -= 1
            self.refuse("the rest of it")
        self.text = self._tokens[self._place].text
        return text

    def want(self, text: str) -> None:
        """Take a text, or refuse what stands there."""
        if self.text != text:
            self.refuse(repr(text))
        self.take()

    def given(self, text: str) -> bool:
        """Take a text if it stands there."""
        matches = self.text == text
        if matches:
            self.take()
        return matches

    def say(self, text: str) -> None:
        """Write something of our own after what was read so far."""
        end = self.now.at
        self._out += [self.source[self._copied : end], text]
        self._copied = end

    def skip(self) -> None:
        """Write nothing of what was read since the last `say`."""
        self._copied = self.now.at

    def descend(self) -> None:
        """Go inside of something; Refused if that is inside of too much already."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(f"at most {DEEPEST} parentheses, blocks and signs in each other")

    def deeper(self, read: Callable[[], None]) -> None:
        """Read what stands inside of something."""
        self.descend()
        read()
        self.depth -= 1

    def mark(self) -> tuple[int, int, int]:
        """Where reading stands; `back` goes there."""
        return self._place, self._copied, len(self._out)

    def back(self, mark: tuple[int, int, int]) -> None:
        """Read again from a mark on, and forget what was written since."""
        self._place, self._copied, written = mark
        self.text = self._tokens[self._place].text
        del self._out[written:]

    def apart(self, read: Callable[[], None]) -> str:
        """What would be written while something is read, which the output does not get."""
        self.skip()
        kept, self._out = self._out, []
        read()
        self.say("")
        text, self._out = "".join(self._out), kept
        return text

    @property
    def written(self) -> str:
        """All that was written."""
        self.say("")
        return "".join(self._out)

    def since(self, place: int) -> str:
        """The tokens from a place on, without spaces."""
        return "".join(self.texts(place))

    def texts(self, place: int) -> list[str]:
        """The tokens from a place on."""
        return [token.text for token in self._tokens[place : self._place]]

    @property
    def place(self) -> int:
        """The number of the token."""
        return self._place

    def refuse(self, expected: str, token: Token | None = None) -> NoReturn:
        """Raise Refused for a token, or for this one."""
        where = token or self.now
        raise Refused(where.at, where.text, expected)
