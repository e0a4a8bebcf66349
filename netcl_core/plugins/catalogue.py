"""The market as it was when this core was released: which package brings what.

The bundled snapshot `catalogue.json` is written from the manifests of the first-party
plugins. It is the remedy when an op is missing, and what `netcl plugins search` looks in, too.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, Final

from netcl_core.plugins.registry import registry
from netcl_core.plugins.resolution import canonical

FILE: Final = "catalogue.json"


@functools.lru_cache(maxsize=1)
def catalogue() -> dict[str, dict[str, Any]]:
    """Package name -> `summary`, `license`, `maturity` and `provides`: {kind: [name, ...]}."""
    text = resources.files("netcl_core.plugins").joinpath(FILE).read_text(encoding="utf-8")
    table: dict[str, dict[str, Any]] = json.loads(text)["packages"]
    return table


@functools.cache
def providers(*kinds: str) -> dict[str, str]:
    """The package that brings each name of some kinds."""
    return {
        name: package
        for package, entry in catalogue().items()
        for kind in kinds
        for name in entry["provides"].get(kind, ())
    }


def how_to_get(name: str, *kinds: str) -> str | None:
    """What to do about a missing name of one of these kinds; None if nobody is known."""
    withheld = (registry.withheld.get((kind, name)) for kind in kinds)
    package = next(filter(None, withheld), None) or providers(*kinds).get(name)
    if package is None:
        return None
    state = registry.inactive.get(canonical(package))
    if state is not None:
        return f"{package} is installed but {state}: see `netcl plugins info {package}`"
    return f"Install it with: pip install {package}"
