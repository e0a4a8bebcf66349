"""Trials: the settings of one call measured in turn on its inputs, those that compute it right."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES
from netcl_core.autograd import Settings
from netcl_core.inspect.choices import Offered, Place, default_of, misfit
from netcl_core.inspect.data import Array
from netcl_core.inspect.streams import stream_of
from netcl_plugin_tools.tune.records import TuningRecord, write

#: Launches that take so long together are timed as one: a clock's step and a driver's hiccup
#: count little then.
_BATCH_S: Final = 0.003
_MOST: Final = 200
#: Round by round, how much slower than the fastest so far something may be to be timed again: one
#: time alone may be another program's fault.
_NEAR: Final = (10.0, 4.0, 2.0, 1.5, *(1.3,) * 6)
#: Of so many batches in a row the fastest counts.
_BATCHES: Final = 3
#: What is less faster than this is noise, and no reason to leave the default.
_WORTH: Final = 1.03
#: Sums in another order differ by less than this power of the dtype's epsilon, beside the largest.
_ALIKE: Final = 2 / 3
_BYTE: Final = DTYPES["uint8"]


@final
@dataclass(eq=False, slots=True)
class TriedSettings:
    """Settings in a trial: their best time in seconds, or why they have none.

    Attributes:
        fault: Why they are out: they raise, or compute something else than the default.
        same: Whether they launch what others do that were tried before.
    """

    settings: Settings
    seconds: float = math.inf
    fault: str = ""
    same: bool = False
    run: Any = None


@final
@dataclass(eq=False)
class TuningTrial:
    """One call's settings, the default first, and what was measured of them.

    Attributes:
        offered: The call, with its inputs.
        interrupted: Whether Ctrl-C ended it.
        left: How many combinations that fit were not tried: the budget was spent.
    """

    offered: Offered
    contenders: list[TriedSettings] = field(default_factory=list)
    interrupted: bool = False
    left: int = 0

    @property
    def place(self) -> Place:
        """What a record would be for."""
        return self.offered.place

    @property
    def default(self) -> TriedSettings:
        """The default's."""
        return self.contenders[0]

    @property
    def best(self) -> TriedSettings:
        """The fastest; the default where nothing is faster by more than noise."""
        fastest = min(self.contenders, key=lambda each: each.seconds)
        return fastest if self.gain_of(fastest) >= _WORTH else self.default

    def gain_of(self, one: TriedSettings) -> float:
        """How many times as fast as the default; 0 for what was not measured."""
        return self.default.seconds / one.seconds if math.isfinite(one.seconds) else 0.0

    def measure(
        self, budget: float, told: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Try combination after combination, then the best again, for some seconds.

        `told` hears how many combinations were tried, and how many there are.
        """
        end = time.perf_counter() + budget
        try:
            self._try_all(end, told)
            self._repeat(end)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            for contender in self.contenders:
                contender.run = None

    def record(self) -> TuningRecord | None:
        """Keep what was found; None if there was nothing to compare."""
        measured = [contender for contender in self.contenders if math.isfinite(contender.seconds)]
        if len(measured) < 2 or self.default not in measured:
            return None
        best = self.best
        return write(self.place, best.settings, self.gain_of(best))

    # -- how ---------------------------------------------------------------------------

    def _try_all(self, end: float, told: Callable[[int, int], None]) -> None:
        wanted: list[Array] = []
        buffers: dict[Any, list[Any]] = {}
        launched: set[Any] = set()
        candidates = list(self._candidates())
        for number, settings in enumerate(candidates):
            told(number, len(candidates))
            if number > 1 and time.perf_counter() > end:
                self.left = len(candidates) - number
                return
            one = TriedSettings(settings)
            self.contenders.append(one)
            try:
                one.run = _TunableRun(self.offered, settings, buffers)
                one.same = one.run.launched in launched
                if one.same:
                    continue
                launched.add(one.run.launched)
                results = one.run.checked()
            except Exception as error:  # a plugin's code may raise anything; it is shown
                one.fault = f"{type(error).__name__}: {error}".partition("\n")[0]
                if number == 0:
                    return
                continue
            wanted = wanted or results
            one.fault = _difference(results, wanted)
            if not one.fault:
                self._time(self.default)
                self._time(one)

    def _repeat(self, end: float) -> None:
        """Time the default and what is near the best again, in turn."""
        for near in _NEAR:
            fastest = min((contender.seconds for contender in self.contenders), default=math.inf)
            for contender in self.contenders:
                if contender is self.default or contender.seconds <= near * fastest:
                    if time.perf_counter() > end:
                        return
                    self._time(contender)

    def _time(self, one: TriedSettings) -> None:
        if not (one.fault or one.same):
            one.seconds = min(one.seconds, one.run.seconds())

    def _candidates(self) -> Iterator[Settings]:
        """The default, what differs from it in one name, and all others, as far as they fit."""
        call = self.offered.call
        space, request = call.implementation.space, call.request
        assert space is not None  # else nobody would try
        default = default_of(space, call.implementation, request)
        others = [combination for combination in space.combinations if combination != default]
        others.sort(key=lambda each: sum(each[name] != default[name] for name in each))
        yield default
        yield from (other for other in others if not misfit(space, request, other))


@final
class _TunableRun:
    """A call's kernels with some settings, ready to be launched again and again."""

    def __init__(self, offered: Offered, settings: Settings, buffers: dict[Any, list[Any]]) -> None:
        call = offered.call
        self._stream = stream_of(call.device)
        self._bound = call.bound_for(replace(call.request, settings=settings), offered.keep)
        self._specs = tuple(self._bound.outputs)
        if self._specs not in buffers:
            allocate = self._stream.allocate
            buffers[self._specs] = [allocate(x.size, DTYPES[x.dtype]) for x in self._specs]
        self._outputs = buffers[self._specs]
        self._inputs = [x.buffer for x in offered.inputs]
        self._results = len(call.results)
        self._times = 1

    @property
    def launched(self) -> Any:
        """What is equal where two settings lead to the same work; a host call's is its own."""
        launches = getattr(self._bound, "launches", None)
        if launches is None:
            return id(self._bound)
        return tuple([(x.kernel, x.global_size, x.local_size, *x.constants) for x in launches])

    def checked(self) -> list[Array]:
        """The results, in memory that held nothing of them before."""
        pairs = list(zip(self._outputs, self._specs, strict=True))
        for buffer, spec in pairs:
            self._stream.fill(buffer, spec.size * DTYPES[spec.dtype].itemsize, _BYTE, 255)
        self._bound(self._inputs, self._outputs)
        once = self._batch()
        self._times = max(1, min(_MOST, math.ceil(_BATCH_S / max(once, 1e-7))))
        return [
            self._stream.download(buffer, spec.size, DTYPES[spec.dtype])
            for buffer, spec in pairs[: self._results]
        ]

    def seconds(self) -> float:
        """How long one launch takes, on average over the fastest of some batches."""
        return min(self._batch() for _ in range(_BATCHES))

    def _batch(self) -> float:
        self._stream.finish()
        start = time.perf_counter()
        for _ in range(self._times):
            self._bound(self._inputs, self._outputs)
        self._stream.finish()
        return (time.perf_counter() - start) / self._times


def _difference(actual: Sequence[Array], wanted: Sequence[Array]) -> str:
    """In what results differ from the default's by more than rounding; empty: in nothing."""
    for number, (one, other) in enumerate(zip(actual, wanted, strict=True)):
        dtype = next(each for each in DTYPES.values() if each.numpy == other.dtype)
        if dtype.floating:
            given, right = one.astype(np.float64), other.astype(np.float64)
            scale = np.abs(right, where=np.isfinite(right), out=np.zeros_like(right)).max(initial=0)
            bound = float(dtype.limits.eps) ** _ALIKE * float(scale)
            same = np.allclose(given, right, rtol=0, atol=bound, equal_nan=True)
        else:
            same = np.array_equal(one, other)
        if not same:
            return f"result {number} differs from the default's"
    return ""
