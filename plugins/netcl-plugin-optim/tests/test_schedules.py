"""Schedules give PyTorch's learning rates, for several groups, combined, and after loading."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import nn, optim
from netcl_core.errors import ArgumentError, AttributeValueError

torch = pytest.importorskip("torch")
schedulers = optim.lr_scheduler

CASES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 3}),
    ("StepLR", {"step_size": 1, "gamma": 0.7}),
    ("CosineAnnealingLR", {"T_max": 10}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 12}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.7}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 4}),
    ("PolynomialLR", {"total_iters": 12, "power": 2.0}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 0.9**epoch, lambda epoch: 1 / (1 + epoch)]}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 1 - 0.01 * epoch}),
    ("CosineAnnealingWarmRestarts", {"T_0": 4, "eta_min": 0.001}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 3}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 3}),
    ("CyclicLR", {"base_lr": [0.01, 0.3], "max_lr": 0.5, "step_size_up": 2, "step_size_down": 5,
                  "mode": "triangular2", "base_momentum": [0.5, 0.6]}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": [0.2, 0.5], "step_size_up": 4, "mode": "exp_range",
                  "gamma": 0.9, "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.2, "step_size_up": 4, "mode": "own",
                  "scale_fn": lambda x: 1 / (5 + x), "scale_mode": "iterations"}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 30}),
    ("OneCycleLR", {"max_lr": [0.5, 0.1], "epochs": 5, "steps_per_epoch": 6, "pct_start": 0.4}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 30, "anneal_strategy": "linear",
                    "three_phase": True, "base_momentum": 0.7}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 30, "cycle_momentum": False, "div_factor": 5}),
]  # fmt: skip
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2},
    {"patience": 0, "factor": 0.5, "min_lr": [0.01, 0.001]},
    {"mode": "max", "patience": 1, "cooldown": 2, "threshold": 0.1},
    {"patience": 1, "threshold_mode": "abs", "threshold": 0.05, "eps": 1e-3},
    {"mode": "max", "threshold_mode": "abs", "patience": 1},
]
NAMES = [f"{name} {i}" for i, (name, _) in enumerate(CASES)]
cases = pytest.mark.parametrize(("name", "settings"), CASES, ids=NAMES)


def optimizers(name: str = "SGD") -> tuple[Any, Any]:
    """Ours and PyTorch's, with two groups of their own rates."""
    rates = (0.1, 0.02)
    extra = {"momentum": 0.9} if name == "SGD" else {}
    ours = [{"params": [nn.Parameter(np.ones(2, np.float32))], "lr": rate} for rate in rates]
    theirs = [{"params": [torch.ones(2, requires_grad=True)], "lr": rate} for rate in rates]
    return getattr(optim, name)(ours, **extra), getattr(torch.optim, name)(theirs, **extra)


def settings_of(optimizer: Any) -> list[float]:
    """What schedules change: the rates, and the momenta or first betas."""
    groups = optimizer.param_groups
    return [group["lr"] for group in groups] + [
        group["betas"][0] if "betas" in group else group["momentum"] for group in groups
    ]


def advance(optimizer: Any, *schedules: Any) -> list[float]:
    optimizer.step()
    for schedule in schedules:
        schedule.step()
    return settings_of(optimizer)


@cases
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_rates_equal_pytorch(name: str, settings: dict[str, Any], optimizer: str) -> None:
    ours, theirs = optimizers(optimizer)
    schedule = getattr(schedulers, name)(ours, **settings)
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **settings)
    assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-12)
    for epoch in range(29):
        expected = advance(theirs, reference)
        assert advance(ours, schedule) == pytest.approx(expected, rel=1e-9), epoch
        assert schedule.get_last_lr() == pytest.approx(reference.get_last_lr(), rel=1e-9)


@pytest.mark.parametrize("settings", PLATEAUS, ids=str)
def test_plateaus_equal_pytorch(settings: dict[str, Any]) -> None:
    ours, theirs = optimizers()
    schedule = schedulers.ReduceLROnPlateau(ours, **settings)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **settings)
    random = np.random.default_rng(3)
    for epoch in range(40):
        metric = float(random.uniform(0.5, 1) + 3 / (epoch + 1))
        schedule.step(nc.tensor(np.array(metric)) if epoch % 2 else metric)
        reference.step(metric)
        assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-12), epoch
        assert schedule.num_bad_epochs == reference.num_bad_epochs


def test_schedules_combine() -> None:
    ours, theirs = optimizers()
    pair = [schedulers.LinearLR(ours), schedulers.StepLR(ours, 4)]
    references = [
        torch.optim.lr_scheduler.LinearLR(theirs),
        torch.optim.lr_scheduler.StepLR(theirs, 4),
    ]
    for _ in range(12):
        expected = advance(theirs, *references)
        assert advance(ours, *pair) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("source", ["ours", "PyTorch"])
@cases
def test_a_saved_schedule_goes_on(name: str, settings: dict[str, Any], source: str) -> None:
    ours, theirs = optimizers()
    schedule = getattr(schedulers, name)(ours, **settings)
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **settings)
    for _ in range(7):
        advance(ours, schedule)
        advance(theirs, reference)
    saved = (ours, schedule) if source == "ours" else (theirs, reference)
    fresh, _ = optimizers()
    other = getattr(schedulers, name)(fresh, **settings)
    fresh.load_state_dict(saved[0].state_dict())
    other.load_state_dict(copy.deepcopy(saved[1].state_dict()))
    for _ in range(9):
        assert advance(fresh, other) == pytest.approx(advance(theirs, reference), rel=1e-9)


def combined(lib: Any, optimizer: Any, kind: str) -> Any:
    """Schedules of schedules, the same in both libraries."""
    if kind == "chained":
        parts = [lib.LinearLR(optimizer), lib.StepLR(optimizer, 3), lib.ConstantLR(optimizer)]
        return lib.ChainedScheduler(parts, optimizer)
    if kind == "restarts":
        parts = [lib.ExponentialLR(optimizer, 0.9), lib.CosineAnnealingWarmRestarts(optimizer, 3)]
        return lib.SequentialLR(optimizer, parts, [4])
    parts = [
        lib.LinearLR(optimizer, 0.1, total_iters=3),
        lib.LambdaLR(optimizer, lambda epoch: 0.9**epoch),
        lib.MultiplicativeLR(optimizer, lambda epoch: 0.8),
        lib.PolynomialLR(optimizer, 6),
    ]
    return lib.SequentialLR(optimizer, parts, [3, 7, 12])


@pytest.mark.parametrize("kind", ["chained", "restarts", "sequence"])
def test_combined_schedules_equal_pytorch(kind: str) -> None:
    """And go on after loading, PyTorch's state here."""
    ours, theirs = optimizers()
    schedule = combined(schedulers, ours, kind)
    reference = combined(torch.optim.lr_scheduler, theirs, kind)
    assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-12)
    for epoch in range(20):
        if epoch == 5:
            fresh, _ = optimizers()
            schedule, ours = combined(schedulers, fresh, kind), fresh
            fresh.load_state_dict(theirs.state_dict())
            schedule.load_state_dict(copy.deepcopy(reference.state_dict()))
        expected = advance(theirs, reference)
        assert advance(ours, schedule) == pytest.approx(expected, rel=1e-9), epoch
        assert schedule.get_last_lr() == pytest.approx(reference.get_last_lr(), rel=1e-9)


def test_a_sequence_in_a_sequence() -> None:
    """A part that is a combination begins where it stands, from the first rate."""
    optimizer, _ = optimizers()
    inner = [schedulers.ConstantLR(optimizer, 0.5), schedulers.ExponentialLR(optimizer, 0.5)]
    first = schedulers.ExponentialLR(optimizer, 0.1)
    second = schedulers.ChainedScheduler(inner)
    both = schedulers.SequentialLR(optimizer, [first, second], [2])
    rates = [optimizer.lr]
    for _ in range(4):
        both.step()
        rates.append(optimizer.lr)
    assert rates == pytest.approx([0.1, 0.01, 0.05, 0.025, 0.0125])


def test_warm_restarts_take_shares_of_epochs() -> None:
    for settings in ({"T_0": 3}, {"T_0": 2, "T_mult": 2}):
        ours, theirs = optimizers()
        schedule = schedulers.CosineAnnealingWarmRestarts(ours, **settings)
        reference = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, **settings)
        for epoch in (0.5, 1.75, 2.0, 2.5, 6.25, 1.5, 13.0):
            schedule.step(epoch)
            reference.step(epoch)
            assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-9)
        schedule.step()
        reference.step()
        assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-9)


def test_schedules_follow_groups() -> None:
    """A group that joins later begins with its own rate, as if its schedule had begun with it."""
    optimizer, _ = optimizers()
    schedules = [
        schedulers.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch)),
        schedulers.ReduceLROnPlateau(optimizer, patience=0),
    ]
    cycles = [
        schedulers.OneCycleLR(optimizers()[0], 1.0, 5),
        schedulers.CyclicLR(optimizers()[0], 0.1, 1.0),
    ]
    for each in (optimizer, *(cycle.optimizer for cycle in cycles)):
        each.add_param_group({"params": [nn.Parameter(np.ones(1, np.float32))], "lr": 0.8})
    schedules[0].step()
    assert schedules[0].get_last_lr() == pytest.approx([0.05, 0.01, 0.4])
    for _ in range(2):
        schedules[1].step(1.0)
    assert schedules[1].get_last_lr() == pytest.approx([0.005, 0.001, 0.04])
    for cycle in cycles:
        with pytest.raises(AttributeValueError, match="a group that the optimizer took on later"):
            cycle.step()
    listed = schedulers.LambdaLR(optimizer, [lambda epoch: 1.0] * 3)
    optimizer.add_param_group({"params": [nn.Parameter(np.ones(1, np.float32))]})
    with pytest.raises(ArgumentError, match="3 functions; expected 4, one per group"):
        listed.step()


def test_a_saved_plateau_goes_on() -> None:
    ours, theirs = optimizers()
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, patience=3)
    for _ in range(3):
        reference.step(1.0)
    schedule = schedulers.ReduceLROnPlateau(ours, patience=9)
    schedule.load_state_dict(reference.state_dict())
    for _ in range(3):
        schedule.step(1.0)
        reference.step(1.0)
    assert settings_of(ours) == pytest.approx(settings_of(theirs), rel=1e-12)


@cases
def test_last_epoch_goes_on_from_a_loaded_optimizer(name: str, settings: dict[str, Any]) -> None:
    ours, theirs = optimizers()
    schedule = getattr(schedulers, name)(ours, **settings)
    reference = getattr(torch.optim.lr_scheduler, name)(theirs, **settings)
    for _ in range(5):
        advance(ours, schedule)
        advance(theirs, reference)
    fresh, fresh_theirs = optimizers()
    fresh.load_state_dict(ours.state_dict())
    fresh_theirs.load_state_dict(theirs.state_dict())
    other = getattr(schedulers, name)(fresh, **settings, last_epoch=5)
    expected = getattr(torch.optim.lr_scheduler, name)(fresh_theirs, **settings, last_epoch=5)
    for _ in range(5):
        assert advance(fresh, other) == pytest.approx(advance(fresh_theirs, expected), rel=1e-9)


def test_new_rates_reach_the_parameters() -> None:
    parameter = nn.Parameter(np.zeros(1, np.float32))
    optimizer = optim.SGD([parameter], lr=1.0)
    schedule = schedulers.StepLR(optimizer, 1, 0.5)
    for _ in range(4):
        parameter.grad = nc.Tensor.ones((1,))
        optimizer.step()
        schedule.step()
    assert parameter.item() == -(1 + 0.5 + 0.25 + 0.125)


def test_mistakes_are_named() -> None:
    sgd, _ = optimizers()
    with pytest.raises(ArgumentError, match=r"StepLR: a list; expected an optimizer"):
        schedulers.StepLR([], 1)
    with pytest.raises(ArgumentError, match="groups without initial_lr"):
        schedulers.StepLR(sgd, 1, last_epoch=3)
    with pytest.raises(AttributeValueError, match="step_size=0"):
        schedulers.StepLR(sgd, 0)
    with pytest.raises(ArgumentError, match="SequentialLR: 1 schedulers and 1 milestones"):
        schedulers.SequentialLR(sgd, [schedulers.StepLR(sgd, 1)], [1])
    with pytest.raises(ArgumentError, match="a StepLR of another optimizer"):
        schedulers.ChainedScheduler([schedulers.StepLR(sgd, 1)], optimizers()[0])
    with pytest.raises(ArgumentError, match="a ReduceLROnPlateau"):
        schedulers.ChainedScheduler([schedulers.ReduceLROnPlateau(sgd)])
    with pytest.raises(ArgumentError, match="a float as lr_lambda"):
        schedulers.LambdaLR(sgd, 0.5)
    with pytest.raises(AttributeValueError, match="T_0=0"):
        schedulers.CosineAnnealingWarmRestarts(sgd, 0)
    with pytest.raises(AttributeValueError, match="start_factor=2"):
        schedulers.LinearLR(sgd, 2)
    with pytest.raises(AttributeValueError, match="total_steps=None"):
        schedulers.OneCycleLR(sgd, 1.0, epochs=3)
    with pytest.raises(AttributeValueError, match="anneal_strategy='square'"):
        schedulers.OneCycleLR(sgd, 1.0, 3, anneal_strategy="square")
    with pytest.raises(AttributeValueError, match="3 values of max_lr; expected 2"):
        schedulers.OneCycleLR(sgd, [1, 2, 3], 3)
    with pytest.raises(AttributeValueError, match="factor=1"):
        schedulers.ReduceLROnPlateau(sgd, factor=1)
    with pytest.raises(AttributeValueError, match="mode='low'"):
        schedulers.ReduceLROnPlateau(sgd, mode="low")
    with pytest.raises(optim.OptimizerStateError, match="no step_size"):
        schedulers.StepLR(sgd, 1).load_state_dict({"gamma": 3})
    with pytest.raises(AttributeValueError, match=r"CyclicLR: mode='own'; expected one of tri"):
        schedulers.CyclicLR(sgd, 0.1, 0.2, mode="own")
    with pytest.raises(AttributeValueError, match="CyclicLR: an optimizer without momentum or bet"):
        schedulers.CyclicLR(optim.Rprop([nc.zeros(2, requires_grad=True)]), 0.1, 0.2)
    cycle = schedulers.OneCycleLR(sgd, 1.0, 2)
    cycle.step()
    cycle.step()
    with pytest.raises(AttributeValueError, match="3 steps; expected at most 2"):
        cycle.step()
