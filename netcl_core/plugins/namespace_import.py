"""Lets `import netcl_core.nn` and `from netcl_core.nn import Linear` find plugins' namespaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, final

_PREFIX: Final = "netcl_core."


@final
class NamespaceLoader:
    """A loader that hands out a module which is there already, as it is."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module; the import system then puts `spec` upon it."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back."""
        module.__spec__ = self._spec


@final
class NamespaceFinder:
    """Asked after the import system's own finders, since a namespace is no file of this package.

    `find` gives the module of a namespace; it raises MissingNamespaceError where a known
    package would bring it, and AttributeError for a name that nobody knows.
    """

    def __init__(self, find: Callable[[str], ModuleType]) -> None:
        self._find = find

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a namespace; None for every other module."""
        name = fullname.removeprefix(_PREFIX)
        if name == fullname or "." in name or name.startswith("_"):
            return None
        try:
            loader: Any = NamespaceLoader(self._find(name))
        except AttributeError:
            return None
        return ModuleSpec(fullname, loader)
