"""Guards: what a function read besides its arguments, and whether that is still so.

A traced function is replayed without Python. What it took from its closure, from
globals and from the objects in these is noted here as `(read, expected)` pairs and
compared at each call: by identity, numbers and words by value.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.tape import frames
from netcl_core.tape.tracing import TraceBreak
from netcl_core.tensors.tensor import Operand

Check: TypeAlias = tuple[Callable[[], Any], Any]

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
#: More than this is no cheap check any more.
_LARGEST: Final = 4096
_MISSING: Final = object()


@final
class Guards:
    """The values that some functions and objects read, as they were at construction."""

    def __init__(self, roots: Iterable[Any]) -> None:
        #: The names that all functions found use: of an object, only these matter.
        self.names: set[str] = set()
        self._checks: list[Check] = []
        self._seen: dict[int, Any] = {}
        roots, known = list(roots), -1
        while known < len(self.names):  # a function found late may use names of earlier objects
            known = len(self.names)
            self._checks.clear()
            self._seen.clear()
            for root in roots:
                self._walk(root)
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

    def _expect(self, read: Callable[[], Any]) -> None:
        """Note what `read` gives, and what it leads to."""
        value = read()
        self._note(read, value)
        self._walk(value)

    def _note(self, read: Callable[[], Any], expected: Any) -> None:
        self._checks.append((read, expected))
        if len(self._checks) > _LARGEST:
            raise TraceBreak("jit_compile", "the function reads more objects than can be watched")

    def _walk(self, value: Any) -> None:
        if isinstance(value, (*_PLAIN, BuiltinFunctionType)) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, Operand):
            for name in sorted(_OF_OPERANDS & self.names):
                self._expect(functools.partial(getattr, value, name))
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._walk(value.__func__)
            self._walk(value.__self__)
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._walk(part)
        elif isinstance(value, (property, staticmethod, classmethod, functools.cached_property)):
            for name in _INNER:
                self._walk(getattr(value, name, None))
        elif isinstance(value, ModuleType):
            if _watched(value):
                for name in sorted(self.names & vars(value).keys()):
                    self._expect(functools.partial(_attribute, value, name))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, (list, tuple, dict, set, frozenset, deque)):
            self._container(value)
        elif isinstance(value, (np.ndarray, bytearray)):
            read = functools.partial(_contents_of, value)
            self._note(read, read())
        elif isinstance(value, Iterator):
            raise TraceBreak(
                "jit_compile", f"the function reads an iterator ({type(value).__name__})"
            )
        elif hasattr(value, "__wrapped__") and frames.is_own(type(value).__module__):
            self._walk(value.__wrapped__)  # a compiled function: what it wraps counts
        else:
            self._object(value)

    def _function(self, function: FunctionType) -> None:
        if frames.is_own(function.__module__ or ""):
            return  # our ops depend on their arguments and the registry alone
        read, names = _names(function.__code__)
        self.names |= names
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._expect(functools.partial(getattr, function, name))
        for cell in function.__closure__ or ():
            self._expect(functools.partial(_contents, cell))
        space = function.__globals__
        for name in sorted(read & space.keys()):
            self._expect(functools.partial(space.get, name, _MISSING))

    def _container(self, value: Any) -> None:
        if isinstance(value, (set, frozenset)):
            self._note(functools.partial(frozenset, value), frozenset(value))
            return
        self._note(functools.partial(len, value), len(value))
        if isinstance(value, dict):
            keys = list(value)
            self._note(functools.partial(_in_order, value, keys), True)
        for key in keys if isinstance(value, dict) else range(len(value)):
            self._expect(functools.partial(_item, value, key))

    def _class(self, value: type) -> set[str]:
        """What code may find in a class or its bases, missing in one of them or not."""
        classes = [each for each in value.__mro__ if _watched(each)]
        names = {name for each in classes for name in vars(each)} & (self.names | _CALLED)
        for name in sorted(names):
            for each in classes:
                self._expect(functools.partial(_attribute, each, name))
        return names

    def _object(self, value: Any) -> None:
        """An instance: its attributes that may be read, and those of its class."""
        kind = type(value)
        names = self._class(kind) | self.names
        for each in kind.__mro__:
            for name, member in vars(each).items():
                if isinstance(member, MemberDescriptorType) and each.__module__ != "builtins":
                    self._expect(functools.partial(getattr, value, name, _MISSING))
        if not isinstance(getattr(value, "__dict__", None), dict):
            return
        ours = any(frames.is_own(each.__module__) for each in kind.__mro__)
        if ours or self.names & _DYNAMIC or hasattr(kind, "__getattr__"):
            self._container(vars(value))  # read by names that no code of the user shows
        else:
            inherited = {name for name in names if hasattr(kind, name)}
            for name in sorted(names & vars(value).keys() | inherited):
                self._expect(functools.partial(_attribute, value, name))


#: With one of these names code reads attributes that it does not name.
_DYNAMIC: Final = frozenset(
    {"getattr", "vars", "__dict__", "attrgetter", "asdict", "astuple", "fields", "__getattribute__"}
)
#: Methods that code calls without their name.
_CALLED: Final = frozenset({"__call__", "forward", "__getitem__", "__iter__", "__len__"})
#: What changes on a tensor that stays the same.
_OF_OPERANDS: Final = frozenset({"grad", "requires_grad"})
#: Where properties and their like keep their functions.
_INNER: Final = ("fget", "__func__", "func")


def _same(now: Any, expected: Any) -> bool:
    """Equality of plain values; a NaN and the sign of zero count by their text."""
    if type(now) is not type(expected):
        return False
    if isinstance(now, float):
        return repr(now) == repr(expected)
    if isinstance(now, MethodType):  # made anew at each look-up
        return now.__func__ is expected.__func__ and now.__self__ is expected.__self__
    return isinstance(now, (*_PLAIN, frozenset)) and now == expected


def _contents_of(data: Any) -> bytes:
    """The data of an array, its dtype and shape included."""
    array = np.asarray(data)
    return f"{array.dtype} {array.shape} ".encode() + array.tobytes()


def _in_order(mapping: Mapping[Any, Any], keys: Sequence[Any]) -> bool:
    return all(key is known for key, known in zip(mapping, keys, strict=False))


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names of globals that code reads, and of all it uses; inner functions included."""
    read: set[str] = set()
    used: set[str] = set()
    stack = [code]
    while stack:
        code = stack.pop()
        used.update(code.co_names)
        steps = dis.get_instructions(code)
        read.update(step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
        stack += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(read), frozenset(used)


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
