"""Cases that are made of functions and of trainings are right on this machine's libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from harness import Training, copying, function_cases, multiplying
from harness.peers import PEERS, absences
from harness.running import off_by
from harness.training import training_case

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, optim

CPU = nc.get_device("numpy")
FORMS = {
    "netcl": lambda ag, x, w: ag.sigmoid(x) * w,
    "torch": lambda torch, x, w: torch.sigmoid(x) * w,
    "jax": lambda jax, x, w: jax.nn.sigmoid(x) * w,
    "tinygrad": lambda tensor, x, w: x.sigmoid() * w,
    "numpy": lambda np, x, w: w / (1 + np.exp(-x)),
}


@cache
def absence(name: str) -> str:
    """Why a peer is not here; libraries are imported for it."""
    return absences(CPU, {name: PEERS[name]})[name]


def data() -> Sequence[Any]:
    random = np.random.default_rng(0)
    return list(random.standard_normal((2, 5, 7), dtype=np.float32))


@pytest.mark.parametrize("name", [name for name in PEERS if name != "torch-compile"])
@pytest.mark.parametrize("phase", [0, 1], ids=["forward", "both"])
def test_forms_of_all_libraries_agree(name: str, phase: int) -> None:
    case = list(function_cases("mul", FORMS, data, gradients=2))[phase]
    if why := absence(name):
        pytest.skip(f"{name}: {why}")
    if name not in case.makers:
        assert name == "numpy" and phase, "only NumPy has no gradients"
        return
    work = case.makers[name](CPU)
    assert case.reference is not None
    assert off_by(work.results(), case.reference()) < case.tolerance
    PEERS[name].waiting(CPU)(work.call())


@pytest.mark.parametrize("wrong", ["result", "gradient"])
def test_a_wrong_result_or_gradient_is_noticed(wrong: str) -> None:
    def form(ag: Any, x: Any, w: Any) -> Any:
        y = ag.sigmoid(x) * w
        return y * 1.001 if wrong == "result" else y + (w.detach() - w) * 1e-3

    cases = list(function_cases("mul", {**FORMS, "netcl": form}, data, gradients=2))
    assert cases[1].reference is not None
    off = off_by(cases[1].makers["netcl"](CPU).results(), cases[1].reference())
    assert 1e-4 < off < 1e-2


def test_a_loss_is_a_case_as_well() -> None:
    forms = {"netcl": lambda ag, x: ag.mean(x * x), "numpy": lambda np, x: np.mean(x * x)}
    both = list(function_cases("loss", forms, lambda: data()[:1]))[1]
    assert both.reference is not None
    assert off_by(both.makers["netcl-replay"](CPU).results(), both.reference()) < 1e-6


def test_without_gradients_there_is_a_forward_alone() -> None:
    assert [each.name for each in function_cases("f", FORMS, data, gradients=0)] == ["f forward"]


@pytest.mark.parametrize("limit", [copying(800.0), multiplying(1e9, "cpu")])
def test_limits_run(limit: Any) -> None:
    for name, make in limit.makers.items():
        if not absence(name):
            make(CPU).call()


# -- training ----------------------------------------------------------------------------

WEIGHTS = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)


def ours() -> Training:
    model = nn.Linear(4, 3, bias=False)
    model.load_state_dict({"weight": WEIGHTS})
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    return Training(
        lambda x: ag.mean(model(x) * model(x)), [model.weight], optimizer, (nc.tensor(ROWS),)
    )


def theirs(place: str, dtype: str, fused: bool) -> Training:
    import torch

    kind = getattr(torch, dtype)
    weight = torch.nn.Parameter(torch.from_numpy(WEIGHTS).to(place, kind))
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=fused or None)
    x = torch.from_numpy(ROWS).to(place, kind)
    return Training(lambda x: (x @ weight.T).square().mean(), [weight], optimizer, (x,))


CASE = training_case("linear", ours, theirs)


def value(loss: Any) -> float:
    return float(loss.item())


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="compares with PyTorch")
@pytest.mark.parametrize("name", ["netcl", "netcl-compiled", "netcl-replay", "torch"])
def test_a_step_trains_and_all_steps_are_alike(name: str) -> None:
    work, other = CASE.makers[name](CPU), CASE.makers["netcl"](CPU)
    assert CASE.reference is not None
    assert off_by(work.results(), CASE.reference()) < 1e-5
    losses = [value(work.call()) for _ in range(4)]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert losses == pytest.approx([value(other.call()) for _ in range(4)], rel=1e-4)


def test_a_training_without_pytorch_has_no_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert training_case("linear", ours, theirs).reference is None
    assert replace(CASE, reference=None).name == "linear"
