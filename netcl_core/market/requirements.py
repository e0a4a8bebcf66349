"""Whether a plugin fits this process: its hook API, its Python, the distributions it depends on.

pip has checked most of it once; separate pip calls can undo that, so it is checked
again, and before anything of the plugin is imported.
"""

from __future__ import annotations

import platform
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from netcl_core.market.failures import plugin_error
from netcl_core.market.finding import Distribution, version_of
from netcl_core.resolution import canonical
from netcl_core.version import API_VERSION, VERSION

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


def check_distribution(distribution: Distribution) -> None:
    """Raise PluginError if this Python or an installed distribution does not fit."""
    wanted = distribution.requires_python
    try:
        fits = not wanted or SpecifierSet(wanted).contains(platform.python_version(), True)
    except InvalidSpecifier:
        raise plugin_error("NP112", f"its Requires-Python {wanted!r} cannot be read") from None
    if not fits:
        raise plugin_error("NP102", f"it needs Python {wanted}, not {platform.python_version()}")
    for text in distribution.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise plugin_error("NP112", f"its requirement {text!r} cannot be read") from None
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            _check(requirement)


def _check(requirement: Requirement) -> None:
    core = canonical(requirement.name) == CORE
    version = VERSION if core else version_of(requirement.name)
    if version is None:
        raise plugin_error("NP103", f"it needs {requirement}, which is not installed")
    if not requirement.specifier.contains(version, prereleases=True):
        name = requirement.name
        raise plugin_error("NP104", f"it needs {requirement}, but {name} {version} is installed")
