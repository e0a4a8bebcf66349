"""Witness: which code a call runs, and what of it nobody watches."""

from __future__ import annotations

import sys
from collections import deque
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, final

import numpy as np

from netcl_core import Tensor, capturing
from netcl_core.autograd import check_data
from netcl_core.inspect.captures import refuse_in_capture
from netcl_plugin_capture.step_watch import (
    BUILTINS,
    LIBRARIES,
    PLAIN,
    PURE,
    TELLING,
    StepWatch,
    is_own,
)

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
#: Python's types with methods that change nothing but the object.
_CONTAINERS: Final = (list, dict, set, deque)
_VALUES: Final = (
    *PLAIN, tuple, frozenset, type, range, slice, np.generic, np.dtype, np.ndarray
)  # fmt: skip
_LOOKS: Final = frozenset({"get", "keys", "values", "items", "copy", "index", "count"})
#: Where a replay calls the user's functions again, as a step does.
_CALLED_AGAIN: Final = "netcl_plugin_optim.lambdas"
#: What a capture refuses.
_REFUSING: Final = (Tensor.int_range.__code__, refuse_in_capture.__code__)
#: Who asks whether a capture is under way to do its work otherwise; others ask to refuse it.
_ANSWERING: Final = ("netcl_core", "netcl_plugin_tensor", *TELLING)


def within(function: Any, frame: FrameType | None) -> bool:
    """Whether a frame belongs to a call of a function, or to what that calls."""
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


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
            elif module in PURE or module.startswith(("numpy", "namedtuple_")):
                kind = "pure"
            elif not module or module.partition(".")[0] in LIBRARIES:
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
            method = _package(frame) in TELLING and code.co_varnames[:1] == ("self",)
            if kind == "library" or name in _OWN_REFUSED or (method and name not in _METHODS):
                self.why = f"it calls {code.co_qualname}"

    def _refused(self, function: Any) -> str:
        """Why the user's code may not call a function that is no Python code; empty: it may."""
        name, owner = function.__name__, getattr(function, "__self__", None)
        if isinstance(owner, ModuleType):
            module = owner.__name__
            if name in BUILTINS if module == "builtins" else module.partition(".")[0] in PURE:
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
