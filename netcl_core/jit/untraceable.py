"""What a traced function may not use: it gives another value at each call, and none to watch."""

from __future__ import annotations

import builtins
import contextvars
import datetime
import importlib
import inspect
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Set
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

import numpy as np

from netcl_core.tape.trace_node import TraceBreak

_RANDOM: Final = "it draws random numbers of Python or NumPy"
_NAMES: Final = "it reads names that its code does not show"
_SETTINGS: Final = "it asks for settings of Python or NumPy"
_TIME: Final = "it asks for the time"

#: Functions of Python that depend on more than their arguments.
_FUNCTIONS: Final[dict[Any, str]] = {
    **{getattr(builtins, name): _NAMES for name in ("globals", "eval", "exec", "__import__")},
    builtins.input: "it asks the user",
    builtins.open: "it reads a file",
    importlib.import_module: _NAMES,
    **dict.fromkeys((inspect.currentframe, inspect.stack, sys._getframe), _NAMES),
    **dict.fromkeys((sys.getrecursionlimit, np.geterr, np.geterrcall), _SETTINGS),
    os.urandom: _RANDOM,
    **{
        getattr(time, name): _TIME
        for name in dir(time)
        if name.startswith(("time", "perf", "mono", "process", "thread", "ctime", "local", "gm"))
        and callable(getattr(time, name))
    },
    **{getattr(os, name): "it looks at files" for name in ("getcwd", "listdir", "scandir", "stat")},
    **{
        getattr(os.path, name): "it looks at files"
        for name in ("exists", "isfile", "isdir", "getmtime", "getsize")
    },
}
#: Classes whose objects change where nothing can be compared.
_CLASSES: Final[tuple[tuple[Any, str], ...]] = (
    ((random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator), _RANDOM),
    (threading.local, "it reads what belongs to a thread"),
    (contextvars.Context, "it reads a copied context"),
    ((weakref.ProxyType, weakref.CallableProxyType), "it reads a weak proxy"),
)
#: Names of attributes of some objects of Python.
_ATTRIBUTES: Final[tuple[tuple[Any, frozenset[str], str], ...]] = (
    (sys, frozenset({"modules"}), _NAMES),
    (datetime.datetime, frozenset({"now", "utcnow", "today"}), _TIME),
    (datetime.date, frozenset({"today"}), _TIME),
)


def refuse(value: Any, names: Set[str]) -> None:
    """Raise TraceBreak for what gives another value at each call.

    `names` are those that the function's code uses.
    """
    reason = _reason(value, names)
    if reason is not None:
        kind = type(value)
        raise TraceBreak(str(getattr(value, "__qualname__", kind.__qualname__)), reason)


def _reason(value: Any, names: Set[str]) -> str | None:
    if isinstance(value, (BuiltinFunctionType, FunctionType)):
        return _NAMES if "__globals__" in names else _FUNCTIONS.get(value)
    for classes, reason in _CLASSES:
        if isinstance(value, classes):
            return reason
    for owner, attributes, reason in _ATTRIBUTES:
        if value is owner and attributes & names:
            return reason
    return None
