"""Names that are imported on first use, those of packages and of plugins' namespaces.

`import netcl_core.nn` and `from netcl_core.nn import Linear` find what plugins bring. A module
among a namespace's names is found as well: `import netcl_core.nn.functional as F`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final, final

from netcl_core.errors import MissingNameError, MissingNamespaceError

_PREFIX: Final = "netcl_core."
#: The own names of modules that were imported as namespaces.
_handed_out: Final[set[str]] = set()


def fetched(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`, which imports the module of a name when it is asked for.

    `modules`: name -> its module below netcl_core, or `module:attribute` where it has another name
    there, `module:` where that is what it names; "" for one that is a module of its own name.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return importlib.import_module(_PREFIX + name)
        module, _, attribute = modules[name].partition(":")
        imported = importlib.import_module(_PREFIX + module)
        return imported if modules[name].endswith(":") else getattr(imported, attribute or name)

    return get


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
        """Give the module its own spec back, and let modules be found below it."""
        module.__spec__ = self._spec
        module.__dict__.setdefault("__path__", [])
        _handed_out.add(module.__name__)


@final
class IntroducingFinder:
    """Asked before all others: calls a function once a module of another package is imported."""

    def __init__(self, module: str, introduce: Callable[[], None]) -> None:
        self._module = module
        self._introduce = introduce

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that others find, whose loader calls the function; None for other modules."""
        if fullname != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._introduce()

            loader.exec_module = exec_module
        return spec


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
        """The spec of a namespace; None for every other module.

        Raises MissingNamespaceError for a name of PyTorch's with what to write instead, and
        for one that `from netcl_core.nn import` asks for, with names like it.
        """
        try:
            value = self._value(fullname)
        except AttributeError as error:
            imported = isinstance(error, MissingNameError) and not fullname.startswith(_PREFIX)
            if imported or getattr(error, "told", False):  # what to write instead
                raise MissingNamespaceError(str(error)) from None
            return None
        if not isinstance(value, ModuleType):
            return None
        return ModuleSpec(fullname, NamespaceLoader(value))  # type: ignore[arg-type]

    def _value(self, fullname: str) -> Any:
        """What a name leads to; None for one that is none of ours."""
        name = fullname.removeprefix(_PREFIX)
        if name.startswith("_"):
            return None
        first, *below = name.split(".")
        if name != fullname:
            value: Any = self._find(first)
        else:  # `from netcl_core.nn import x` looks for x below the module's own name
            parent, _, last = fullname.rpartition(".")
            if parent not in _handed_out:
                return None
            value, below = sys.modules[parent], [last]
        for attribute in below:
            value = getattr(value, attribute)
        return value
