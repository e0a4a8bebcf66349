"""What authors of plugins test with: the cases of an op, and the kit that checks them.

A plugin's hook returns the cases of an op, and its test file is one line and its import:

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case("gated", (normal(), normal()), lambda t, x, y: ...)]

    from netcl_core.testing.suite import conformance

    TestConformance = conformance("my-plugin")

The cases are here; what makes the checks of them is the namespace `conformance`, which a plugin
has. Importing this package imports nothing: each name comes from its module on first use, so that
pytest, which finds `netcl_core.testing.plugin` by itself, starts as fast as without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from netcl_core import plugins

if TYPE_CHECKING:
    from netcl_core.testing.cases import Case as Case
    from netcl_core.testing.devices import usable_devices as usable_devices
    from netcl_core.testing.samples import FLOATS as FLOATS
    from netcl_core.testing.samples import INTEGERS as INTEGERS
    from netcl_core.testing.samples import MILD as MILD
    from netcl_core.testing.samples import SPECIAL as SPECIAL
    from netcl_core.testing.samples import indices as indices
    from netcl_core.testing.samples import masks as masks
    from netcl_core.testing.samples import normal as normal
    from netcl_core.testing.samples import uniform as uniform
    from netcl_core.testing.samples import whole as whole
    from netcl_core.testing.scenarios import Scenario as Scenario

#: module -> its names
_MODULES: Final = {
    "cases": "Case",
    "scenarios": "Scenario",
    "devices": "usable_devices",
    "samples": "normal uniform whole indices masks FLOATS INTEGERS MILD SPECIAL",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}
#: Which names of the kit are handed on here.
_OF_KIT: Final = (
    "CheckRecord",
    "RunResult",
    "TOLERANCE",
    "Table",
    "check_values",
    "run_level",
    "table_of",
)

__all__ = [*_MODULE_OF, *_OF_KIT]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'netcl_core.testing' has no attribute {name!r}")
    module = _MODULE_OF.get(name)
    room: Any = importlib.import_module(f"netcl_core.testing.{module}") if module else kit()
    return globals().setdefault(name, getattr(room, name))


def kit() -> Any:
    """The module that makes the checks; raises MissingNamespaceError where no plugin has it."""
    return plugins.namespace("conformance", "netcl_core.testing")
