"""One case: each peer's work is made, its results are checked, and what is right is timed."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, final

import numpy as np
from netcl_plugin_kit.timing import Clock, Timed, best_times

from harness.cases import Array, Maker, RaceCase, RaceLimit, RaceWork
from harness.peers import PEERS, Peer
from harness.records import RaceOutcome, RaceResult, State
from netcl_core import Device


def off_by(actual: Sequence[Any], right: Sequence[Array], by_norm: bool = False) -> float:
    """The largest difference of results in parts of the largest element of the right one.

    >>> off_by([np.array([1.0, 2.5])], [np.array([1.0, 2.0])])
    0.25

    By norm a difference counts in parts of the right result's norm, or of a hundredth of the
    largest norm of all. Infinite where the shapes differ or something is not finite.
    """
    if len(actual) != len(right):
        return math.inf
    size = _norm if by_norm else _largest
    sizes = [size(np.asarray(values, np.float64)) for values in right]
    least = max(sizes, default=0.0) / 100 if by_norm else 0.0
    parts = zip(actual, right, sizes, strict=True)
    return max((_difference(*part[:2], size, max(part[2], least)) for part in parts), default=0.0)


def _norm(values: Array) -> float:
    return float(np.linalg.norm(values))


def _largest(values: Array) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


def _difference(actual: Any, right: Array, size: Callable[[Array], float], scale: float) -> float:
    given, wanted = (np.asarray(values, np.float64) for values in (actual, right))
    if given.shape != wanted.shape:
        return math.inf
    off = size(given - wanted) / (scale or 1.0)
    return off if math.isfinite(off) else math.inf


def run_case(
    item: str,
    case: RaceCase,
    device: Device,
    absent: Mapping[str, str],
    budget: float,
    *,
    peers: Mapping[str, Peer] = PEERS,
    clock: Clock = time.perf_counter,
) -> RaceResult:
    """Make, check and time.

    Args:
        item: What the case belongs to.
        case: The case.
        device: The device of netcl.
        absent: Peer -> why it cannot be used here, or empty; no other takes part.
        budget: Seconds for the rounds.
        peers: How each of them is waited for.
        clock: What time is read from.
    """
    needs, right = case.needs, None
    if not needs and case.reference is not None:
        try:
            right = case.reference()
        except Exception as error:
            needs = f"needs its reference, which raised {_told(error)}"
    if needs:
        return RaceResult(item, case.name, {}, needs=needs)
    try:
        return _RaceRun(device, absent, peers).result(item, case, right, budget, clock)
    finally:
        gc.collect()


@final
class _RaceRun:
    def __init__(
        self, device: Device, absent: Mapping[str, str], peers: Mapping[str, Peer]
    ) -> None:
        self.device, self.absent, self.peers = device, absent, peers
        self.outcomes: dict[str, RaceOutcome] = {}

    def result(
        self,
        item: str,
        case: RaceCase,
        right: Sequence[Array] | None,
        budget: float,
        clock: Clock,
    ) -> RaceResult:
        works = self._checked(case, right, self._made(case.makers))
        limits = self._limits(case.limit)
        timed = {("peer", name): self._timed(name, work) for name, work in works.items()}
        timed |= {("limit", name): self._timed(name, work) for name, work in limits.items()}
        best, failed = best_times(timed, budget, clock)
        for name in works:
            self._end_timed(name, best.get(("peer", name)), failed.get(("peer", name)))
        outcomes = {name: self.outcomes[name] for name in self.absent if name in self.outcomes}
        limit = [seconds for (role, _), seconds in best.items() if role == "limit"]
        if case.limit is None or not limit:
            return RaceResult(item, case.name, outcomes)
        return RaceResult(item, case.name, outcomes, case.limit.name, min(limit) * case.limit.scale)

    def _end(self, name: str, state: State, note: str, seconds: float | None = None) -> None:
        self.outcomes[name] = RaceOutcome(state, self.peers[name].ours, seconds, note)

    def _end_timed(self, name: str, seconds: float | None, error: Exception | None) -> None:
        if error is None:
            self._end(name, "timed", "", seconds)
        else:
            self._end(name, "failed", _told(error))

    def _made(self, makers: Mapping[str, Maker]) -> dict[str, RaceWork]:
        """The work of each that is here; a library may raise anything, and the others go on."""
        by_name = {}
        for name, why in self.absent.items():
            if name not in makers:
                continue
            if why:
                self._end(name, "absent", why)
                continue
            try:
                by_name[name] = makers[name](self.device)
            except Exception as error:
                self._end(name, "failed", _told(error))
        return by_name

    def _checked(
        self, case: RaceCase, right: Sequence[Array] | None, works: Mapping[str, RaceWork]
    ) -> dict[str, RaceWork]:
        """Those whose results are right; without a reference the first one's are."""
        passed = {}
        for name, work in works.items():
            try:
                results = work.results()
            except Exception as error:
                self._end(name, "failed", _told(error))
                continue
            right = results if right is None else right
            off = off_by(results, right, case.by_norm)
            if off <= case.tolerance:
                passed[name] = work
            else:
                self._end(name, "wrong", f"off by {off:.1e}, at most {case.tolerance:.0e}")
        return passed

    def _limits(self, limit: RaceLimit | None) -> dict[str, RaceWork]:
        """What makes the limit, of those that are here and able to."""
        by_name = {}
        for name, maker in ({} if limit is None else limit.makers).items():
            if self.absent.get(name) == "":
                with suppress(Exception):  # such as no memory for a copy; others make it, too
                    by_name[name] = maker(self.device)
        return by_name

    def _timed(self, name: str, work: RaceWork) -> Timed:
        wait = self.peers[name].waiting(self.device)
        return Timed(work.call, wait, each=self.device.kind != "gpu")


def _told(error: Exception) -> str:
    """An error's class and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
