"""What the code of a step leads to besides its arguments: found by its names, watched, or refused.

`StepWatch` holds as long as all of it is as it was. `Witness` sees which code a call runs, and
says what of it nobody could watch.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import chain
from operator import attrgetter, call, is_, itemgetter, methodcaller
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, Generator, Tensor, capturing
from netcl_core.autograd import Node, check_data
from netcl_core.inspect.captures import refuse_in_capture
from netcl_core.inspect.recorded import rows as hook_rows
from netcl_core.plugins.protocol import registry

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_CONSTANT: Final = (*_PLAIN, Enum, Device, Generator, np.generic, np.dtype, slice, range)
_MISSING: Final = object()
#: More than this is no cheap check any more.
_MOST: Final = 20_000
#: Packages whose objects tell a recording what they go on with: optimizers, schedules, scalers.
_TELLING: Final = ("netcl_plugin_optim", "netcl_plugin_amp")
#: What of these a step may call.
_METHODS: Final = frozenset({
    "step", "zero_grad", "scale_loss", "unscale_grads", "unscale_", "update", "is_enabled",
    "get_last_lr", "lr", "__init__", "__enter__", "__exit__", "__call__",
})  # fmt: skip
#: Functions of netcl's own that a step cannot call: what they do is no part of a recording.
_OWN_REFUSED: Final = frozenset({
    "uncaptured", "on_replay", "before_replay", "capturing", "set_rng_state", "get_rng_state",
    "set_state", "get_state", "fork_rng", "load_state_dict", "state_dict", "add_param_group",
    "register_hook", "save", "prefer", "memory_stats",
})  # fmt: skip
#: Python's modules that keep nothing of what is asked of them.
_PURE: Final = frozenset({
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
#: Python's functions that a step may call.
_BUILTINS: Final = frozenset({
    "abs", "all", "any", "callable", "divmod", "format", "hash", "isinstance", "issubclass", "len",
    "max", "min", "pow", "repr", "round", "sorted", "sum", "__build_class__", "ord", "chr",
})  # fmt: skip
#: Python's types with methods that change nothing but the object.
_CONTAINERS: Final = (list, dict, set, deque)
_VALUES: Final = (
    *_PLAIN, tuple, frozenset, type, range, slice, np.generic, np.dtype, np.ndarray
)  # fmt: skip
_LOOKS: Final = frozenset({"get", "keys", "values", "items", "copy", "index", "count"})
#: What netcl itself is built on; it calls their Python code.
_LIBRARIES: Final = sys.stdlib_module_names - {"__main__"} | {
    "numpy", "pyopencl", "pytools", "jinja2", "markupsafe", "ml_dtypes", "scipy",
    "siphash24", "platformdirs", "importlib_metadata", "pluggy", "mako", "typing_extensions",
}  # fmt: skip
#: Where a replay calls the user's functions again, as a step does.
_CALLED_AGAIN: Final = "netcl_plugin_optim.lambdas"
#: By which of its names a step's code looks at the rates of an optimizer's groups.
_RATES: Final = frozenset({"param_groups", "lr", "get_last_lr"})
#: What code does that a replay would leave out.
_STORES: Final = ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL")


#: What a capture refuses.
_REFUSING: Final = (Tensor.int_range.__code__, refuse_in_capture.__code__)
#: Who asks whether a capture is under way to do its work otherwise; others ask to refuse it.
_ANSWERING: Final = ("netcl_core", "netcl_plugin_tensor", *_TELLING)


def within(function: Any, frame: FrameType | None) -> bool:
    """Whether a frame belongs to a call of a function, or to what that calls."""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


class UnwatchedError(Exception):
    """What a step's code does or reads that cannot be watched."""


def is_own(module: str | None) -> bool:
    """Whether a module is netcl's or an active plugin's."""
    package = (module or "").partition(".")[0]
    return package == "netcl_core" or package in registry.packages


def _is_users(kind: type) -> bool:
    """Whether a class is neither netcl's nor of what that is built on, Python itself too."""
    module = kind.__module__
    return module.partition(".")[0] not in _LIBRARIES and not is_own(module)


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
        self._roots = [function, *objects]
        self._names: set[str] = set()
        known = -1
        while known < len(self._names):  # one found late may use names of earlier objects
            known = len(self._names)
            self.codes: set[CodeType] = set()
            self.containers: set[int] = set()
            self.tensors: dict[int, Tensor] = {}
            self._reads: list[Callable[[], Any]] = []
            self._expected: list[Any] = []
            self._views: list[Iterable[Any]] = []
            self._items: list[Any] = []
            self._labels: list[str] = []
            self._view_labels: list[str] = []
            self._members: set[tuple[type, str]] = set()
            self._picks: list[Callable[[], Any]] = []
            self._picked: list[Any] = []
            self._pick_labels: list[str] = []
            self._apart: list[Callable[[], bool]] = []
            self._hooks: list[Any] = []
            self._needs: list[bool] = []
            self._memories: list[Any] = []
            self._seen: dict[int, Any] = {}
            self._stores = ""
            for root in self._roots:
                self._walk(root, "the step")
        if self._stores and "param_groups" in self._names:
            raise UnwatchedError(f"it changes an optimizer's groups ({self._stores})")
        self._hooks = self._hooks_now()
        self._seen.clear()

    def holds(self) -> bool:
        """Whether everything is still as it was: by identity in C, else plain values by value."""
        tensors = self.tensors.values()
        try:
            return (
                self._hooks_now() == self._hooks
                and all(map(is_, map(_MEMORY, tensors), self._memories))
                and all(map(is_, map(_NEEDS, tensors), self._needs))
                and all(map(call, self._apart))
                and (all(map(is_, map(call, self._reads), self._expected)) or self._alike())
                and (all(map(is_, self._now_picked(), self._picked)) or self._picks_alike())
                and (
                    all(map(is_, chain.from_iterable(self._views), self._items))
                    or not any(self._changed_views())
                )
            )
        except (RuntimeError, AttributeError, KeyError):  # it is gone, or changes meanwhile
            return False

    def changed(self) -> str:
        """What is no longer as it was, in words."""
        try:
            return next(chain(self._changes(), self._changed_views()), "a tensor or an attribute")
        except (RuntimeError, AttributeError, KeyError):
            return "an attribute"

    def _hooks_now(self) -> list[Any]:
        """What is called with gradients of the tensors that it reads."""
        rows = list(hook_rows.items())
        return [hook for (x, _), row in rows if x in self.tensors for hook in row.hooks.values()]

    def _now_picked(self) -> Iterable[Any]:
        return chain.from_iterable(map(call, self._picks))

    def _alike(self) -> bool:
        """The same by value; then these objects are what is expected from now on."""
        now = list(map(call, self._reads))
        alike = all(map(_same, now, self._expected))
        if alike:
            self._expected = now
        return alike

    def _picks_alike(self) -> bool:
        now = list(self._now_picked())
        alike = all(map(_same, now, self._picked))
        if alike:
            self._picked = now
        return alike

    def _changes(self) -> Iterable[str]:
        now = chain(map(call, self._reads), self._now_picked())
        expected = chain(self._expected, self._picked)
        labels = chain(self._labels, self._pick_labels)
        for value, former, label in zip(now, expected, labels, strict=True):
            if not _same(value, former):
                yield label

    def _changed_views(self) -> Iterable[str]:
        start = 0
        for view, label in zip(self._views[::2], self._view_labels, strict=True):
            now = list(view)
            then = self._items[start : start + len(now)]
            end = start + len(now)
            if end >= len(self._items) or type(self._items[end]) is not _End:
                yield label
                return
            if not all(map(_same, now, then)):
                yield label
            start = end + 1

    # -- what there is to watch ------------------------------------------------------------

    def _expect(self, label: str, read: Callable[..., Any], *args: Any) -> None:
        self._walk(self._read(label, read, *args), label)

    def _read(self, label: str, read: Callable[..., Any], *args: Any) -> Any:
        bound = functools.partial(read, *args)
        value = bound()
        self._reads.append(bound)
        self._expected.append(value)
        self._labels.append(label)
        self._count()
        return value

    def _attributes(self, label: str, space: dict[str, Any], names: Iterable[str]) -> None:
        """Expect what a space has under some names."""
        present = sorted(name for name in names if name in space)
        if not present:
            return
        present.append(present[0])  # of two names and more a tuple is given
        pick = functools.partial(itemgetter(*present), space)
        values = pick()
        self._picks.append(pick)
        self._picked += values
        self._pick_labels += [f"{label}{name}" for name in present]
        self._count()
        for name, value in zip(present, values, strict=True):
            self._walk(value, f"{label}{name}")

    def _of_object(self, label: str, space: dict[str, Any], names: Iterable[str]) -> None:
        """The same of an object, where another attribute may come to hide one of its class."""
        missing = frozenset(names) - space.keys()
        self._apart.append(functools.partial(missing.isdisjoint, space))
        self._attributes(f"{label}.", space, names)

    def _contents(self, label: str, view: Iterable[Any]) -> None:
        end = _End()  # stands in no container, so that a longer or shorter one shows
        self._views += (view, (end,))
        self._items += (*view, end)
        self._view_labels.append(label)
        self._count()

    def _count(self) -> None:
        if len(self._expected) + len(self._items) + len(self._picked) > _MOST:
            raise UnwatchedError("it reads more objects than can be watched")

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
            self._walk(value.__func__, label)
            self._walk(value.__self__, label)
        elif kind is BuiltinFunctionType:
            owner = value.__self__
            if not isinstance(owner, (ModuleType, type(None))):
                self._walk(owner, label)
        elif isinstance(value, functools.partial):
            for part in (value.func, value.args, value.keywords, vars(value)):
                self._walk(part, label)
        elif isinstance(value, ModuleType):
            self._module(value, label)
        elif isinstance(value, type):
            self._class(value, label, True)
        elif isinstance(value, (property, functools.cached_property, staticmethod, classmethod)):
            for name in ("fget", "func", "__func__"):
                self._walk(getattr(value, name, None), label)
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
        elif is_own(kind.__module__):
            self._own_object(value, label)
        elif not _is_users(kind):
            raise UnwatchedError(f"it reads {label}, of type {kind.__qualname__}")
        else:
            self._object(value, label)

    def _tensor(self, tensor: Tensor, label: str) -> None:
        if type(tensor) is Node and tensor.requires_grad and not tensor.is_leaf:
            raise UnwatchedError(f"it reads {label}, a result with a gradient of its own")
        value = tensor.value
        if id(value) not in self.tensors:
            self.tensors[id(value)] = value
            self._needs.append(value.requires_grad)
            self._memories.append(value.memory)
        if getattr(tensor, "__dict__", None):
            self._contents(f"an attribute of {label}", vars(tensor).values())

    def _container(self, value: Any, label: str) -> None:
        self.containers.add(id(value))
        if not isinstance(value, (tuple, frozenset)):
            self._contents(label, value)
        if isinstance(value, (dict, MappingProxyType)):
            self._contents(label, value.values())
            for name, item in list(value.items()):
                self._walk(name, label)
                self._walk(item, f"{label}[{name!r}]")
        else:
            for item in list(value):
                self._walk(item, f"an item of {label}")

    def _function(self, function: FunctionType, label: str) -> None:
        space = function.__globals__
        owner = space.get("__name__", "")
        if is_own(owner) or owner in _PURE or owner.partition(".")[0] == "numpy":
            self._walk(getattr(function, "__wrapped__", None), label)
            return
        if owner.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
            raise UnwatchedError(f"it reads {label}, a function of {owner}")
        label = function.__qualname__
        self._code(function.__code__, function)
        self._attributes(f"{label}.", vars(function), self._names)
        self._read(f"the code of {label}", getattr, function, "__code__")
        for name in ("__defaults__", "__kwdefaults__"):
            self._expect(f"{name} of {label}", getattr, function, name)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._expect(name, _cell, cell)
        names = _globals_of(function.__code__)
        self._attributes("", space, names)
        for name in sorted(names - space.keys()):  # one that may come to hide a builtin
            self._read(name, space.get, name, _MISSING)

    def _code(self, code: CodeType, function: FunctionType) -> None:
        outer = set(function.__code__.co_freevars)
        stack = [code]
        while stack:
            code = stack.pop()
            self.codes.add(code)
            line = code.co_firstlineno
            for step in dis.get_instructions(code):
                line = (step.positions and step.positions.lineno) or line
                name, where = step.opname, f"line {line} of {code.co_filename}"
                if step.opcode in dis.hasname:
                    self._names.add(step.argval)
                if name in _STORES and step.argval != "grad":
                    raise UnwatchedError(f"it sets {step.argval} ({where})")
                if name in ("STORE_DEREF", "DELETE_DEREF") and step.argval in outer:
                    raise UnwatchedError(f"it sets {step.argval} ({where})")
                if name == "MATCH_CLASS":
                    raise UnwatchedError(f"it matches a pattern of a class ({where})")
                if name == "IMPORT_NAME":
                    raise UnwatchedError(f"it imports {step.argval} ({where})")
                if name == "STORE_SUBSCR":
                    self._stores = where
                if name == "LOAD_GLOBAL" and "NULL" not in step.argrepr:  # it is not called here
                    self._handed_on(step.argval, function, where)
            stack += [const for const in code.co_consts if isinstance(const, CodeType)]

    def _handed_on(self, name: str, function: FunctionType, where: str) -> None:
        """Refuse what a library may call unseen, as `map` does."""
        value = None if name in function.__globals__ else getattr(builtins, name, None)
        if isinstance(value, BuiltinFunctionType) and name not in _BUILTINS:
            raise UnwatchedError(f"it hands on {name} ({where})")

    def _module(self, module: ModuleType, label: str) -> None:
        name = module.__name__
        if is_own(name):
            return
        if name.partition(".")[0] in ("numpy", "operator"):
            impure = sorted(_IMPURE & self._names)
            if impure:
                raise UnwatchedError(f"it reads {impure[0]} of {label}")
        elif name.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
            if name not in _PURE:
                raise UnwatchedError(f"it reads {label}, the module {name}")
        else:
            space = vars(module)
            self._attributes(f"{label}.", space, self._names & space.keys())

    def _class(self, class_: type, label: str, made: bool = False) -> None:
        """What code may find in a class and its bases; `made`: it may make an object of it."""
        if type(class_) is not type:
            self._class(type(class_), label)
        for base in class_.__mro__:
            module = base.__module__
            root = module.partition(".")[0]
            if is_own(module) or module == "builtins" or root == "numpy":
                continue
            if base in _BY_TEXT:
                raise UnwatchedError(f"it reads {label}, and attributes that are named by text")
            if root in sys.stdlib_module_names and root != "__main__":
                if module in _PURE or issubclass(base, BaseException):
                    continue
                raise UnwatchedError(f"it reads {label}, the class {base.__qualname__}")
            if (base, "") not in self._members:  # a new name may come to hide one of its bases
                self._members.add((base, ""))
                self._read(f"an attribute of {base.__qualname__}", len, vars(base))
            for name, member in sorted(vars(base).items()):
                special = name == "forward" or (name[:2] == name[-2:] == "__" and callable(member))
                if name in _MAKING and not made:
                    continue
                if (name in self._names or special) and (base, name) not in self._members:
                    self._members.add((base, name))
                    self._expect(f"{base.__qualname__}.{name}", _attribute, base, name)

    def _own_object(self, value: Any, label: str) -> None:
        package = type(value).__module__.partition(".")[0]
        if hasattr(value, "__wrapped__"):
            self._walk(value.__wrapped__, label)
        elif hasattr(type(value), "named_modules"):
            self._layer(value, label)
        elif package in _TELLING:
            self._telling(value, label)
        else:
            raise UnwatchedError(f"it reads {label}, of type {type(value).__qualname__}")

    def _layer(self, module: Any, label: str) -> None:
        """A Module: everything that it holds, whoever sets it."""
        label = type(module).__qualname__ if label == "the step" else label
        space = module.__dict__
        hooks = space.get("_hooks")
        if hooks is not None:
            if any(hooks.values()):
                raise UnwatchedError(f"{label} has hooks")
            for table in (hooks, *hooks.values()):
                self._contents(f"the hooks of {label}", table)
        self._class(type(module), label)
        if is_own(type(module).__module__):
            self._contents(f"an attribute of {label}", space.values())
            for name, value in list(space.items()):
                if name not in ("_kinds", "_hooks"):
                    self._walk(value, f"{label}.{name}")
            return
        self._contents(f"the members of {label}", module._kinds)
        own = {"training", "_hooks", "forward"}
        self._of_object(label, space, self._names | own | module._kinds.keys())

    def _telling(self, value: Any, label: str) -> None:
        """An optimizer, a schedule, a scaler: what it goes on with it tells."""
        if hasattr(value, "optimizer"):
            self._walk(value.optimizer, f"{label}.optimizer")
        groups = getattr(value, "param_groups", None)
        if groups is None:
            return
        self._contents(f"the groups of {label}", groups)
        for group in groups:
            if _RATES & self._names:
                self._contents(f"a group of {label}", group.values())
            self._contents(f"the parameters of {label}", group["params"])
            for i, parameter in enumerate(group["params"]):
                self._walk(parameter, f"parameter {i} of {label}")

    def _object(self, value: Any, label: str) -> None:
        """An object of a user's class: its attributes that may be read."""
        kind = type(value)
        if hasattr(kind, "named_modules"):
            self._layer(value, label)
            return
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
            self._contents(f"an attribute of {label}", space.values())
        self._of_object(label, space, self._names)


@final
class _End:
    """Stands behind the items of a container."""


_BY_TEXT: Final = (attrgetter, methodcaller)
_NEEDS: Final = attrgetter("requires_grad")
_MEMORY: Final = attrgetter("memory")
_MAKING: Final = frozenset({
    "__init__", "__new__", "__init_subclass__", "__set_name__", "__post_init__", "__class__",
    "__setattr__", "__del__", "__repr__", "__setstate__", "__getstate__",
})  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _globals_of(code: CodeType) -> frozenset[str]:
    names: set[str] = set()
    stack = [code]
    while stack:
        code = stack.pop()
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(step.argval)
        stack += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(names)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _MISSING


def _attribute(owner: Any, name: str) -> Any:
    return vars(owner).get(name, _MISSING)


def _same(now: Any, expected: Any) -> bool:
    """Equality of plain values; a NaN and the sign of zero count by their text."""
    if now is expected:
        return True
    if type(now) is not type(expected):
        return False
    if isinstance(now, MethodType):  # made anew at each look-up
        return now.__func__ is expected.__func__ and now.__self__ is expected.__self__
    return isinstance(now, _PLAIN) and repr(now) == repr(expected)


@final
class Witness:
    """A block in which is noted what code a call runs that nobody watches.

    Args:
        watch: What is watched.
        loads: Whether the call may be the one in which plugins are loaded and kernels built, by
            code of whoever wrote it.

    Attributes:
        why: What it did; empty: all of it was known.
    """

    def __init__(self, watch: StepWatch, loads: bool = False) -> None:
        self.why = ""
        self._loads = loads
        self._watch = watch
        self._kinds: dict[CodeType, str] = {}

    def __enter__(self) -> Witness:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, arg: Any) -> None:
        if self.why:
            return
        if event == "call":
            self._called(frame)
        elif event == "c_call" and self._kind(frame) == "user":
            self.why = self._refused(arg)

    def _kind(self, frame: FrameType) -> str:
        code = frame.f_code
        kind = self._kinds.get(code)
        if kind is None:
            module = frame.f_globals.get("__name__", "")
            if code in self._watch.codes:
                kind = "user"
            elif is_own(module):
                kind = "own"
            elif module in _PURE or module.startswith(("numpy", "namedtuple_")):
                kind = "pure"
            elif not module or module.partition(".")[0] in _LIBRARIES:
                kind = "library"  # without a name it is what pyopencl has generated
            else:
                kind = "unknown"
            self._kinds[code] = kind
        return kind

    def _called(self, frame: FrameType) -> None:
        code, outer = frame.f_code, frame.f_back
        if outer is None:
            return
        if code is capturing.__code__ and _package(outer) not in _ANSWERING:
            self.why = f"no capture has {outer.f_code.co_qualname}"
        if code in _REFUSING and not within(check_data, frame):
            self.why = f"it asks the host for what no replay knows ({outer.f_code.co_name})"
        kind = self._kind(frame)
        if kind == "unknown":
            if self._loads or outer.f_globals.get("__name__") == _CALLED_AGAIN:
                return
            where = f"line {code.co_firstlineno} of {code.co_filename}"
            self.why = f"it calls {code.co_qualname}, which its code does not show ({where})"
        elif kind in ("own", "library") and self._kind(outer) == "user":
            name = code.co_name
            method = _package(frame) in _TELLING and code.co_varnames[:1] == ("self",)
            if kind == "library" or name in _OWN_REFUSED or (method and name not in _METHODS):
                self.why = f"it calls {code.co_qualname}"

    def _refused(self, function: Any) -> str:
        """Why the user's code may not call a function that is no Python code; empty: it may."""
        name, owner = function.__name__, getattr(function, "__self__", None)
        if isinstance(owner, ModuleType):
            module = owner.__name__
            if name in _BUILTINS if module == "builtins" else module.partition(".")[0] in _PURE:
                return ""
        elif isinstance(owner, _CONTAINERS):
            if id(owner) not in self._watch.containers or name in _LOOKS:
                return ""
        elif isinstance(owner, str) and name in ("format", "format_map"):
            return "it calls str.format, which reads attributes that are named by text"
        elif isinstance(owner, (*_VALUES, Tensor)) or is_own(type(owner).__module__):
            return ""
        return f"it calls {getattr(function, '__qualname__', name)}"


def _package(frame: FrameType) -> str:
    """Of a frame's code."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
