"""Scopes entered again: nested, one after the other, in threads, and around suspended code."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, FusionError
from netcl_core.tape.modes import anomaly_mode
from netcl_core.tape.state import thread as state

on = ag.is_grad_enabled

#: How a scope of one thread is made, and what it changes there.
SCOPES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "no_grad": (ag.no_grad, on),
    "enable_grad": (ag.enable_grad, on),
    "detect_anomaly": (ag.detect_anomaly, anomaly_mode),
    "Tape": (ag.Tape, ag.get_current_tape),
    "use_device": (lambda: nc.use_device("numpy"), nc.default_device),
    "prefer": (lambda: nc.prefer("netcl-plugin-elementwise:add"), lambda: state.chosen),
}


@pytest.fixture(params=SCOPES)
def two(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any, Callable[[], Any]]]:
    """Two scopes where they are not in force, and what they change."""
    make, read = SCOPES[request.param]
    if nc.default_device().backend == "numpy" and request.param == "use_device":
        pytest.skip("there is no other device")
    if request.param == "enable_grad":
        with ag.no_grad():
            yield make(), make(), read
    else:
        one, other = make(), make()
        if request.param == "use_device":
            with other, one:  # which ends the plain calls
                pass
        yield one, other, read
    assert on()


def test_one_scope_twice(two: Any) -> None:
    one, _, read = two
    before = read()
    for _ in range(2):
        with one:
            inside = read()
            assert inside != before
            with pytest.raises(KeyError), one:
                raise KeyError
            assert read() == inside
        assert read() == before


def test_one_scope_in_two_threads(two: Any) -> None:
    """What is around it differs from one to the other, and comes back in each."""
    one, around, read = two
    before, seen = read(), []
    turn = threading.Barrier(2, timeout=30)

    def other() -> None:
        with around:
            outside = read()
            assert outside != before
            with one:
                inside = read()
                turn.wait()  # both are inside
                turn.wait()  # the other one has left
                seen.append(read() == inside)
            seen.append(read() == outside)

    worker = threading.Thread(target=other)
    with one:  # the first to come is the first to go
        worker.start()
        turn.wait()
    left = read()
    turn.wait()
    worker.join()
    assert left == read() == before
    assert seen == [True, True]


def test_set_grad_enabled_twice() -> None:
    mode = ag.set_grad_enabled(False)
    assert not on()
    for _ in range(2):
        with mode:
            assert not on()
            with mode:
                assert not on()
            assert not on()
        assert on()
    mode = ag.set_grad_enabled(False)
    ag.set_grad_enabled(True)
    with mode:
        assert not on()
    assert on()


def test_a_tracing_context_is_entered_once_at_a_time() -> None:
    context = ag.TracingContext()
    with context:
        with pytest.raises(FusionError, match="TracingContext: it is entered already"), context:
            pass
        assert state.tracer is context
    assert state.tracer is None
    with context:
        assert context.active
    assert not context.active


def test_a_tape_in_two_threads_records_for_both() -> None:
    tape = ag.Tape()
    x = nc.Tensor.ones((1,), requires_grad=True)
    turn = threading.Barrier(2, timeout=30)

    def other() -> None:
        with tape:
            turn.wait()
            ag.mul(x, 2)
            turn.wait()

    worker = threading.Thread(target=other)
    worker.start()
    with tape:
        turn.wait()
        ag.mul(x, 3)
        turn.wait()
    worker.join()
    assert len(tape.nodes) == 2


# -- suspended code --------------------------------------------------------------------


@pytest.mark.parametrize("decorator", [ag.no_grad, ag.no_grad()], ids=["bare", "called"])
def test_a_generator_holds_its_mode_while_it_runs(decorator: Any) -> None:
    seen = []

    @decorator
    def count(first: int) -> Any:
        """Numbers."""
        try:
            while True:
                seen.append(on())
                try:
                    first += (yield first, on()) or 1
                except KeyError:
                    seen.append(("caught", on()))
                if first > 9:
                    with ag.enable_grad():
                        yield "inside"
                    return "end"
        finally:
            seen.append(("closed", on()))

    assert inspect.isgeneratorfunction(count)
    assert (count.__name__, count.__doc__) == ("count", "Numbers.")
    numbers = count(1)
    assert seen == []
    assert next(numbers) == (1, False)
    assert on()
    assert numbers.send(5) == (6, False)
    assert on()
    assert numbers.throw(KeyError()) == (6, False)
    assert on()
    assert numbers.send(8) == "inside"
    assert on()
    with pytest.raises(StopIteration) as end:
        next(numbers)
    assert end.value.value == "end"
    assert seen == [False, False, ("caught", False), False, ("closed", False)]
    numbers = count(1)
    next(numbers)
    numbers.close()
    assert seen[-1] == ("closed", False)
    assert on()
    numbers = count(1)
    next(numbers)
    with pytest.raises(ZeroDivisionError):
        numbers.throw(ZeroDivisionError)
    assert on()


def test_coroutines_do_not_leave_their_mode_to_others() -> None:
    seen = []

    @ag.no_grad()
    async def evaluate(value: int) -> int:
        for _ in range(3):
            seen.append(("evaluate", on()))
            await asyncio.sleep(0)
        return value

    async def train() -> None:
        for _ in range(3):
            seen.append(("train", on()))
            await asyncio.sleep(0)

    async def both() -> Any:
        return (await asyncio.gather(evaluate(3), train()))[0]

    assert asyncio.run(both()) == 3
    assert sorted(set(seen)) == [("evaluate", False), ("train", True)]

    @ag.no_grad
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError(on())

    with pytest.raises(KeyError, match="False"):
        asyncio.run(fail())
    assert on()


def test_asynchronous_generators_hold_their_mode() -> None:
    seen = []

    @ag.no_grad()
    async def values() -> Any:
        try:
            for i in range(5):
                seen.append(on())
                await asyncio.sleep(0)
                got = yield i, on()
                if got is not None:
                    yield got, on()
        except KeyError:
            yield "caught", on()
        finally:
            seen.append(("closed", on()))

    async def use() -> None:
        run = values()
        assert await run.__anext__() == (0, False)
        assert on()
        assert await run.asend(7) == (7, False)
        assert await run.athrow(KeyError) == ("caught", False)
        assert [each async for each in run] == []
        assert [each async for each in values()] == [(i, False) for i in range(5)]
        run = values()
        await run.__anext__()
        await run.aclose()
        assert on()

    asyncio.run(use())
    assert set(seen) == {False, ("closed", False)}
    assert seen.count(("closed", False)) == 3


def test_a_preference_holds_in_a_generator() -> None:
    @nc.prefer("netcl-plugin-elementwise:add")
    def numbers() -> Any:
        yield state.chosen
        yield state.chosen

    for chosen in numbers():
        assert chosen == (("netcl-plugin-elementwise", "add"),)
        assert state.chosen == ()


@pytest.mark.parametrize("what", [int, 5, type("Model", (), {})], ids=str)
def test_only_functions_are_decorated(what: Any) -> None:
    for decorate in (ag.no_grad, ag.no_grad(), ag.enable_grad, nc.prefer("a:b")):
        with pytest.raises(ArgumentError, match=r"(no_grad|enable_grad|prefer): .* to decorate"):
            decorate(what)


def test_set_grad_enabled_as_a_decorator() -> None:
    """It holds inside, and neither before the function is called nor afterwards."""
    x = nc.Tensor.ones((2,), "float32", requires_grad=True)

    @ag.set_grad_enabled(False)
    def off() -> bool:
        return bool((x * 2).requires_grad)

    assert ag.is_grad_enabled()
    assert [off(), off()] == [False, False]
    assert ag.is_grad_enabled()
    with ag.no_grad():
        assert ag.set_grad_enabled(True)(lambda: ag.is_grad_enabled())()
    assert ag.is_grad_enabled()
