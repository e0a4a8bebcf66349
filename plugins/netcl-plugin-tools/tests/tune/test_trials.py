"""Trials, which make records of tuning, and tuning on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netcl_plugin_tunable
import numpy as np
import pytest
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tools.tune.first_use import first_use
from netcl_plugin_tools.tune.trials import TuningTrial
from netcl_plugin_tunable import DEFAULT, space
from tuned import Offer, X, here, offering, own_folder

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.ops.tuning import ChosenSettings, Offered, Tuner, tuning_by
from netcl_core.plugins.registry import registry

OPENCL = [each for each in nc.devices() if each.backend == "opencl" and not each.simulator]
pytestmark = pytest.mark.skipif(not OPENCL, reason="no OpenCL device")


@pytest.fixture
def fast() -> Iterator[nc.Device]:
    with nc.use_device(OPENCL[0]) as chosen:
        yield chosen


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has a folder of records of its own."""
    with own_folder(tmp_path, monkeypatch):
        yield


@pytest.fixture
def seen() -> list[dict[str, Any]]:
    """The settings of each plan, in order."""
    return []


@pytest.fixture
def offer(fast: nc.Device, seen: list[dict[str, Any]]) -> Iterator[Offer]:
    """Register the plugin with an operator of this space; gives the op's function."""
    with offering(seen) as register:
        yield register


class Keeper(Tuner):
    """A tuner that measures whatever it is offered, and keeps the trials."""

    def __init__(self, budget: float = 20.0) -> None:
        self.trials: list[TuningTrial] = []
        self.budget = budget

    def wants(self, decision: ChosenSettings) -> bool:
        return True

    def __call__(self, offered: Offered) -> bool:
        trial = TuningTrial(offered)
        self.trials.append(trial)
        trial.measure(self.budget)
        return True


# -- trials --------------------------------------------------------------------------------------


def test_a_trial_finds_what_is_faster(offer: Offer, seen: list[dict[str, Any]]) -> None:
    scaled = offer()
    keeper = Keeper()
    x = nc.tensor(X)
    with tuning_by(keeper):
        for _ in range(3):
            np.testing.assert_array_equal(scaled(x, 3.0).numpy(), X * 3)
    (trial,) = keeper.trials  # it was offered once
    assert not trial.left and not trial.interrupted
    assert dict(trial.default.settings) == DEFAULT
    assert len(trial.contenders) == 4 and not any(each.fault for each in trial.contenders)
    assert trial.best.settings["waste"] == 0 and trial.gain_of(trial.best) > 2
    record = trial.record()
    assert record is not None and record.place == here()
    seen.clear()
    scaled(x)
    assert seen == [dict(trial.best.settings)]


def test_with_a_neighbour_the_op_is_tried_by_itself(offer: Offer) -> None:
    scaled = offer()
    function = ag.jit_compile(lambda x: ag.exp(ag.mul(scaled(x), -1.0 / 1024)), strict=True)
    keeper = Keeper()
    with tuning_by(keeper):
        found = function(nc.tensor(X)).numpy()
        np.testing.assert_allclose(found, np.exp(-2 * X / 1024), rtol=1e-5)
    (trial,) = keeper.trials
    assert trial.place == here() and trial.best.settings["waste"] == 0


def test_wrong_and_broken_settings_are_out(offer: Offer) -> None:
    choices = {"span": (16,), "waste": (400, 0, 1, 2, 3), "off": (0, 1)}

    def plan(request: ag.Request) -> Any:
        if request.settings["waste"] == 1:
            raise ValueError("one is too few\nand more")
        found = netcl_plugin_tunable.plan(request)
        if request.settings["waste"] == 2:
            context = {**found.launches[0].context, "waste": "no such name"}
            return nc.Kernels((nc.Kernel(*_fields(found.launches[0]), context=context),))
        return nc.Kernels(()) if request.settings["waste"] == 3 else found

    scaled = offer(space(choices, lambda request: {**DEFAULT, "off": 0}), plan=plan)
    keeper = Keeper()
    with tuning_by(keeper):
        scaled(nc.tensor(X))
    (trial,) = keeper.trials
    faults = {(x.settings["waste"], x.settings["off"]): x.fault for x in trial.contenders}
    assert faults[400, 0] == faults[0, 0] == ""
    assert faults[400, 1] == faults[0, 1] == "result 0 differs from the default's"
    assert faults[1, 0] == "ValueError: one is too few"
    assert faults[2, 0].startswith("BuildError: ")
    assert faults[3, 0] == "result 0 differs from the default's"  # nothing was written
    assert dict(trial.best.settings) == {"span": 16, "waste": 0, "off": 0}


def _fields(kernel: nc.Kernel) -> tuple[Any, ...]:
    return kernel.template, kernel.entry, kernel.args, kernel.global_size, kernel.local_size


def test_what_does_not_fit_is_not_tried(offer: Offer) -> None:
    def fits(request: ag.Request, settings: Any) -> str | None:
        return "no" if settings["waste"] == 0 else None

    scaled = offer(space(fits=fits))
    keeper = Keeper()
    with tuning_by(keeper):
        scaled(X)
    assert [x.settings["waste"] for x in keeper.trials[0].contenders] == [400, 400]


def test_where_nothing_is_faster_the_default_is_recorded(offer: Offer) -> None:
    good = space({"waste": (0, 4000)}, lambda request: {"waste": 0})

    def plan(request: ag.Request) -> Any:
        settings = {"span": 16, **request.settings}
        return netcl_plugin_tunable.plan(ag.Request("scaled", request.device, request.inputs,
            request.outputs, request.attrs, settings=settings))  # fmt: skip

    scaled = offer(good, plan=plan)
    keeper = Keeper()
    with tuning_by(keeper):
        scaled(X)
    record = keeper.trials[0].record()
    assert record is not None and record.settings == {"waste": 0} and record.gain == 1.0


def test_a_budget_ends_it(offer: Offer) -> None:
    scaled = offer(space({"span": tuple(range(1, 65)), "waste": (400, 0)}))
    keeper = Keeper(0.0)
    with tuning_by(keeper):
        scaled(X)
    (trial,) = keeper.trials
    assert len(trial.contenders) == 2 and trial.left == 64 * 2 - 2
    assert trial.record() is not None  # two were compared


def test_interrupted_it_keeps_what_was_measured(
    offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(request: ag.Request) -> Any:
        if len(planned) == 3:
            raise KeyboardInterrupt
        planned.append(request.settings)
        return netcl_plugin_tunable.plan(request)

    planned: list[Any] = []
    scaled = offer(plan=plan)
    keeper = Keeper()
    with tuning_by(keeper):
        scaled(X)
    (trial,) = keeper.trials
    assert trial.interrupted
    record = trial.record()
    assert record is not None and record.gain >= 1


def test_a_default_that_fails_ends_it(offer: Offer) -> None:
    scaled = offer(plan=lambda request: 1 / 0)
    keeper = Keeper()
    with tuning_by(keeper), pytest.raises(ZeroDivisionError):
        scaled(X)
    assert keeper.trials == []


# -- on first use --------------------------------------------------------------------------------


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """First use tunes, as if no test were running."""
    monkeypatch.setenv("NETCL_TUNING", "first-use")
    monkeypatch.setattr("netcl_core.config.under_test", lambda: False)
    monkeypatch.setattr(first_use, "_spent", 0.0)
    monkeypatch.setattr(first_use, "_tried", set())
    return monkeypatch


def test_first_use_records_and_the_next_call_uses_it(
    offer: Offer, tuned: Any, seen: list[dict[str, Any]]
) -> None:
    scaled = offer()
    x = nc.tensor(X)
    np.testing.assert_array_equal(scaled(x).numpy(), X * 2)
    ((record,), faults) = tuning_records.all_own()
    assert record.place == here() and record.settings["waste"] == 0 and not faults
    seen.clear()
    np.testing.assert_array_equal(scaled(x).numpy(), X * 2)
    assert seen == [dict(record.settings)]
    seen.clear()
    scaled(np.ones(X.size - 1, "float32"))  # of the same class: nothing is measured
    assert seen == [dict(record.settings)]


def measured(call: Callable[[], Any]) -> bool:
    """Whether a call makes a record."""
    before = len(tuning_records.all_own()[0])
    call()
    return len(tuning_records.all_own()[0]) > before


def test_it_is_off_by_default(offer: Offer, tuned: Any) -> None:
    tuned.delenv("NETCL_TUNING")
    scaled = offer()
    assert not measured(lambda: scaled(X))


def test_it_never_measures_in_a_running_test(offer: Offer, tuned: Any) -> None:
    tuned.undo()
    tuned.setenv("NETCL_TUNING", "first-use")
    scaled = offer()
    assert not measured(lambda: scaled(X))


def test_it_never_measures_in_a_capture(offer: Offer, tuned: Any) -> None:
    scaled = offer()
    x = nc.tensor(X)
    graphs: list[Any] = []
    assert not measured(lambda: graphs.append(ag.capture(scaled, x)))
    assert measured(lambda: scaled(x))
    np.testing.assert_array_equal(graphs[0](x).numpy(), X * 2)


def test_it_keeps_within_its_budget(offer: Offer, tuned: Any) -> None:
    tuned.setenv("NETCL_TUNING_BUDGET_S", "1")
    scaled = offer()
    tuned.setattr(first_use, "_spent", 0.99)
    assert measured(lambda: scaled(X))
    assert first_use._spent > 1.0
    assert not measured(lambda: scaled(np.ones(7, "float32")))


def test_it_tries_each_class_once(offer: Offer, tuned: Any) -> None:
    tuned.setenv("NETCL_CACHE", "0")
    scaled = offer()
    assert measured(lambda: scaled(X))
    tuning_records._unwritten.clear()
    registry.renew()
    assert not measured(lambda: scaled(X))


def test_one_thread_measures_at_a_time(offer: Offer, tuned: Any) -> None:
    scaled = offer()
    assert first_use._busy.acquire()
    try:
        assert not measured(lambda: scaled(X))
    finally:
        first_use._busy.release()
    threads = [threading.Thread(target=scaled, args=(X,)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(tuning_records.all_own()[0]) == 1


def test_an_interrupt_ends_the_program_and_keeps_the_record(offer: Offer, tuned: Any) -> None:
    count = iter(range(9))

    def plan(request: ag.Request) -> Any:
        if next(count) == 4:
            raise KeyboardInterrupt
        return netcl_plugin_tunable.plan(request)

    scaled = offer(plan=plan)
    with pytest.raises(KeyboardInterrupt):
        scaled(X)
    assert len(tuning_records.all_own()[0]) == 1
