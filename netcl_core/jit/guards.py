"""Guards: what a function read besides its arguments, and whether that is still so.

A traced function is replayed without Python. What it took from its closure, from
globals and from the objects in these is found here by the names that its code uses, and
compared at each call. What cannot be found so (`impure`) is not traced.
"""

from __future__ import annotations

import dis
import functools
import logging
import operator
import sys
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from enum import EnumMeta
from importlib.util import resolve_name
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.jit.guarded_values import PLAIN, GuardedValues, TooMuchError
from netcl_core.jit.untraceable import refuse
from netcl_core.tape.node import is_own
from netcl_core.tape.trace_node import TraceBreak
from netcl_core.tensors.tensor import Tensor

_Names: TypeAlias = tuple[frozenset[str], frozenset[str], frozenset[tuple[int, str]]]
_MISSING: Final = object()
_MAPPINGS: Final = (dict, MappingProxyType)
_PROPERTIES: Final = (property, staticmethod, classmethod, functools.cached_property)


@final
class Guards:
    """The values that some functions and objects read, as they were at construction.

    `names` is filled with those that all functions found use: of an object, only these matter.
    Raises TraceBreak for what can be neither watched nor left out.
    """

    def __init__(self, roots: Iterable[Any], names: set[str] | None = None) -> None:
        self.names = set() if names is None else names
        self._seen: dict[int, Any] = {}
        roots, known = list(roots), -1
        try:
            while known < len(self.names):  # one found late may use names of earlier objects
                known = len(self.names)
                self._watch = GuardedValues()
                self._seen.clear()
                self._walk_all(roots)
        except TooMuchError:
            reason = "the function reads more objects than can be watched"
            raise TraceBreak("jit_compile", reason) from None
        except Exception as error:  # of an object's own code, or objects within objects for ever
            reason = f"what the function reads cannot be watched ({type(error).__name__}: {error})"
            raise TraceBreak("jit_compile", reason) from None
        self._seen.clear()
        self.hold = self._watch.holds

    def __len__(self) -> int:
        return len(self._watch)

    def _expect(self, read: Callable[..., Any], *args: Any) -> None:
        """Note what `read` gives, and what it leads to."""
        bound = functools.partial(read, *args)
        value = bound()
        self._watch.read(bound, value)
        self._walk(value)

    def _walk(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, (*PLAIN, *_SILENT)) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        refuse(value, self.names)
        if isinstance(value, Tensor):
            for name in sorted(_OF_OPERANDS & self.names):
                self._expect(getattr, value, name)
        elif kind is FunctionType:
            self._function(value)
        elif kind is MethodType:
            self._walk(value.__func__)
            self._walk(value.__self__)
        elif kind is BuiltinFunctionType:
            if not isinstance(value.__self__, ModuleType):  # `items.append`, `table.get`
                self._walk(value.__self__)
        elif isinstance(value, functools.partial):
            self._walk_all((value.func, *value.args, *value.keywords.values()))
            self._attributes(vars(value))
        elif isinstance(value, _PROPERTIES):
            self._walk_all(getattr(value, name, None) for name in _INNER)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif isinstance(value, type):
            self._class(value)
            self._of_metaclass(value)
        elif isinstance(value, Iterator):
            raise TraceBreak("jit_compile", f"the function reads an iterator ({kind.__name__})")
        elif hasattr(value, "__wrapped__") and is_own(kind.__module__):
            self._walk(value.__wrapped__)  # a compiled function: what it wraps counts
        else:
            self._container(value)
            if not (callable(value) and kind.__module__.partition(".")[0] == "numpy"):
                self._object(value)

    def _container(self, value: Any) -> None:
        """What has items, a referent, a buffer."""
        if isinstance(value, _MAPPINGS):
            self._watch.contents(value)
            self._watch.contents(value.values())
            if isinstance(value, defaultdict):
                self._expect(getattr, value, "default_factory")
            self._walk_all([*value, *value.values()])
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            self._watch.contents(value)
            self._walk_all(list(value))
        elif isinstance(value, ContextVar):
            self._expect(value.get, _MISSING)
        elif isinstance(value, weakref.ref):
            self._expect(value)
        elif isinstance(value, (operator.attrgetter, operator.methodcaller)):
            self._by_name(value)
        elif not isinstance(value, np.generic) and _has_buffer(value):
            self._array(value)
        elif isinstance(getattr(value, "mapping", None), MappingProxyType):  # `table.values()`
            self._walk(value.mapping)

    def _by_name(self, getter: Any) -> None:
        """Names of attributes, and arguments, that an object of `operator` holds."""
        rebuilt, parts = getter.__reduce__()
        if isinstance(rebuilt, functools.partial):
            parts = (*rebuilt.args, *rebuilt.keywords.values(), *parts)
        for part in parts:
            if isinstance(part, str):
                self.names.update(part.split("."))
            self._walk(part)

    def _array(self, array: Any) -> None:
        try:
            held = np.asarray(array)
        except Exception as error:  # of whoever made the object
            reason = f"it reads an object of type {type(array).__name__}: {error}"
            raise TraceBreak("jit_compile", reason) from None
        if held.dtype.hasobject:
            raise TraceBreak("jit_compile", "it reads an array of objects")
        self._watch.array(array)

    def _walk_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._walk(value)

    def _function(self, function: FunctionType) -> None:
        module = function.__module__ or ""
        if is_own(module) or module.partition(".")[0] == "numpy":
            return  # our ops depend on their arguments and the registry alone
        space = function.__globals__
        read, names, imported = names_of(function.__code__)
        self.names |= names
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._expect(getattr, function, name)
        for cell in function.__closure__ or ():
            self._expect(cell_contents, cell)
        self._attributes(vars(function))
        for name in sorted(read):  # one that is missing may come to hide a builtin
            self._expect(space.get, name, _MISSING)
            if name not in space:
                refuse(getattr(sys.modules["builtins"], name, None), self.names)
        for level, name in sorted(imported):
            package = str(space.get("__package__") or space.get("__name__") or "")
            full = resolve_name("." * level + name, package) if level else name
            self._expect(sys.modules.get, full)

    def _attributes(self, space: dict[str, Any]) -> None:
        """Those of a function."""
        if self.names & _DYNAMIC:
            self._container(space)
        else:
            for name in sorted(self.names & space.keys()):
                self._expect(space.get, name, _MISSING)

    def _module(self, module: ModuleType) -> None:
        """What the names lead to. Python's own modules and NumPy hardly change, but hold data."""
        space = vars(module)
        names = self.names & space.keys()
        if not _watched(module):
            for name in sorted(names):
                if module.__name__ in _HIDING or not isinstance(space[name], (FunctionType, type)):
                    self._expect(space.get, name, _MISSING)
                else:
                    refuse(space[name], self.names)
            return
        if self.names & _DYNAMIC:
            names |= {name for name, value in space.items() if isinstance(value, _VALUES)}
        for name in sorted(names):
            self._expect(space.get, name, _MISSING)

    def _class(self, value: type, unused: frozenset[str] = frozenset()) -> set[str]:
        """What code may find in a class or its bases, missing in one of them or not.

        Args:
            value: The class.
            unused: What Python does not call by itself here.
        """
        classes = [class_ for class_ in value.__mro__ if _watched(class_)]
        members = {name: member for class_ in classes for name, member in vars(class_).items()}
        dynamic = bool(self.names & _DYNAMIC)
        names = {
            name
            for name, member in members.items()
            if name in self.names
            or (_is_called(name, member) and name not in unused)
            or (dynamic and name[:2] != "__")
        }
        for name in sorted(names):
            for class_ in classes:
                self._expect(vars(class_).get, name, _MISSING)
        return names

    def _of_metaclass(self, value: type) -> None:
        """A class is an object of its metaclass, too."""
        if isinstance(value, EnumMeta):
            self._walk_all(value.__members__.values())
        if type(value) is not type:
            self._class(type(value))

    def _object(self, value: Any) -> None:
        """An instance: its attributes that may be read, and those of its class."""
        kind = type(value)
        making = frozenset() if self.names & _OF_CLASSES else _MAKING
        names = self._class(kind, making) | self.names
        if _watched(kind):
            self._watch.read(functools.partial(type, value), kind)
        for class_ in kind.__mro__:
            for name, member in vars(class_).items():
                if isinstance(member, MemberDescriptorType) and class_.__module__ != "builtins":
                    self._expect(getattr, value, name, _MISSING)
        space = getattr(value, "__dict__", None)
        if not isinstance(space, dict):
            self._walk(getattr(value, "__wrapped__", None))  # what a cache of functools holds
        elif self.names & _DYNAMIC or hasattr(kind, "__getattr__") or not _is_scanned(kind):
            self._container(space)  # read by names that no code of the user shows
        else:
            inherited = {name for name in names if hasattr(kind, name)}
            for name in sorted(names & space.keys() | inherited):
                self._expect(space.get, name, _MISSING)


#: With one of these names code reads attributes that it does not name.
_DYNAMIC: Final = frozenset(
    {"getattr", "vars", "__dict__", "attrgetter", "asdict", "astuple", "fields",
     "__getattribute__", "getmembers", "methodcaller"}
)  # fmt: skip
#: What makes an object of a class, and with which names code gets at the class of one it has.
_MAKING: Final = frozenset({"__init__", "__new__", "__init_subclass__", "__set_name__"})
_OF_CLASSES: Final = frozenset({"type", "__class__"})
#: What changes on a tensor that stays the same.
_OF_OPERANDS: Final = frozenset({"grad", "requires_grad"})
#: Where properties and their like keep their functions.
_INNER: Final = ("fget", "__func__", "func")
#: What has an effect and no value.
_SILENT: Final = (logging.Logger, logging.Handler, logging.LoggerAdapter)
#: Modules of Python whose functions read what changes.
_HIDING: Final = frozenset({"os", "random", "secrets", "uuid"})
#: What a module is asked for by names that no code shows.
_VALUES: Final = (*PLAIN, Tensor, np.ndarray, list, tuple, dict, set)
#: Bases that add nothing to what an object's own code shows.
_BASES: Final = frozenset({"builtins", "abc", "typing"})


@functools.lru_cache(maxsize=1024)
def names_of(code: CodeType) -> _Names:
    """The names of globals that code reads, all it uses, and the modules that it imports."""
    read: set[str] = set()
    used: set[str] = set()
    imported: set[tuple[int, str]] = set()
    stack = [code]
    while stack:
        code = stack.pop()
        level = 0
        for step in dis.get_instructions(code):
            if step.opcode in dis.hasname and not step.opname.startswith(("STORE_", "DELETE_")):
                used.add(step.argval)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.add(step.argval)
            elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(step.argval) is int:
                level = step.argval  # the level of an import stands before its name
            elif step.opname == "IMPORT_NAME":
                parts = step.argval.split(".")
                used.update(parts)
                imported |= {(level, step.argval), (level, parts[0])}
        stack += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(read), frozenset(used), frozenset(imported)


def _is_scanned(kind: type) -> bool:
    """Whether all code of a class is the user's, of which we know the names."""
    return all(class_.__module__ in _BASES or _watched(class_) for class_ in kind.__mro__)


def _is_called(name: str, member: Any) -> bool:
    """Whether Python calls a method by itself: `__call__`, `__getitem__`, `forward`."""
    special = name == "forward" or (name[:2] == name[-2:] == "__")
    return special and (callable(member) or isinstance(member, _PROPERTIES))


def _has_buffer(value: Any) -> bool:
    """Whether an object is an array or holds one that NumPy reads."""
    if isinstance(value, (np.ndarray, bytearray)) or hasattr(type(value), "__array__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _watched(value: Any) -> bool:
    """Whether a module or class is the user's: ours, NumPy's and Python's own do not change."""
    name = value.__name__ if isinstance(value, ModuleType) else value.__module__
    root = (name or "").partition(".")[0]
    stable = root in sys.stdlib_module_names and root != "__main__"
    return not (stable or root == "numpy" or is_own(root))


def cell_contents(cell: Any) -> Any:
    """What a closure's cell holds; an object that stands for nothing before it is filled."""
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING
