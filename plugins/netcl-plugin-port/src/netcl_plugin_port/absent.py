"""What to write for names of PyTorch's that are not there: a sentence for each, by patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Final

from netcl_core.errors import missing_name, told_absent

#: What there is to say of all others, by place.
OTHERS: Final = {
    "nn": "netcl does not have this layer; one is a class with a `forward` of ops",
    "optim": "netcl does not have this optimizer; one is a class with a `step`",
    "utils.data": "netcl does not have it; a Dataset is a class with __len__ and __getitem__",
}
ANY: Final = "netcl does not have it; compose it of ops, or bring a kernel: docs/first-plugin.md"


def _lines(file: str) -> Iterator[tuple[str, str]]:
    """The lines of a data file, each with the place in brackets that it stands below."""
    place = ""
    text = resources.files(__package__).joinpath(file).read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        if line.startswith("["):
            place = line[1:-1]
        else:
            yield place, line


@cache
def sentences() -> dict[str, list[tuple[str, list[str]]]]:
    """The sentences of a place, each with the patterns of names that it is for, as in
    `sentences.txt`; the first that fits counts.
    """
    table: dict[str, list[tuple[str, list[str]]]] = {}
    for place, line in _lines("sentences.txt"):
        sentence, _, patterns = line.partition(" | ")
        table.setdefault(place, []).append((sentence, patterns.split()))
    return table


@cache
def pytorchs() -> dict[str, dict[str, str]]:
    """PyTorch's public names by their place, each with its arguments, as `pytorch.txt` has them."""
    table: dict[str, dict[str, str]] = {}
    for place, line in _lines("pytorch.txt"):
        name = re.match(r"\w+", line)
        assert name is not None
        table.setdefault(place, {})[name[0]] = line[name.end() :]
    return table


def reason(place: str, name: str) -> str:
    """What to write instead of a name; a name that PyTorch does not have either gets an empty text.

    >>> nc.port.reason("cuda", "CUDAGraph")
    'ag.capture records a step and repeats it without its Python'
    """
    for sentence, patterns in (
        row for group in _groups(place) for row in sentences().get(group, ())
    ):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return sentence
    known = any(name in pytorchs().get(group, {}) for group in _groups(place))
    return OTHERS.get(place, ANY) if known else ""


def _groups(place: str) -> tuple[str, ...]:
    """Where PyTorch may have the names of a place: a function stands in two."""
    return {"torch": ("torch", "nn.functional"), "nn.functional": ("nn.functional", "torch")}.get(
        place, (place,)
    )


def absence(place: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that a module of this plugin does not have."""
    if name.startswith("__"):
        return AttributeError(name)
    who, why = f"netcl_core.{place}", reason(place, name)
    return told_absent(who, name, why) if why else missing_name(who, name, known)
