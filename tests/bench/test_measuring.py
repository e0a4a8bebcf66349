"""Measuring and checking, by a clock that only the fake peers move."""

from __future__ import annotations

import math
from dataclasses import replace

import fakes
import numpy as np
import pytest
from harness.cases import RaceCase, RaceLimit, RaceWork
from harness.records import RaceResult
from harness.running import off_by, run_case
from netcl_plugin_kit.timing import Timed, best_times

import netcl_core as nc


def run(case: RaceCase, clock: fakes.Clock, absent: dict[str, str] | None = None) -> RaceResult:
    peers = fakes.peers_of(clock, mine=True, other=False, third=False)
    given = absent or dict.fromkeys(peers, "")
    return run_case("item", case, nc.get_device("numpy"), given, 1.0, peers=peers, clock=clock)


# -- time --------------------------------------------------------------------------------


def test_the_best_of_several_rounds_counts() -> None:
    clock = fakes.Clock()
    slow = [0.1] * 4 + [0.1, 0.02, 0.3, 0.3]
    found, failed = best_times({"a": Timed(clock.taking("a", slow), len, True)}, 0.5, clock)
    assert not failed and found["a"] == pytest.approx(0.02)


def test_all_take_turns() -> None:
    clock = fakes.Clock()
    two = {name: Timed(clock.taking(name, [1.0]), len, True) for name in "ab"}
    best_times(two, 4.0, clock)
    assert "".join(clock.calls) == "aaaa" + "bbbb" + "ab" * 3


def test_the_budget_ends_the_rounds_but_three() -> None:
    clock = fakes.Clock()
    best_times({"a": Timed(clock.taking("a", [0.01]), len, True)}, 1.0, clock)
    assert clock.now == pytest.approx(1.04, abs=0.02)


@pytest.mark.parametrize(
    ("each", "calls", "waits"), [(True, 4 + 3 * 45, 4 + 3 * 45), (False, 4 + 3 * 41, 2 + 3)]
)
def test_short_calls_are_timed_in_stretches(each: bool, calls: int, waits: int) -> None:
    """Nine of five calls a turn; one of 41 where a stretch ends with a wait."""
    clock = fakes.Clock()
    timed = Timed(clock.taking("a", [2**-13]), clock.waits.append, each)
    found, _ = best_times({"a": timed}, 1e-4, clock)
    assert (len(clock.calls), len(clock.waits), found["a"]) == (calls, waits, 2**-13)


def test_one_undisturbed_stretch_is_enough() -> None:
    clock = fakes.Clock()
    times = [2**-10] * 4 + [2**-8] * 16 + [2**-10, 2**-8]
    found, _ = best_times({"a": Timed(clock.taking("a", times), len, True)}, 1e-4, clock)
    assert found["a"] == 2**-10


@pytest.mark.parametrize(("each", "waits"), [(True, 8), (False, 4)])
def test_a_stretch_waits_for_each_call_or_for_the_last(each: bool, waits: int) -> None:
    clock = fakes.Clock()
    timed = Timed(clock.taking("a", [1.0]), clock.waits.append, each)
    for _ in range(4):
        timed.stretch(2, clock)
    assert clock.waits == ["a"] * waits


def test_one_that_fails_in_the_middle_leaves_the_others_alone() -> None:
    clock = fakes.Clock()
    calls = iter(range(5))
    error = RuntimeError("lost")

    def call() -> None:
        if next(calls, None) is None:
            raise error

    good = Timed(clock.taking("good", [1.0]), len, True)
    bad = Timed(call, lambda result: None, True)
    found, failed = best_times({"bad": bad, "good": good}, 1.0, clock)
    assert found == {"good": 1.0} and failed == {"bad": error}


# -- results -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "right", "off"),
    [
        ([[1.0, 2.5]], [[1.0, 2.0]], 0.25),
        ([[0.0]], [[0.0]], 0.0),
        ([[0.5]], [[0.0]], 0.5),
        ([[]], [[]], 0.0),
        ([[1.0], [3.0]], [[1.0], [2.0]], 0.5),
        ([[1.0]], [[1.0, 1.0]], math.inf),
        ([[1.0]], [[1.0], [1.0]], math.inf),
        ([[math.nan]], [[1.0]], math.inf),
        ([[math.inf]], [[1.0]], math.inf),
    ],
)
def test_how_far_results_are_off(
    found: list[list[float]], right: list[list[float]], off: float
) -> None:
    assert off_by([np.array(each) for each in found], [np.array(each) for each in right]) == off


# -- a case ------------------------------------------------------------------------------


def test_ratios_of_a_case() -> None:
    clock = fakes.Clock()
    limit = RaceLimit("copy", {"other": fakes.maker(clock.taking("limit", [0.5]))}, 0.5)
    found = run(fakes.case(clock, {"mine": 1.0, "other": 4.0, "third": 2.0}, limit=limit), clock)
    assert {name: each.seconds for name, each in found.outcomes.items()} == {
        "mine": 1.0, "other": 4.0, "third": 2.0,
    }  # fmt: skip
    assert (found.best(True), found.best(False), found.ratio()) == ("mine", "third", 0.5)
    assert (found.limit, found.limit_seconds, found.of_limit()) == ("copy", 0.25, 4.0)
    assert found.troubles() == []


def test_a_limit_that_cannot_be_had_is_left_out() -> None:
    clock = fakes.Clock()
    makers = {"other": fakes.raising(MemoryError()), "third": fakes.maker(fakes.raising(OSError()))}
    found = run(fakes.case(clock, {"mine": 1.0}, limit=RaceLimit("copy", makers)), clock)
    assert (found.limit, found.limit_seconds, found.of_limit()) == ("", None, None)
    assert found.outcomes["mine"].seconds == 1.0


def test_who_is_absent_is_neither_made_nor_waited_for() -> None:
    clock = fakes.Clock()
    case = fakes.case(clock, {"mine": 1.0, "other": 1.0, "third": 1.0})
    found = run(case, clock, {"mine": "", "third": "not installed"})
    assert set(clock.calls) == {"mine"}
    assert [*found.outcomes] == ["mine", "third"]
    third = found.outcomes["third"]
    assert (third.state, third.seconds, third.note) == ("absent", None, "not installed")
    assert found.ratio() is None and found.troubles() == []


@pytest.mark.parametrize("where", ["make", "results", "call"])
@pytest.mark.parametrize("who", ["mine", "other"])
def test_a_peer_that_fails_is_reported(where: str, who: str) -> None:
    clock, fails = fakes.Clock(), fakes.raising(ValueError("first line\nsecond"))
    right = fakes.maker(lambda: None, [1.0, 2.0])
    broken = {
        "make": fails,
        "results": lambda device: RaceWork(lambda: None, fails),
        "call": lambda device: replace(right(device), call=fails),
    }
    case = fakes.case(clock, {"mine": 1.0, "other": 1.0, "third": 1.0})
    found = run(replace(case, makers={**case.makers, who: broken[where]}), clock)
    states = {name: each.state for name, each in found.outcomes.items()}
    assert states == {**dict.fromkeys(("mine", "other", "third"), "timed"), who: "failed"}
    assert found.outcomes[who].note == "ValueError: first line"
    wanted = ["item/fake: mine failed: ValueError: first line"] if who == "mine" else []
    assert found.troubles() == wanted


def test_one_with_wrong_results_is_not_timed() -> None:
    clock = fakes.Clock()
    case = fakes.case(clock, {"mine": 1.0, "third": 1.0})
    wrong = fakes.maker(clock.taking("other", [0.1]), [1.0, 2.1])
    found = run(replace(case, makers={**case.makers, "other": wrong}), clock)
    assert "other" not in clock.calls
    assert found.outcomes["other"].state == "wrong"
    assert found.outcomes["other"].note == "off by 5.0e-02, at most 1e-05"


def test_without_a_reference_the_first_one_is_it() -> None:
    clock = fakes.Clock()
    case = fakes.case(clock, {"mine": 1.0, "third": 1.0}, reference=None)
    wrong = fakes.maker(clock.taking("other", [1.0]), [2.0, 2.0])
    found = run(replace(case, makers={**case.makers, "other": wrong}), clock)
    states = [each.state for each in found.outcomes.values()]
    assert states == ["timed", "wrong", "timed"]


def test_a_reference_that_fails_ends_its_case_alone() -> None:
    clock = fakes.Clock()
    case = fakes.case(clock, {"mine": 1.0}, reference=fakes.raising(MemoryError("too much")))
    found = run(case, clock)
    assert found.needs == "needs its reference, which raised MemoryError: too much"
    assert clock.calls == []


def test_a_case_that_needs_something_is_not_run() -> None:
    clock = fakes.Clock()
    found = run(replace(fakes.case(clock, {"mine": 1.0}), needs="needs conv2d"), clock)
    assert (found.needs, clock.calls, dict(found.outcomes)) == ("needs conv2d", [], {})
