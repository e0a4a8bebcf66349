"""Whether a plugin fits this process: its hook API, its Python, the distributions it depends on.

pip has checked most of it once; separate pip calls can undo that, so it is checked
again, and before anything of the plugin is imported.

`packaging` decides, and is imported only if need be: that a plain release number lies
between two others is seen without it, and `netcl plugins list` takes half the time.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from netcl_core import API_VERSION, __version__
from netcl_core.plugins.protocol import canonical
from netcl_market.failures import plugin_error
from netcl_market.finding import InstalledDistribution, version_of

CORE: Final = "netcl-core"


def check_api(api: tuple[int, int]) -> None:
    """Raise PluginError unless the hook API that a plugin is written for is served here."""
    major, minor = api
    if major != API_VERSION[0] or minor > API_VERSION[1]:
        raise plugin_error(
            "NP101",
            f"it is written for hook API {major}.{minor}, this core has "
            f"{API_VERSION[0]}.{API_VERSION[1]}",
        )


def check_distribution(distribution: InstalledDistribution) -> None:
    """Raise PluginError if this Python or an installed distribution does not fit."""
    python = ".".join(map(str, sys.version_info[:3]))
    wanted = distribution.requires_python
    if not plainly_fits(wanted, python):
        try:
            fits = _specifiers(wanted, python)
        except ValueError:
            raise plugin_error("NP112", f"its Requires-Python {wanted!r} cannot be read") from None
        if not fits:
            raise plugin_error("NP102", f"it needs Python {wanted}, not {python}")
    for text in distribution.requires:
        _check(text)


def _check(text: str) -> None:
    plain = _REQUIREMENT.fullmatch(text)
    if plain is not None:
        if plain["extra"]:
            return
        version = _version_of(plain["name"])
        if version is not None and plainly_fits(plain["specifiers"], version):
            return
    try:
        requirement = _requirement(text)
    except ValueError:
        raise plugin_error("NP112", f"its requirement {text!r} cannot be read") from None
    if requirement is None:
        return
    name, version = requirement.name, _version_of(requirement.name)
    if version is None:
        raise plugin_error("NP103", f"it needs {requirement}, which is not installed")
    try:
        fits = requirement.specifier.contains(version, prereleases=True)
    except ValueError:  # older packaging raises for a version that is none by PEP 440
        fits = False
    if not fits:
        raise plugin_error("NP104", f"it needs {requirement}, but {name} {version} is installed")


def _version_of(name: str) -> str | None:
    return __version__ if canonical(name) == CORE else version_of(name)


@functools.lru_cache(maxsize=4096)
def plainly_fits(specifiers: str, version: str) -> bool:
    """Whether a release number meets specifiers, if both are plain; False also means: unknown."""
    if not specifiers:
        return True
    if not _RELEASE.fullmatch(version):
        return False
    for specifier in specifiers.split(","):
        match = _SPECIFIER.fullmatch(specifier.strip())
        if match is None or not _COMPARE[match[1]](_release(version), _release(match[2])):
            return False
    return True


_RELEASE: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
_SPECIFIER: Final = re.compile(r"(>=|<=|<|>|==|!=) *([0-9]+(?:\.[0-9]+)*)")
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*) *\(?(?P<specifiers>[<>=!0-9., ]*)\)?"
    r"(?P<extra> *; *extra *== *['\"][A-Za-z0-9._-]+['\"])?"
)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}


def _release(text: str) -> tuple[int, ...]:
    """The numbers of a release without the zeros at its end, which mean nothing."""
    numbers = [int(part) for part in text.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _specifiers(wanted: str, version: str) -> bool:
    from packaging.specifiers import SpecifierSet  # slow, and hardly ever needed

    return SpecifierSet(wanted).contains(version, True)


def _requirement(text: str) -> Any:
    """The requirement, or None if its marker does not apply; raises ValueError."""
    from packaging.requirements import Requirement  # slow, and hardly ever needed

    requirement = Requirement(text)
    return (
        requirement
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        else None
    )
