"""The modules of netcl-market, where it is installed: rendering, loading and commands ask here.

The market is no plugin: it has to judge before any plugin is imported.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def market_module(name: str) -> ModuleType | None:
    """`netcl_market.<name>`; None without the market. Raises whatever its import raises."""
    if importlib.util.find_spec("netcl_market") is None:
        return None
    return importlib.import_module(f"netcl_market.{name}")
