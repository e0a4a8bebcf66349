"""jit_compile: a Python function of ops becomes a program of fused kernels.

The first call with new shapes, dtypes or static arguments traces the function; later
ones look the program up and run it. What cannot be traced runs as it stands.
"""

from __future__ import annotations

import functools
import sys
import types
import warnings
from collections import namedtuple
from collections.abc import Callable
from copy import deepcopy
from pickle import PicklingError
from typing import Any, final

from netcl_core.errors import FusionError, FusionSkipped, message
from netcl_core.hardware.device_table import default_device
from netcl_core.jit.arguments import Arguments, Structure, restored
from netcl_core.jit.entries import MAX_PROGRAMS, Entry, ProgramCache
from netcl_core.jit.program import FUSION, Program
from netcl_core.jit.trace import Patterns, Trace
from netcl_core.ops.public_function import circumstances
from netcl_core.plugins.manager import namespace
from netcl_core.plugins.registry import registry
from netcl_core.tape.apply import apply
from netcl_core.tape.state import process, thread
from netcl_core.tape.trace_node import TraceBreak
from netcl_core.tensors.tensor import Tensor

CacheInfo = namedtuple("CacheInfo", "hits misses maxsize currsize")


@final
class Jitted:
    """A compiled function: call it as the function that it wraps.

    Attributes:
        parts: Those in which it runs where it cannot be fused as a whole; None: there are none yet.
    """

    __wrapped__: Callable[..., Any]

    def __init__(
        self, function: Callable[..., Any], strict: bool, patterns: Patterns | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.strict = strict
        self.patterns = patterns
        self._function = function
        self._entries = ProgramCache()
        self.parts: Any = None
        self._any_sizes = ProgramCache()  # of entries for any sizes, by the arguments' signature
        #: Calls like those for which parts were given up, so that they cost nothing more.
        self._plain: set[Any] = set()
        self._hits = self._misses = 0
        #: Whether nothing (more) is said of what is not fused.
        self.quiet = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<jit_compile of {self._function!r}>"

    def __copy__(self) -> Jitted:
        return Jitted(self._function, self.strict, self.patterns)

    def __deepcopy__(self, memo: dict[int, Any]) -> Jitted:
        """The same function, of a bound method that of the copied object, with no programs yet."""
        copied = memo[id(self)] = object.__new__(Jitted)
        copied.__init__(deepcopy(self._function, memo), self.strict, self.patterns)
        return copied

    def __reduce__(self) -> Any:
        """By name: its own if it stands there (a decorated function), else its function's."""
        function = self._function
        anew = Jitted, (function, self.strict, self.patterns)
        if not isinstance(function, types.FunctionType):
            return anew  # a bound method, an object: pickle knows
        there = _at(function.__module__, function.__qualname__)
        if there is self:
            return function.__qualname__
        if there is not function:
            raise PicklingError(
                message(
                    f"pickle of {self!r}",
                    f"{function.__module__}.{function.__qualname__} is not this function",
                    "a function that can be imported by its name",
                    "Define it at the top of a module or in a class there",
                )
            )
        return anew

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if thread.tracer is not None:  # part of another function's program
            return self._function(*args, **kwargs)
        if self._plain and not kwargs and _likeness(args) in self._plain:
            return self._function(*args)
        try:
            given = Arguments(args, kwargs)
        except TraceBreak as reason:
            self._skip(reason)
            return self._function(*args, **kwargs)
        entry = self._entries.find(self._base(given), given.facts)
        if entry is None:
            self._misses += 1
            entry = self._resized(given)
        else:
            self._hits += 1
        if entry is None:
            return self._traced_call(given, args, kwargs)
        if not entry.told:
            self._tell(entry)
        return self._run(entry, given, args, kwargs)

    def _run(self, entry: Entry, given: Arguments, args: Any, kwargs: Any) -> Any:
        program = entry.program
        if program is None and entry.in_parts:
            device = given.tensors[0].device if given.tensors else default_device()
            parts = self.parts = self.parts or registry.space(FUSION).Parts()
            trial = entry.trial = entry.trial or parts.trial()
            if trial.verdict is not None and not kwargs and len(self._plain) < MAX_PROGRAMS:
                self._plain.add(_likeness(args))
            return parts.run(self._function, args, kwargs, trial, device)
        if program is None:
            return self._function(*args, **kwargs)
        direct = program.direct
        if direct is not None and entry.structure[0] == "tensor":
            return apply(direct.call, given.tensors, direct.scalars.given(given.numbers))
        return restored(entry.structure, program.run(given.tensors, given.numbers))

    # -- the cache -----------------------------------------------------------------

    def _base(self, given: Arguments, signature: Any = None) -> Any:
        """What a program depends on in any case: arguments, grad mode, `prefer`, amp, the device.

        It may depend on some of the facts too. `signature`: in place of the arguments' key.
        """
        key = given.key if signature is None else signature
        mode = process.grad if thread.grad is None else thread.grad
        amp = None if thread.amp is None else thread.amp.policy
        version = None if self.patterns is None else self.patterns.version
        return key, mode, amp, version, circumstances(given.tensors)

    def _resized(self, given: Arguments) -> Entry | None:
        """The entry of a program for other sizes, fitted to these."""
        signature, sizes = given.signature()
        pattern = self._any_sizes.find(
            self._base(given, signature), lambda: [*given.facts(), *sizes]
        )
        entry = None if pattern is None else pattern.resized(sizes)
        if entry is not None:
            self._entries.keep(self._base(given), given.facts(), entry.reads, entry)
        return entry

    def _keep(self, given: Arguments, entry: Entry) -> None:
        self._entries.keep(self._base(given), given.facts(), entry.reads, entry)
        if entry.program is not None and entry.program.any_sizes:
            signature, sizes = given.signature()
            facts = given.facts()
            reads = entry.reads | {len(facts) + i for i in entry.fixed}
            self._any_sizes.keep(self._base(given, signature), [*facts, *sizes], reads, entry)

    def cache_info(self) -> CacheInfo:
        """Hits, misses, the largest number of programs, and how many there are."""
        return CacheInfo(self._hits, self._misses, MAX_PROGRAMS, len(self._entries))

    def clear_cache(self) -> None:
        """Forget all programs and the counts."""
        self._entries.clear()
        self._any_sizes.clear()
        self.parts = None
        self._plain.clear()
        self._hits = self._misses = 0

    # -- tracing -------------------------------------------------------------------

    def _traced_call(self, given: Arguments, args: Any, kwargs: Any) -> Any:
        """A first call: traced and then run, or, where that is impossible, run as it stands.

        The function runs once: where the trace cannot go on it does, with data. `strict` ends
        it there instead.
        """
        trace = self._trace(given, not self.strict).run(args, kwargs)
        if trace.error is not None and not trace.suspect:
            raise trace.error
        entry, result = trace.entry, trace.result
        if trace.error is not None:
            result = self._function(*args, **kwargs)
        self._tell(entry)
        self._keep(given, entry)
        if trace.ran or trace.error is not None:
            return result
        return self._run(entry, given, args, kwargs)

    def _trace(self, given: Arguments, resumes: bool) -> Trace:
        return Trace(self._function, given, resumes, self.patterns)

    def _tell(self, entry: Entry) -> None:
        """Say what of an entry is not fused, on its first call."""
        who = "jit_compile(strict=True)"
        fusion = namespace(FUSION, who) if self.strict else registry.space(FUSION)
        reason = entry.reason or (entry.program and fusion and fusion.skipped(entry.program))
        if reason:
            self._skip(reason, entry.in_parts)
        entry.told = True

    def _skip(self, reason: TraceBreak, in_parts: bool = False) -> None:
        """Say once what was not fused; with `strict` raise it."""
        how = "fused in parts" if in_parts else "not fused"
        text = message(
            f"jit_compile of {name_of(self)}",
            reason.told,
            "",
            f"The result is right, but {how}; .explain(...) says more",
        )
        if self.strict:
            raise FusionError(text)
        if not self.quiet:
            self.quiet = True
            warnings.warn(text, FusionSkipped, stacklevel=4)

    # -- what it did ---------------------------------------------------------------

    def _entry(self, args: Any, kwargs: Any) -> Entry:
        """The entry that a call with these arguments uses; raises TraceBreak."""
        given = Arguments(args, kwargs)
        entry = self._entries.find(self._base(given), given.facts) or self._resized(given)
        if entry is not None:
            return entry
        trace = self._trace(given, False).run(args, kwargs)
        if trace.error is not None and not trace.suspect:
            raise trace.error
        if trace.entry.program is not None:
            self._keep(given, trace.entry)
        return trace.entry

    def explain(self, *args: Any, **kwargs: Any) -> str:
        """Which ops share a kernel, which do not and why, for these arguments."""
        text: str = namespace(FUSION, "explain").explain(self, args, kwargs)
        return text

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The rendered sources and the number of launches for these arguments.

        Raises FusionError if the function cannot be traced.
        """
        return namespace(FUSION, "lower").lower(traced(self, args, kwargs)[0])


def name_of(jitted: Jitted) -> str:
    """What the function is called where it was written."""
    return getattr(jitted._function, "__qualname__", repr(jitted._function))


def entry_of(jitted: Jitted, args: Any, kwargs: Any) -> Entry:
    """What a call with these arguments uses; raises TraceBreak."""
    return jitted._entry(args, kwargs)


def unfused(jitted: Jitted, reason: TraceBreak, policy: str = "") -> str:
    """The text for a function of which nothing is fused."""
    return f"{name_of(jitted)}{policy}: not fused, it runs op by op\n  {reason.told}"


def traced(jitted: Jitted, args: Any, kwargs: Any) -> tuple[Program, Structure]:
    """The program for these arguments, and how the function's results are put together.

    Raises FusionError that says why there is none.
    """
    try:
        entry = entry_of(jitted, args, kwargs)
    except TraceBreak as reason:
        raise FusionError(unfused(jitted, reason)) from None
    if entry.program is None:
        assert entry.reason is not None  # there is either a program or a reason
        text = f"{name_of(jitted)}: no single program is it; .explain(...) shows how it runs"
        raise FusionError(f"{text}\n  {entry.reason.told}")
    return entry.program, entry.structure


def _likeness(args: Any) -> Any:
    """What decides whether parts pay, as far as a glance tells."""
    mode = process.grad if thread.grad is None else thread.grad
    return mode, *[
        (x.shape, x.requires_grad) if isinstance(x, Tensor) else x.__class__ for x in args
    ]


def _at(module: str | None, path: str) -> Any:
    """What stands at a dotted path of a module; None: nothing."""
    value: Any = sys.modules.get(module or "")
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def jit_compile(
    fn: Callable[..., Any] | None = None,
    *,
    strict: bool = False,
    patterns: Any = None,
) -> Any:
    """Fuse a function of ops: elementwise chains become one forward and one backward kernel.

    >>> chain = ag.jit_compile(lambda x: ag.tanh(x) * 2 + 1)
    >>> x = nc.tensor([0.0, 0.0])
    >>> chain(x).numpy(), chain.lower(x).launches
    (array([1., 1.], dtype=float32), 1)

    Args:
        fn: The function. Its tensors may be positional, keyword, or inside tuples, lists and
            dicts, and so may its results. Without it: a decorator with options.
        strict: Raise FusionError where something is not fused, instead of a warning.
        patterns: A `TrainingGraphCompiler`, whose training patterns may apply; default: all that
            are registered.

    Returns:
        A callable with `explain`, `lower`, `cache_info` and `clear_cache`. The function
        runs once per new combination of shapes, dtypes, devices and static arguments; its
        side effects happen then and not later. Numbers that only meet tensors may vary freely.
    """
    if fn is None:
        return lambda function: jit_compile(function, strict=strict, patterns=patterns)
    if isinstance(fn, Jitted):
        return fn
    return Jitted(fn, strict, None if patterns is None else patterns.rows)
