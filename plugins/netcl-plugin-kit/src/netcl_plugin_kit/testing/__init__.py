"""The conformance kit: values and gradients against float64, on every device at hand.

It is the namespace `conformance`, of which `netcl_core.testing` hands on what plugins' own tests
use. Each name comes from its module on first use: pytest is needed for tests alone.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

#: module -> its names
_MODULES: Final = {
    "checks": "check_values",
    "collection": "Table table_of",
    "records": "CheckRecord",
    "reference": "TOLERANCE",
    "running": "RunResult run_level",
    "suite": "conformance",
    "verification": "refuse_wrong_gradient",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    return globals().setdefault(name, getattr(module, name))
