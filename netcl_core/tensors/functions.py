"""The public function of each op by name: what tensors' methods and operators call.

The tables make an entry on its first look-up. The plugin system, which lies above, says how and
clears them whenever an op comes or goes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, final

#: The room above that says how functions are made, once one is needed.
_MAKER: Final = "netcl_core.ops.functions"


@final
class OpFunctions(dict[str, Callable[..., Any]]):
    """Op name -> function; `functions["add"](x, y)`.

    Attributes:
        build: Makes the function of a name and says whether it may be kept; raises MissingOpError.
        build_of: Makes the function of a record, whether it is a public op or a part of one.
        names: The names of all installed ops.
        build_method: Makes the method of a name, of an op or of its form in place; None: there is
            none.
        absence: Says why a name is no method, though an op is called so; empty: none is.
    """

    build: Callable[[str], tuple[Callable[..., Any], bool]]
    build_of: Callable[[Any], Callable[..., Any]]
    names: Callable[[], Sequence[str]]
    build_method: Callable[[str], Callable[..., Any] | None]
    absence: Callable[[str], str]

    def __init__(self) -> None:
        super().__init__()
        self._methods: dict[str, Callable[..., Any] | None] = {}
        self._of_records: dict[int, tuple[Any, Callable[..., Any]]] = {}
        self._bound: list[tuple[type, str]] = []

    def __missing__(self, name: str) -> Callable[..., Any]:
        function, kept = self._wired().build(name)
        if kept:
            self[name] = function
        return function

    def of_record(self, record: Any) -> Callable[..., Any]:
        """The function of one record, whoever else offers an op of its name."""
        held = self._of_records.get(id(record))
        if held is None:
            held = self._of_records[id(record)] = record, self._wired().build_of(record)
        return held[1]

    def replace(self, record: Any, other: Any) -> None:
        """Let calls of a record go to another one, until an op comes or goes."""
        self._of_records[id(record)] = record, self.of_record(other)

    def _wired(self) -> OpFunctions:
        """Itself, once it is known how functions are made."""
        if "build" not in vars(self):
            importlib.import_module(_MAKER)
        return self

    def method(self, name: str) -> Callable[..., Any] | None:
        """What `x.<name>` is for a tensor: the function of an op, called with `x` first."""
        if name not in self._methods:
            self._methods[name] = self._wired().build_method(name)
        return self._methods[name]

    def bound_to(self, owner: type, name: str, method: Any) -> None:
        """Make a method, if it is a plain function, an attribute until an op comes or goes."""
        if type(method) is FunctionType:
            self._bound.append((owner, name))
            setattr(owner, name, method)

    def methods(self) -> Sequence[str]:
        """The names of the ops that are methods."""
        return [name for name in self.op_names() if self.method(name) is not None]

    def why_no_method(self, name: str) -> str:
        """Why a tensor has no method of this name, though an op is called so; empty: none is."""
        return self._wired().absence(name)

    def op_names(self) -> Sequence[str]:
        """The names of all installed ops."""
        return self._wired().names()

    def clear(self) -> None:
        """Forget all functions."""
        super().clear()
        self._methods.clear()
        self._of_records.clear()
        while self._bound:
            owner, name = self._bound.pop()
            if name in vars(owner):
                delattr(owner, name)


functions: Final = OpFunctions()
