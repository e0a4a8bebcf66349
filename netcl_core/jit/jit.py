"""jit_compile: a Python function of ops becomes a program of fused kernels.

The first call with new shapes, dtypes or static arguments traces the function; later
ones look the program up and run it. What cannot be traced runs as it stands.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
import types
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final, final

from netcl_core.device.device_table import default_device
from netcl_core.errors import FusionError, FusionSkipped, message
from netcl_core.jit.arguments import Arguments, Structure, replaced, restored, results_of
from netcl_core.jit.explanation import Lowered, describe, lower, skipped
from netcl_core.jit.guards import Guards
from netcl_core.jit.program import Program
from netcl_core.plugins.registry import registry
from netcl_core.tape.apply import apply, apply_op
from netcl_core.tape.frames import describe as where
from netcl_core.tape.state import process, thread
from netcl_core.tape.tracing import TraceBreak, TracedNumber, TraceNode, TracingContext
from netcl_core.tensors.tensor import Tensor

#: How many programs a function keeps; the least recently used one goes first.
MAX_PROGRAMS: Final = 256
CacheInfo = namedtuple("CacheInfo", "hits misses maxsize currsize")


@final
class _Entry:
    """A traced function for one key: its program, or why there is none."""

    __slots__ = ("guards", "program", "reason", "structure", "used", "version")

    def __init__(self, guards: Guards | None, version: int) -> None:
        self.guards = guards
        self.version = version
        self.program: Program | None = None
        self.structure: Structure = None
        self.reason: TraceBreak | None = None
        self.used = 0

    def holds(self) -> bool:
        """Whether nothing has changed that the trace read."""
        return self.version == registry.version and (self.guards is None or self.guards.hold())


#: What begins the key of a program that depends on numbers of the call.
_READ: Final = object()


@final
class _Reads:
    """In the place of an entry: the key goes on with these numbers of the call."""

    __slots__ = ("base", "indices", "used")

    def __init__(self, base: Any, indices: tuple[int, ...]) -> None:
        self.base = base
        self.indices = indices
        self.used = math.inf  # only its programs are dropped

    def key(self, given: Arguments) -> Any:
        """The whole key; numbers by their text, so that NaN, -0.0 and 1 and 1.0 are apart."""
        return _READ, self.base, tuple([repr(given.numbers[i]) for i in self.indices])


def _base(given: Arguments) -> Any:
    """What a program depends on in any case: arguments, grad mode, `prefer`, the device.

    It may depend on some of the numbers too.
    """
    mode = process.grad if thread.grad is None else thread.grad
    if given.tensors:
        return given.key, mode, thread.chosen
    return given.key, mode, thread.chosen, default_device()


@final
class Jitted:
    """A compiled function: call it as the function that it wraps."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], strict: bool) -> None:
        functools.update_wrapper(self, function)
        self.strict = strict
        self._function = function
        self._entries: dict[Any, Any] = {}  # an entry or _Reads by key
        self._hits = self._misses = 0
        self._ticks = itertools.count()
        self._lock = threading.RLock()
        self._warned = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit_compile of {self._function!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if thread.tracer is not None:  # part of another function's program
            return self._function(*args, **kwargs)
        try:
            given = Arguments(args, kwargs)
        except TraceBreak as reason:
            self._skip(reason)
            return self._function(*args, **kwargs)
        entry = self._find(given)
        if entry is None:
            entry = self._compile(given, args, kwargs)
        else:
            self._hits += 1
        program = entry.program
        if program is None:
            return self._function(*args, **kwargs)
        direct = program.direct
        if direct is not None and entry.structure[0] == "tensor":
            return apply(direct.call, given.tensors, direct.scalars.given(given.numbers))
        results = program.run(given.tensors, given.numbers)
        if program.unused:
            results = _with_zero_gradients(results, [given.tensors[i] for i in program.unused])
        return restored(entry.structure, results)

    # -- the cache -----------------------------------------------------------------

    def _find(self, given: Arguments) -> _Entry | None:
        found = self._entries.get(_base(given))
        if type(found) is _Reads:
            found = self._entries.get(found.key(given))
        if found is None or not found.holds():
            return None
        found.used = next(self._ticks)
        return found  # type: ignore[no-any-return]  # an entry

    def _keep(self, given: Arguments, entry: _Entry, reads: set[int]) -> None:
        """Enter a program under the arguments' key and the numbers that its trace read."""
        with self._lock:
            base = _base(given)
            known = self._entries.get(base)
            indices = set(known.indices) if type(known) is _Reads else set()
            entry.used = next(self._ticks)
            if reads - indices:  # entries of this key were told apart by too little
                for old in [old for old in self._entries if old[0] is _READ and old[1] == base]:
                    del self._entries[old]
                known = self._entries[base] = _Reads(base, tuple(sorted(reads | indices)))
            self._entries[known.key(given) if type(known) is _Reads else base] = entry
            while len(self._entries) > MAX_PROGRAMS:
                del self._entries[min(self._entries, key=lambda each: self._entries[each].used)]

    def cache_info(self) -> CacheInfo:
        """Hits, misses, the largest number of programs, and how many there are."""
        programs = sum(type(entry) is _Entry for entry in self._entries.values())
        return CacheInfo(self._hits, self._misses, MAX_PROGRAMS, programs)

    def clear_cache(self) -> None:
        """Forget all programs and the counts."""
        with self._lock:
            self._entries.clear()
            self._hits = self._misses = 0

    # -- compiling -----------------------------------------------------------------

    def _compile(self, given: Arguments, args: Any, kwargs: Any) -> _Entry:
        self._misses += 1
        entry, reads = self._trace(given, args, kwargs)
        if entry.reason is not None:
            self._skip(entry.reason)
        elif entry.program is not None:
            reason = skipped(entry.program)
            if reason is not None:
                self._skip(reason)
        self._keep(given, entry, reads)
        return entry

    def _trace(self, given: Arguments, args: Any, kwargs: Any) -> tuple[_Entry, set[int]]:
        """A fresh entry, and which numbers the function read."""
        registry.load()  # else the first op does, and what was just traced is outdated
        version = registry.version
        numbers = [TracedNumber(value, i) for i, value in enumerate(given.numbers)]
        try:
            entry = _Entry(Guards([self._function, *given.objects]), version)
        except TraceBreak as reason:
            entry = _Entry(None, version)
            entry.reason = reason
            return entry, set()
        if entry.guards is not None and "type" in entry.guards.names:
            for x in numbers:  # `type(x)` cannot be answered for it
                x.read()
        try:
            with TracingContext() as context:
                symbols = [context.input(x) for x in given.tensors]
                found = self._function(
                    *replaced(args, symbols, left := [_given(x) for x in numbers]),
                    **replaced(kwargs, symbols, left),
                )
                if context.broken is not None:
                    raise context.broken
                results: list[Any] = []
                entry.structure = results_of(found, results)
                nodes = [context.node_of(x) for x in results]
            kept = [node for node in nodes if isinstance(node, TraceNode)]
            entry.program = Program(context.nodes, kept)
        except TraceBreak as reason:
            entry.reason = reason
        except Exception as error:  # the function itself may raise; then so does the plain call
            self._function(*args, **kwargs)
            entry.reason = TraceBreak(
                "jit_compile", f"tracing raised {type(error).__name__}: {error}"
            )
        return entry, {x.index for x in numbers if x.was_read}

    def _skip(self, reason: TraceBreak) -> None:
        """Say once what was not fused; with `strict` raise it."""
        name = getattr(self._function, "__qualname__", repr(self._function))
        text = message(
            f"jit_compile of {name}",
            f"{reason.op} at {where(reason.frame)}: {reason.reason}",
            "",
            "The result is right, but not fused; .explain(...) says more",
        )
        if self.strict:
            raise FusionError(text)
        if not self._warned:
            self._warned = True
            warnings.warn(text, FusionSkipped, stacklevel=4)

    # -- what it did ---------------------------------------------------------------

    def _entry(self, args: Any, kwargs: Any) -> _Entry:
        given = Arguments(args, kwargs)
        return self._find(given) or self._trace(given, args, kwargs)[0]

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Which ops share a kernel, which do not and why, for these arguments."""
        try:
            entry = self._entry(args, kwargs)
        except TraceBreak as reason:
            return describe(self._function, None, reason)
        return describe(self._function, entry.program, entry.reason)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The rendered sources and the number of launches for these arguments.

        Raises FusionError if the function cannot be traced.
        """
        return lower(traced(self, args, kwargs)[0])


def traced(jitted: Jitted, args: Any, kwargs: Any) -> tuple[Program, Structure]:
    """The program for these arguments, and how the function's results are put together.

    Raises FusionError that says why there is none.
    """
    try:
        entry = jitted._entry(args, kwargs)
    except TraceBreak as reason:
        raise FusionError(describe(jitted._function, None, reason)) from None
    if entry.program is None:
        raise FusionError(describe(jitted._function, None, entry.reason))
    return entry.program, entry.structure


def _given(number: TracedNumber) -> Any:
    """What the function gets for a number: itself if it is part of the key already."""
    return number.read() if number.was_read else number


def _with_zero_gradients(results: list[Any], unused: list[Any]) -> list[Any]:
    """Results that give arguments which they do not depend on a gradient of zero."""
    idle = [x for x in unused if x.requires_grad]
    first = next((i for i, x in enumerate(results) if x.requires_grad), None)
    if not idle or first is None:
        return results

    def gradients(grad: Tensor) -> list[Tensor]:
        return [grad, *(Tensor.zeros(x.shape, x.dtype, x.device) for x in idle)]

    tied = apply_op(
        lambda value, *_: value.alias(value.shape),
        gradients, results[first], *idle, op_name="unused", saves=(),
    )  # fmt: skip
    return [*results[:first], tied, *results[first + 1 :]]


def jit_compile(fn: Callable[..., Any] | None = None, *, strict: bool = False) -> Any:
    """Fuse a function of ops: elementwise chains become one forward and one backward kernel.

    Args:
        fn: The function. Its tensors may be positional, keyword, or inside tuples, lists and
            dicts, and so may its results. Without it: a decorator with options.
        strict: Raise FusionError where something is not fused, instead of a warning.

    Returns:
        A callable with `explain`, `lower`, `cache_info` and `clear_cache`. The function
        runs once per new combination of shapes, dtypes, devices and static arguments; its
        side effects happen then and not later. Numbers that only meet tensors may vary freely.
    """
    if fn is None:
        return lambda function: Jitted(function, strict)
    return fn if isinstance(fn, Jitted) else Jitted(fn, strict)
