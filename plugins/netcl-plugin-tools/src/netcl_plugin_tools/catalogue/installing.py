"""The command that installs a plugin from a catalogue, with what it depends on."""

from __future__ import annotations

from collections import deque

from netcl_plugin_kit.packages.wheel import Wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from netcl_plugin_tools.catalogue.model import MarketContent, Project

#: Stands for the address of a catalogue that does not know it; the script of the pages does.
HERE = "<this site>/"


def command(market: MarketContent, project: Project) -> str:
    """What installs a project from the index of its catalogue.

    The index is the only one that pip asks, unless it lacks what the project depends on.
    """
    option = "--extra-index-url" if elsewhere(market, project) else "--index-url"
    return f"pip install {option} {market.address or HERE}simple/ {project.name}"


def elsewhere(market: MarketContent, project: Project) -> list[str]:
    """The names of what a project depends on, directly or not, and the index does not have."""
    here = {project_of.name: project_of for project_of in (*market.plugins, *market.others)}
    seen, waiting, missing = {project.name}, deque([project]), set()
    while waiting:
        for requirement in waiting.popleft().latest.wheel.needed:
            name = canonicalize_name(requirement.name)
            distribution = here.get(name)
            if distribution is None or not _serves(distribution, requirement):
                missing.add(name)
            elif name not in seen:
                seen.add(name)
                waiting.append(distribution)
    return sorted(missing)


def _serves(project: Project, requirement: Requirement) -> bool:
    """Whether a wheel for every machine fits; extras of what is needed may need more."""
    return not requirement.extras and any(
        requirement.specifier.contains(release.version) and any(map(_is_any, release.wheels))
        for release in project.releases
    )


def _is_any(wheel: Wheel) -> bool:
    return any(tag.platform == "any" for tag in wheel.tags)
