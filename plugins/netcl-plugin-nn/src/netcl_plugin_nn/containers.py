"""Containers: Sequential runs modules one after the other, ModuleList only holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, overload

from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.module import MODULE, Module

Self = TypeVar("Self", bound="_Listed")


class _Listed(Module):
    """Modules in order; their names are "0", "1" and so on."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def append(self: Self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._own(MODULE))

    def __iter__(self) -> Iterator[Module]:
        return iter([module for _, module in self._own(MODULE)])

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    def __getitem__(self, index: Any) -> Any:
        modules = list(self)
        if not isinstance(index, slice):
            return modules[index]
        part = type(self).__new__(type(self))
        return part.extend(modules[index])

    def __setitem__(self, index: int, module: Any) -> None:
        if not isinstance(module, Module):
            given = f"a {type(module).__name__}"
            raise ArgumentError(message(type(self).__name__, given, "an nn.Module"))
        setattr(self, str(range(len(self))[index]), module)


class Sequential(_Listed):
    """Modules that run one after the other.

        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))

    `net[0]`, `net[1:]`, `len(net)` and iteration work as with a list.
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__(modules)

    def forward(self, x: Any) -> Any:
        """`x` through all modules in order."""
        for module in self:
            x = module(x)
        return x


class ModuleList(_Listed):
    """A list of modules whose parameters count; it has no forward of its own."""
