"""StepWatch: what the code of a step leads to besides its arguments: watched, or refused.

It is found by the names that the code uses, in functions, classes, objects and containers.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from operator import attrgetter, methodcaller
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, Generator, Tensor
from netcl_core.autograd import Node
from netcl_core.inspect.programs import cell_contents, names_of
from netcl_core.inspect.recorded import hook_rows
from netcl_core.plugins.protocol import registry
from netcl_plugin_capture.watched_values import UnwatchedError, WatchedValues

PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_CONSTANT: Final = (*PLAIN, Enum, Device, Generator, np.generic, np.dtype, slice, range)
_MISSING: Final = cell_contents(CellType())
#: Python's functions that a step may call.
BUILTINS: Final = frozenset({
    "abs", "all", "any", "callable", "divmod", "format", "hash", "isinstance", "issubclass", "len",
    "max", "min", "pow", "repr", "round", "sorted", "sum", "__build_class__", "ord", "chr",
})  # fmt: skip
#: Packages whose objects tell a recording what they go on with: optimizers, schedules, scalers.
TELLING: Final = ("netcl_plugin_optim", "netcl_plugin_amp")
#: Python's modules that keep nothing of what is asked of them.
PURE: Final = frozenset({
    "math", "cmath", "_operator", "operator", "functools", "_functools", "itertools", "contextlib",
    "typing", "collections", "collections.abc", "_collections", "_collections_abc", "enum",
    "dataclasses", "abc", "_abc", "types", "numbers", "numpy", "weakref", "_weakrefset",
})  # fmt: skip
#: What of NumPy is no function of its arguments, and what reads an attribute that is named by text.
_IMPURE: Final = frozenset({
    "attrgetter", "methodcaller",
    "random", "load", "save", "savez", "savetxt", "loadtxt", "fromfile", "memmap", "genfromtxt",
    "seterr", "copyto", "put", "place", "putmask", "fill_diagonal",
})  # fmt: skip
_PYTHON: Final = sys.stdlib_module_names - {"__main__"}
#: What netcl itself is built on; it calls their Python code.
LIBRARIES: Final = _PYTHON | {
    "numpy", "pyopencl", "pytools", "jinja2", "markupsafe", "ml_dtypes", "scipy",
    "siphash24", "platformdirs", "importlib_metadata", "pluggy", "mako", "typing_extensions",
}  # fmt: skip
#: By which of its names a step's code looks at the rates of an optimizer's groups.
_RATES: Final = frozenset({"param_groups", "lr", "get_last_lr"})
#: What code does that a replay would leave out.
_STORES: Final = ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL")
_CLOSED: Final = ("STORE_DEREF", "DELETE_DEREF")
#: What makes an object, or is called where no step does.
_MAKING: Final = frozenset({
    "__init__", "__new__", "__init_subclass__", "__set_name__", "__post_init__", "__class__",
    "__setattr__", "__del__", "__repr__", "__setstate__", "__getstate__",
})  # fmt: skip
#: What reads attributes that its arguments name.
_BY_TEXT: Final = (attrgetter, methodcaller)
#: What of a tensor has to stay: its elements may change.
_STATE: Final = attrgetter("memory", "geometry", "shape", "requires_grad")


def is_own(module: str | None) -> bool:
    """Whether a module is netcl's or an active plugin's."""
    package = _package(module)
    return package == "netcl_core" or package in registry.packages


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _is_users(kind: type) -> bool:
    """Whether a class is neither netcl's nor of what that is built on, Python itself too."""
    return _package(kind.__module__) not in LIBRARIES and not is_own(kind.__module__)


@final
class StepWatch:
    """What a function and some objects lead to, as it is at construction.

    Attributes:
        codes: All code of the user's that was found.
        containers: The identities of lists, dicts and sets that it reads.
        tensors: By identity the tensors that it reads, and the parameters of optimizers.

    Raises UnwatchedError for what cannot be watched.
    """

    def __init__(self, function: Any, objects: Iterable[Any]) -> None:
        roots = [function, *objects]
        self._names: set[str] = set()
        known = -1
        while known < len(self._names):  # one found late may use names of earlier objects
            known = len(self._names)
            self.codes: set[CodeType] = set()
            self.containers: set[int] = set()
            self.tensors: dict[int, Tensor] = {}
            self._values = WatchedValues()
            self._members: set[tuple[type, str]] = set()
            self._seen: dict[int, Any] = {}
            self._stores = ""
            for root in roots:
                self._walk(root, "the step")
        if self._stores and "param_groups" in self._names:
            raise UnwatchedError(f"it changes an optimizer's groups ({self._stores})")
        self._seen.clear()
        leaves = frozenset((key, 0) for key in self.tensors)
        for leaf in leaves & hook_rows.keys():
            self._values.contents("the hooks of a tensor", hook_rows[leaf].hooks)
        added = leaves - hook_rows.keys()
        self._values.read("the hooks of a tensor", added.isdisjoint, hook_rows)
        self._states = list(map(_STATE, self.tensors.values()))

    def holds(self, unchanged: bool = False) -> bool:
        """Whether everything is still as it was; `unchanged`: of the tensors this is known."""
        try:
            same = unchanged or list(map(_STATE, self.tensors.values())) == self._states
            return same and self._values.hold()
        except (RuntimeError, AttributeError):  # it is gone, or changes meanwhile
            return False

    def changed(self) -> str:
        """What is no longer as it was, in words."""
        try:
            return self._values.changed() or "a tensor"
        except (RuntimeError, AttributeError):
            return "an attribute"

    # -- what there is to watch ------------------------------------------------------------

    def _expect(self, label: str, read: Callable[..., Any], *args: Any) -> None:
        self._walk(self._values.read(label, read, *args), label)

    def _of_object(
        self, label: str, space: dict[str, Any], names: Iterable[str], shown: bool = False
    ) -> None:
        """Expect its attributes, and no other that may come to hide one of its class."""
        present = names & space.keys()
        missing = frozenset(names - space.keys())
        self._values.read(f"an attribute of {label}", missing.isdisjoint, space, shown=shown)
        for name in sorted(present):
            found = self._values.read(f"{label}.{name}", space.get, name, _MISSING, shown=shown)
            self._walk(found, f"{label}.{name}")

    def _walk(self, value: Any, label: str) -> None:
        kind = type(value)
        if value is _MISSING or id(value) in self._seen:
            return
        if isinstance(value, _CONSTANT) and not (_is_users(kind) and hasattr(value, "__dict__")):
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._tensor(value, label)
        elif kind is FunctionType:
            self._function(value, label)
        elif kind is MethodType:
            self._walk_all(label, value.__func__, value.__self__)
        elif kind is BuiltinFunctionType:
            if not isinstance(value.__self__, ModuleType):
                self._walk(value.__self__, label)
        elif isinstance(value, functools.partial):
            self._walk_all(label, value.func, value.args, value.keywords, vars(value))
        elif isinstance(value, ModuleType):
            self._module(value, label)
        elif isinstance(value, type):
            self._class(value, label, True)
        elif isinstance(value, (property, functools.cached_property, staticmethod, classmethod)):
            inner = ("fget", "func", "__func__")
            self._walk_all(label, *[getattr(value, name, None) for name in inner])
        elif isinstance(value, (list, tuple, set, frozenset, deque, dict, MappingProxyType)):
            self._container(value, label)
            if hasattr(value, "__dict__") and not is_own(kind.__module__):
                self._object(value, label)  # of a class with attributes besides
            elif not is_own(kind.__module__):
                self._class(kind, label)
        elif kind is SimpleNamespace:
            self._object(value, label)
        elif kind.__module__ in ("typing", "types") or kind in (np.ufunc, MemberDescriptorType):
            pass
        elif hasattr(kind, "named_modules"):
            self._layer(value, label)
        elif is_own(kind.__module__) and hasattr(value, "__wrapped__"):
            self._walk(value.__wrapped__, label)
        elif _package(kind.__module__) in TELLING:
            self._telling(value, label)
        elif not _is_users(kind):
            raise UnwatchedError(f"it reads {label}, of type {kind.__qualname__}")
        else:
            self._object(value, label)

    def _walk_all(self, label: str, *values: Any) -> None:
        for value in values:
            self._walk(value, label)

    def _tensor(self, tensor: Tensor, label: str) -> None:
        if type(tensor) is Node and tensor.requires_grad and not tensor.is_leaf:
            raise UnwatchedError(f"it reads {label}, a result with a gradient of its own")
        self.tensors[id(tensor.value)] = tensor.value
        if getattr(tensor, "__dict__", None):
            self._values.contents(f"an attribute of {label}", vars(tensor))

    def _container(self, value: Any, label: str) -> None:
        self.containers.add(id(value))
        if not isinstance(value, (tuple, frozenset)):
            self._values.contents(label, value)
        if isinstance(value, (dict, MappingProxyType)):
            for name, item in list(value.items()):
                self._walk(name, label)
                self._walk(item, f"{label}[{name!r}]")
        else:
            self._walk_all(f"an item of {label}", *value)

    def _function(self, function: FunctionType, label: str) -> None:
        space = function.__globals__
        owner = space.get("__name__", "")
        if is_own(owner) or owner in PURE or _package(owner) == "numpy":
            self._walk(getattr(function, "__wrapped__", None), label)
            return
        if _package(owner) in _PYTHON:
            raise UnwatchedError(f"it reads {label}, a function of {owner}")
        label = function.__qualname__
        code = function.__code__
        self._code(code, function)
        self._of_object(label, vars(function), self._names)
        self._values.read(f"the code of {label}", getattr, function, "__code__")
        for name in ("__defaults__", "__kwdefaults__"):
            self._expect(f"{name} of {label}", getattr, function, name)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._expect(name, cell_contents, cell)
        for name in sorted(names_of(code)[0]):  # one that is missing may come to hide a builtin
            self._expect(name, space.get, name, _MISSING)

    def _code(self, code: CodeType, function: FunctionType) -> None:
        self.codes.add(code)
        line = code.co_firstlineno
        for step in dis.get_instructions(code):
            line = (step.positions and step.positions.lineno) or line
            name, where = step.opname, f"line {line} of {code.co_filename}"
            if step.opcode in dis.hasname:
                self._names.add(step.argval)
            stores = name in _STORES and step.argval != "grad"
            if stores or (name in _CLOSED and step.argval in function.__code__.co_freevars):
                raise UnwatchedError(f"it sets {step.argval} ({where})")
            if name == "MATCH_CLASS":
                raise UnwatchedError(f"it matches a pattern of a class ({where})")
            if name == "IMPORT_NAME":
                raise UnwatchedError(f"it imports {step.argval} ({where})")
            if name == "STORE_SUBSCR":
                self._stores = where
            if name == "LOAD_GLOBAL" and "NULL" not in step.argrepr:  # it is not called here
                self._handed_on(step.argval, function, where)
        for const in code.co_consts:
            if isinstance(const, CodeType):
                self._code(const, function)

    def _handed_on(self, name: str, function: FunctionType, where: str) -> None:
        """Refuse what a library may call unseen, as `map` does."""
        value = None if name in function.__globals__ else getattr(builtins, name, None)
        if isinstance(value, BuiltinFunctionType) and name not in BUILTINS:
            raise UnwatchedError(f"it hands on {name} ({where})")

    def _module(self, module: ModuleType, label: str) -> None:
        name = module.__name__
        if is_own(name):
            return
        if _package(name) in ("numpy", "operator"):
            impure = sorted(_IMPURE & self._names)
            if impure:
                raise UnwatchedError(f"it reads {impure[0]} of {label}")
        elif _package(name) in _PYTHON:
            if name not in PURE:
                raise UnwatchedError(f"it reads {label}, the module {name}")
        else:
            space = vars(module)
            for name in sorted(self._names & space.keys()):
                self._expect(f"{label}.{name}", space.get, name, _MISSING)

    def _class(self, class_: type, label: str, made: bool = False) -> None:
        """What code may find in a class and its bases; `made`: it may make an object of it."""
        if type(class_) is not type:
            self._class(type(class_), label)
        for base in class_.__mro__:
            module = base.__module__
            if is_own(module) or module == "builtins" or _package(module) == "numpy":
                continue
            if base in _BY_TEXT:
                raise UnwatchedError(f"it reads {label}, and attributes that are named by text")
            if _package(module) in _PYTHON:
                if module in PURE or issubclass(base, BaseException):
                    continue
                raise UnwatchedError(f"it reads {label}, the class {base.__qualname__}")
            if (base, "") not in self._members:  # a new name may come to hide one of its bases
                self._members.add((base, ""))
                self._values.read(f"an attribute of {base.__qualname__}", len, vars(base))
            for name, member in sorted(vars(base).items()):
                special = name == "forward" or (name[:2] == name[-2:] == "__" and callable(member))
                if name in _MAKING and not made:
                    continue
                if (name in self._names or special) and (base, name) not in self._members:
                    self._members.add((base, name))
                    self._expect(f"{base.__qualname__}.{name}", vars(base).get, name, _MISSING)

    def _layer(self, module: Any, label: str) -> None:
        """A Module: everything that it holds, whoever sets it."""
        label = type(module).__qualname__ if label == "the step" else label
        space = module.__dict__
        tables = space.get("_hooks")
        if tables is not None:
            if any(tables.values()):
                raise UnwatchedError(f"{label} has hooks")
            for table in (tables, *tables.values()):
                self._values.contents(f"the hooks of {label}", table)
        own = is_own(type(module).__module__)
        shown = self._values.shows(space, module, not own)
        self._values.read(f"the class of {label}", type, module, shown=shown)
        self._values.read(f"the attributes of {label}", getattr, module, "__dict__", shown=shown)
        self._class(type(module), label)
        self._values.contents(f"the members of {label}", module._kinds)
        names = self._names | {"training", "_hooks", "forward"} | module._kinds.keys()
        if own:
            names |= space.keys()
        if own and shown:
            self._values.read(f"an attribute of {label}", tuple, space, shown=True)
        elif own:
            self._values.contents(f"an attribute of {label}", space)
        self._seen.update((id(value), value) for value in (tables, module._kinds))
        self._of_object(label, space, names, shown)

    def _telling(self, value: Any, label: str) -> None:
        """An optimizer, a schedule, a scaler: what it goes on with it tells."""
        if hasattr(value, "optimizer"):
            self._walk(value.optimizer, f"{label}.optimizer")
        groups = getattr(value, "param_groups", None)
        if groups is None:
            return
        self._values.read(f"the groups of {label}", getattr, value, "param_groups")
        self._values.contents(f"the groups of {label}", groups)
        for group in groups:
            self._values.read(f"the parameters of {label}", group.get, "params")
            self._values.contents(f"the parameters of {label}", group["params"])
            if _RATES & self._names:
                self._values.contents(f"a group of {label}", group)
            for i, parameter in enumerate(group["params"]):
                self._walk(parameter, f"parameter {i} of {label}")

    def _object(self, value: Any, label: str) -> None:
        """An object of a user's class: its attributes that may be read."""
        kind = type(value)
        if hasattr(value, "param_groups"):
            self._telling(value, label)
        if hasattr(kind, "__array__") or not (
            hasattr(value, "__dict__") or hasattr(kind, "__slots__")
        ):
            raise UnwatchedError(f"it reads {label}, of type {kind.__qualname__}")
        self._class(kind, label)
        for class_ in kind.__mro__:
            for name, member in vars(class_).items():
                if isinstance(member, MemberDescriptorType) and name in self._names:
                    self._expect(f"{label}.{name}", getattr, value, name, _MISSING)
        space = getattr(value, "__dict__", {})
        if hasattr(kind, "__getattr__"):
            self._values.contents(f"an attribute of {label}", space)
        self._of_object(label, space, self._names)
