"""Guards: what a function read besides its arguments, and whether that is still so.

A traced function is replayed without Python. What it took from its closure, from
globals and from the objects in these is noted here as `(read, expected)` pairs and
compared at each call: by identity, numbers and words by value.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias, final

from netcl_core.autograd import frames
from netcl_core.autograd.tracing import TraceBreak
from netcl_core.tensors import Operand

Check: TypeAlias = tuple[Callable[[], Any], Any]

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
#: More than this is no cheap check any more.
_LARGEST: Final = 4096
_MISSING: Final = object()


@final
class Guards:
    """The values that some functions and objects read, as they were at construction."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._checks: list[Check] = []
        self._seen: dict[int, Any] = {}
        for root in roots:
            self._walk(root, frozenset())
        self._seen.clear()

    def hold(self) -> bool:
        """Whether everything is still as it was."""
        for read, expected in self._checks:
            now = read()
            if now is not expected and not _same(now, expected):
                return False
        return True

    def __len__(self) -> int:
        return len(self._checks)

    def _expect(self, read: Callable[[], Any], names: frozenset[str]) -> None:
        """Note what `read` gives, and what it leads to."""
        value = read()
        self._checks.append((read, value))
        if len(self._checks) > _LARGEST:
            raise TraceBreak("jit_compile", "the function reads more objects than can be watched")
        self._walk(value, names)

    def _walk(self, value: Any, names: frozenset[str]) -> None:
        """`names` are the names that the reading code uses."""
        if isinstance(value, (*_PLAIN, Operand, BuiltinFunctionType)):
            return
        if id(value) in self._seen and not isinstance(value, (ModuleType, type)):
            return
        self._seen[id(value)] = value
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._walk(value.__func__, names)
            self._walk(value.__self__, _names(value.__func__))
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._walk(part, names)
        elif isinstance(value, (ModuleType, type)):
            if _watched(value):
                for name in sorted(names & vars(value).keys()):
                    self._expect(functools.partial(_attribute, value, name), names)
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self._container(value, names)
        elif hasattr(value, "__wrapped__") and frames.is_own(type(value).__module__):
            self._walk(value.__wrapped__, names)  # a compiled function: what it wraps counts
        elif isinstance(getattr(value, "__dict__", None), dict):
            self._object(value, names)

    def _function(self, function: FunctionType) -> None:
        if frames.is_own(function.__module__ or ""):
            return  # our ops depend on their arguments and the registry alone
        names = _names(function)
        for cell in function.__closure__ or ():
            self._expect(functools.partial(_contents, cell), names)
        space = function.__globals__
        for name in sorted(names & space.keys()):
            self._expect(functools.partial(space.get, name, _MISSING), names)
        for default in (function.__defaults__ or ()) + tuple(
            (function.__kwdefaults__ or {}).values()
        ):
            self._walk(default, names)

    def _container(self, value: Any, names: frozenset[str]) -> None:
        if isinstance(value, (set, frozenset)):
            self._checks.append((functools.partial(frozenset, value), frozenset(value)))
            return
        self._checks.append((functools.partial(len, value), len(value)))
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            self._expect(functools.partial(_item, value, key), names)

    def _object(self, value: Any, names: frozenset[str]) -> None:
        """An instance: its attributes, and the functions of its class that may be called."""
        for each in type(value).__mro__:
            if _watched(each):
                for name, member in vars(each).items():
                    if isinstance(member, FunctionType) and (name in names or name in _CALLED):
                        self._walk(member, names)
        self._container(vars(value), names)


#: Methods that code calls without their name.
_CALLED: Final = frozenset({"__call__", "forward", "__getitem__", "__iter__", "__len__"})


def _same(now: Any, expected: Any) -> bool:
    """Equality of plain values; a NaN and the sign of zero count by their text."""
    if type(now) is not type(expected):
        return False
    if isinstance(now, float):
        return repr(now) == repr(expected)
    if isinstance(now, MethodType):  # made anew at each look-up
        return now.__func__ is expected.__func__ and now.__self__ is expected.__self__
    return isinstance(now, (*_PLAIN, frozenset)) and now == expected


def _names(function: Any) -> frozenset[str]:
    """The names of globals and attributes that a function's code uses, inner functions included."""
    found: set[str] = set()
    stack = [function.__code__] if isinstance(function, FunctionType) else []
    while stack:
        code = stack.pop()
        found.update(code.co_names)
        stack += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(found)


def _watched(value: Any) -> bool:
    """Whether a module or class is the user's: ours, NumPy's and Python's own do not change."""
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    root = (name or "").partition(".")[0]
    stable = root in sys.stdlib_module_names and root != "__main__"
    return not (stable or root == "numpy" or frames.is_own(root))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _MISSING


def _attribute(owner: Any, name: str) -> Any:
    return vars(owner).get(name, _MISSING)


def _item(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except LookupError:
        return _MISSING
