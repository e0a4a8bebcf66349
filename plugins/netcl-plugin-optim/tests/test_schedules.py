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
cases = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


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
    cycle = schedulers.OneCycleLR(sgd, 1.0, 2)
    cycle.step()
    cycle.step()
    with pytest.raises(AttributeValueError, match="3 steps; expected at most 2"):
        cycle.step()
