"""TrainingGraphCompiler: training patterns to register, and to ask what they do to a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import Device, Spec
from netcl_core.autograd import TraceNode
from netcl_core.inspect.programs import Jitted, Program, TracedNumber, traced
from netcl_plugin_patterns.records import TrainingPattern, wrong
from netcl_plugin_patterns.rewriting import Replacement
from netcl_plugin_patterns.rows import REGISTERED_ROWS, OwnRows, PatternRows


@final
@dataclass(frozen=True, eq=False, slots=True)
class PatternPlan:
    """What a pattern computes in a function; `str` makes a readable text.

    >>> group = ag.MatchedOp("log", (ag.MatchedOp("sigmoid", ("x",)),))
    >>> planner = lambda x: ag.neg(ag.softplus(ag.neg(x)))
    >>> compiler = ag.get_training_compiler()
    >>> compiler.register(ag.TrainingPattern("log_sigmoid", group, planner))
    >>> plan = compiler.plan(lambda x: ag.log(ag.sigmoid(x)), nc.ones(3))
    >>> plan.ops, plan.captured["x"].shape
    (('sigmoid', 'log'), (3,))
    >>> compiler.unregister("log_sigmoid")

    Attributes:
        pattern: The pattern.
        provider: The distribution that brings it, `user` for what was registered by hand.
        ops: The ops that it takes the place of.
        captured: By name what it takes from outside: a Spec for a tensor, else the value.
        values: The shape and dtype of each value that it gives.
        device: Where.
        launches: How many kernels the forward launches; they may do other ops of the function
            as well.
        sources: These kernels as they are built.
    """

    pattern: TrainingPattern
    provider: str
    ops: tuple[str, ...]
    captured: Mapping[str, Any]
    values: tuple[Spec, ...]
    device: Device
    launches: int
    sources: tuple[str, ...]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_shown(x)}" for name, x in self.captured.items())
        return (
            f"{self.pattern.name} ({self.provider}) in place of {' -> '.join(self.ops)}: "
            f"{given} => {', '.join(map(_shown, self.values))}, {self.launches} launches"
        )


def _shown(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if isinstance(x, Spec) else repr(x)


@final
class TrainingGraphCompiler:
    """Training patterns that apply to compiled functions.

    `ag.TrainingGraphCompiler()` is the one of the process, as is `ag.get_training_compiler()`: it
    has the patterns of all plugins, and what it registers applies to every compiled function.
    `TrainingGraphCompiler.private()` has nothing but what is registered with it, and applies to
    functions compiled with it.

    >>> group = ag.MatchedOp("mul", (ag.MatchedOp("add", ("x", "y")), 0.5))
    >>> def plan(x, y):
    ...     return ag.mul(ag.add(y, x), 0.5)
    >>> compiler = ag.TrainingGraphCompiler.private()
    >>> compiler.register(ag.TrainingPattern("mean_of_two", group, plan))
    >>> mean = ag.jit_compile(lambda x, y: (x + y) * 0.5, patterns=compiler)
    >>> mean(nc.tensor([1.0]), nc.tensor([4.0])).item()
    2.5
    >>> print(compiler.plan(mean, nc.tensor([1.0]), nc.tensor([4.0])))
    mean_of_two (user) in place of add -> mul: x=float32[1], y=float32[1] => float32[1], 1 launches
    """

    _rows: PatternRows

    def __new__(cls) -> TrainingGraphCompiler:
        return _PROCESS

    @staticmethod
    def private() -> TrainingGraphCompiler:
        """A compiler with nothing but what is registered with it."""
        return _compiler_of(OwnRows())

    def __reduce__(self) -> Any:
        return _compiler_of, (self._rows,)

    @property
    def rows(self) -> PatternRows:
        """The patterns with their providers, for jit_compile."""
        return self._rows

    @property
    def patterns(self) -> tuple[TrainingPattern, ...]:
        """All its patterns."""
        return tuple(row.record for row in self._rows.all())

    def register(self, pattern: TrainingPattern, *, override: bool = False) -> None:
        """Let a pattern apply from now on, also to functions that have run before.

        A pattern of the user's own goes before those of plugins. Raises RegistrationError if the
        name is taken and `override` is not set.
        """
        self._rows.add(pattern, override)

    def unregister(self, name: str) -> None:
        """Forget a pattern that `register` was given; raises RegistrationError for any other."""
        self._rows.remove(name)

    def match(self, *args: Any, **kwargs: Any) -> TrainingPattern | None:
        """The first pattern that applies; None if none does.

        `match(function, *args)` asks for a function with these arguments. `match(*values)` asks
        the patterns whose matcher takes values: the first that says True.

        Raises FusionError if the function cannot be traced.
        """
        if not _is_function(args):
            rows = (row.record for row in self._rows.all())
            return next((row for row in rows if row.accepts(*args, **kwargs)), None)
        function, args = args[0], args[1:]
        replacement = next(iter(self._applied(function, args, kwargs).trace.applied), None)
        return None if replacement is None else replacement.match.pattern

    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """What that pattern computes there; None if none applies.

        `plan(function, *args)` is a PatternPlan; `plan(*values)` what the planner makes of values.

        Raises FusionError if the function cannot be traced.
        """
        if not _is_function(args):
            pattern = self.match(*args, **kwargs)
            return None if pattern is None else pattern.planner(*args, **kwargs)
        function, args = args[0], args[1:]
        program = self._applied(function, args, kwargs)
        replacement = next(iter(program.trace.applied), None)
        return None if replacement is None else _plan(replacement, program)

    def _applied(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Program:
        given = function.__wrapped__ if isinstance(function, Jitted) else function
        return traced(Jitted(given, False, self._rows), args, kwargs)[0]


def _plan(replacement: Replacement, program: Program) -> PatternPlan:
    match = replacement.match
    steps = [
        step
        for step in program.steps
        if any(node.replaced is replacement for node in step.unit.nodes)
    ]
    device = match.root.device
    assert device is not None  # its operands lie there
    return PatternPlan(
        match.pattern,
        match.row.provider,
        match.ops,
        {name: _spec(x) for name, x in match.captured.items()},
        tuple([Spec(root._shape, root.dtype) for root in match.roots]),
        device,
        sum(step.launches for step in steps),
        tuple(text for step in steps for text in step.sources),
    )


def _spec(x: Any) -> Any:
    if isinstance(x, TraceNode):
        return Spec(x._shape, x.dtype)
    return x.read() if type(x) is TracedNumber else x


def _is_function(args: Sequence[Any]) -> bool:
    return bool(args) and callable(args[0])


def _compiler_of(rows: PatternRows) -> TrainingGraphCompiler:
    if rows is REGISTERED_ROWS and "_PROCESS" in globals():
        return _PROCESS
    compiler = object.__new__(TrainingGraphCompiler)
    compiler._rows = rows
    return compiler


_PROCESS: Final = _compiler_of(REGISTERED_ROWS)


def planned(name: str, *values: Any, **options: Any) -> Any:
    """What the planner of a pattern makes of values; None where its matcher does not accept them.

    >>> def alike(x, y):
    ...     return x.shape == y.shape
    >>> halves = ag.TrainingPattern("halves", alike, lambda x, y: (x + y) / 2)
    >>> ag.get_training_compiler().register(halves)
    >>> ag.planned("halves", nc.tensor([1.0]), nc.tensor([4.0])).item()
    2.5

    Raises RegistrationError for a name that no pattern has.
    """
    for row in REGISTERED_ROWS.all():
        if row.record.name == name:
            pattern = row.record
            fits = pattern.accepts(*values, **options)
            return pattern.planner(*values, **options) if fits else None
    raise wrong("planned", f"the pattern {name!r}", "the name of a registered one")


def get_training_compiler() -> TrainingGraphCompiler:
    """The training patterns of the process: all plugins', and what was registered with it.

    >>> ag.get_training_compiler() is ag.get_training_compiler()
    True
    """
    return _PROCESS
