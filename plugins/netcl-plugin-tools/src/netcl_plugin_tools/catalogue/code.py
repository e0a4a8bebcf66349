"""Source text as HTML: Pygments finds the tokens, seven classes colour them."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import Any, ClassVar, Final

from markupsafe import Markup
from pygments.lexer import Lexer, words
from pygments.lexers import CLexer, PythonLexer, TextLexer, get_lexer_by_name
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

#: In characters; a lexer may need much longer for twice the text.
_LONGEST: Final = 200_000
_QUALIFIERS: Final = ("kernel", "global", "local", "constant", "private")
_SIZED: Final = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half")
_TYPES: Final = tuple(
    f"{name}{width}"
    for name in (*_SIZED, "float", "double")
    for width in ("", "2", "3", "4", "8", "16")
)
_WORK_ITEMS: Final = tuple(
    f"get_{what}"
    for what in ("global_id", "local_id", "group_id", "global_size", "local_size", "num_groups")
)


class OpenCLLexer(CLexer):  # type: ignore[misc]  # Pygments has no types
    """C with OpenCL's qualifiers, vector types and work-item functions."""

    name = "OpenCL"
    aliases: ClassVar[list[str]] = ["opencl"]
    filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []
    tokens: ClassVar[dict[str, Any]] = {
        **CLexer.tokens,
        "statements": [
            (words(_QUALIFIERS, prefix=r"\b(?:__)?", suffix=r"\b"), Keyword),
            (words((*_TYPES, "size_t"), suffix=r"\b"), Keyword.Type),
            (words((*_WORK_ITEMS, "barrier"), suffix=r"\b"), Name.Builtin),
            *CLexer.tokens["statements"],
        ],
    }


#: Token type -> class; of several that fit, the first.
_CLASSES: Final[tuple[tuple[_TokenType, str], ...]] = (
    (Comment.Preproc, "p"),
    (Comment.PreprocFile, "p"),
    (Comment, "c"),
    (Keyword.Type, "t"),
    (Keyword, "k"),
    (Name.Function, "f"),
    (Name.Builtin, "b"),
    (Name.Class, "f"),
    (Name.Tag, "k"),
    (Number, "n"),
    (String, "s"),
)


def highlight(text: str, language: str) -> Markup:
    """A source as HTML spans; one in no known language, or of a monstrous size, stays plain."""
    known = language.lower() if len(text) <= _LONGEST else ""
    return Markup(_spans(text.strip("\n"), known))


@lru_cache(maxsize=4096)
def _spans(text: str, language: str) -> str:
    spans: list[str] = []
    last, held = "", ""
    for kind, value in _lexer(language).get_tokens(text):
        this = last if value.isspace() else _class(kind)
        if this != last:
            spans.append(_span(held, last))
            last, held = this, ""
        held += value
    spans.append(_span(held.rstrip("\n"), last))
    return "".join(spans)


def _span(text: str, name: str) -> str:
    safe = escape(text, quote=False)
    return f'<span class="{name}">{safe}</span>' if name and text else safe


@lru_cache(maxsize=256)
def _class(kind: _TokenType) -> str:
    return next((name for wanted, name in _CLASSES if kind in wanted), "")


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer:
    if language in {"opencl", "cl", "opencl c"}:
        return OpenCLLexer()
    if language in {"python", "py"}:
        return PythonLexer()
    try:
        return get_lexer_by_name(language) if language else TextLexer()
    except ClassNotFound:
        return TextLexer()
