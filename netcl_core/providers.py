"""Which package provides an op or a namespace: the remedy when one is missing.

The table is the bundled data file `providers.json`, which is generated from the
first-party plugins.
"""

from __future__ import annotations

import functools
import json
from importlib import resources

from netcl_core.registry import registry


@functools.lru_cache(maxsize=1)
def providers() -> dict[str, dict[str, str]]:
    """`{"ops": {name: package}, "namespaces": {name: package}}`."""
    text = resources.files("netcl_core").joinpath("providers.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = json.loads(text)
    return table


def how_to_get(kind: str, name: str) -> str | None:
    """What to do about a missing name of a kind (`"ops"`, `"namespaces"`); None if unknown."""
    package = providers()[kind].get(name)
    if package is None:
        return None
    reason = registry.quarantined.get(package)
    if reason is not None:
        return f"{package} is installed but quarantined ({reason}): repair or upgrade it"
    return f"Install it with: pip install {package}"
