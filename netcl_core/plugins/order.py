"""The order in which plugins are loaded: each after those that its distribution depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from netcl_core.plugins.plugin import Plugin
from netcl_core.plugins.resolution import canonical

_NEEDED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?!.*;.*\bextra\b)")


def in_order(plugins: Sequence[Plugin]) -> list[Plugin]:
    """The same plugins by `Requires-Dist`; those that nothing orders stay as they are.

    Of distributions that depend on each other, the first comes last.
    """
    of: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        of.setdefault(canonical(plugin.distribution), []).append(plugin)
    ordered: list[Plugin] = []
    seen: set[str] = set()
    for name in of:
        path = [(name, _needed(of[name]))] if name not in seen else []
        while path:  # no recursion: a chain of dependencies may be of any length
            current, needed = path[-1]
            seen.add(current)
            following = next((other for other in needed if other in of and other not in seen), None)
            if following is None:
                path.pop()
                ordered += of[current]
            else:
                path.append((following, _needed(of[following])))
    return ordered


def _needed(plugins: Sequence[Plugin]) -> Iterator[str]:
    """The canonical names of what a distribution depends on, without those of its extras."""
    for text in plugins[0].source.requires if plugins[0].source is not None else ():
        match = _NEEDED.match(text)
        if match is not None:
            yield canonical(match[1])
