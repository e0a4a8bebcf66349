"""Errors of templates: whose they are, where in them, and what is to be done."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import jinja2
from jinja2.exceptions import SecurityError

from netcl_core.errors import TemplateError, coded, message

#: The distributions that the prefixes of plugins belong to.
_owners: Final[dict[str, str]] = {}
#: Prefixes that several have a claim to, and nobody has: what each of them has instead.
sharers: Final[dict[str, tuple[str, ...]]] = {}


def own(prefix: str, distribution: str) -> None:
    """Note whose templates a prefix leads to."""
    _owners[prefix] = distribution


def _who(name: str) -> str:
    """A template as errors name it: with the distribution that it belongs to."""
    owner = _owners.get(name.partition("/")[0])
    return f"template {name!r}" + (f" of {owner}" if owner else "")


def not_found(name: str, error: jinja2.TemplateNotFound, prefixes: Iterable[str]) -> TemplateError:
    """The error for a template that is not there, or whose prefix several plugins claim."""
    known = sorted(prefixes)
    prefix, _, file = name.partition("/")
    if prefix in sharers and prefix not in known:
        text = message(
            f"template {name!r}",
            f"{' and '.join(sharers[prefix])} both claim the prefix {prefix!r}",
            "one plugin of that name",
            f"Disable or uninstall one of them. For their authors: {sharers[prefix][0]}/{file} is "
            "found in any case",
        )
        return coded("NP113", TemplateError(text))
    text = message(
        f"template {name!r}",
        f"{error.name} was not found",
        f"a file below one of the prefixes {', '.join(known)}",
        "A plugin's prefix is the name of its entry point",
    )
    return coded("NP309", TemplateError(text))


def failed(name: str, error: BaseException, path: Path) -> TemplateError:
    """The error of a template that could not be read or rendered, with the line."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        given = f"line {error.lineno}: {error.message}"
        return TemplateError(message(_who(name), given, "valid Jinja"))
    place = _place(error, path)
    if isinstance(error, SecurityError):
        text = message(_who(name), f"{place}{error}", "a template that keeps to what it is given")
        return coded("NP316", TemplateError(text))
    endless = isinstance(error, (RecursionError, OverflowError, MemoryError))
    if endless or getattr(error, "code", "") == "NP317":
        expected = "a template that ends, with a kernel's size"
        text = message(_who(name), f"{place}{error}", expected)
        return coded("NP317", TemplateError(text))
    if not isinstance(error, jinja2.TemplateError):
        given = f"{place}{type(error).__name__}: {error}"
        return TemplateError(message(_who(name), given, "a template that renders"))
    return TemplateError(message(_who(name), f"{place}{error}", "every variable defined"))


def _place(error: BaseException, path: Path) -> str:
    """Where a template failed: its own line, and that of another one if it was in there."""
    line = getattr(error, "line", None)  # of what is refused where a template is read
    if line is not None:
        read = Path(getattr(error, "path", ""))
        return f"line {line}{'' if read == path else f' of {read.name}'}: "
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.endswith(".j2")]  # as Jinja names them
    own = [frame for frame in inside if Path(frame.filename) == path]
    where = f"line {own[-1].lineno}: " if own else ""
    if inside and inside[-1] not in own:
        where += f"line {inside[-1].lineno} of {Path(inside[-1].filename).name}: "
    return where
