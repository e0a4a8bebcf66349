"""LBFGS goes PyTorch's way, with and without a line search, and its state goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
from netcl_core import optim
from netcl_core.errors import ArgumentError, AttributeValueError

torch = pytest.importorskip("torch")
START = np.array([-1.2, 1.0, 0.7, -0.3, 2.0])
WOLFE = {"line_search_fn": "strong_wolfe"}


def closure(optimizer: Any, x: Any, y: Any) -> Any:
    """Rosenbrock's function of two parameters, one after the other."""

    def run() -> Any:
        optimizer.zero_grad()
        ends = y - x[-1:] ** 2
        loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (ends**2).sum()
        loss.backward()
        return loss

    return run


@pytest.mark.parametrize("device", usable_devices("float64"), ids=str)
@pytest.mark.parametrize(
    "settings",
    [
        {"lr": 0.1, "history_size": 2, "max_iter": 6},
        {"lr": 1e-3, "max_iter": 5, "tolerance_change": 1e-3},
        {**WOLFE, "max_iter": 7},
        {**WOLFE, "max_iter": 9, "history_size": 3, "max_eval": 6},
    ],
    ids=str,
)
def test_steps_equal_pytorch(device: nc.Device, settings: dict[str, Any]) -> None:
    """And so they do after our state has been loaded there, and theirs here."""
    theirs = [torch.tensor(value, requires_grad=True) for value in (START, START[:1])]
    ours = [nc.tensor(value, device, requires_grad=True) for value in (START, START[:1])]
    reference, found = torch.optim.LBFGS(theirs, **settings), optim.LBFGS(ours, **settings)
    for step in range(4):
        wanted = reference.step(closure(reference, *theirs))
        assert found.step(closure(found, *ours)).item() == pytest.approx(wanted.item(), rel=1e-8)
        for one, other in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(other.numpy(), one.detach().numpy(), rtol=1e-7, atol=1e-8)
        assert (
            found.state_dict()["state"][0]["func_evals"] == reference.state[theirs[0]]["func_evals"]
        )
        if step == 1:
            fresh = optim.LBFGS(ours)
            fresh.load_state_dict(reference.state_dict())
            found = fresh


def test_mistakes_are_named() -> None:
    x = nc.tensor([1.0], "numpy", requires_grad=True)
    with pytest.raises(ArgumentError, match="LBFGS: several groups; expected one"):
        optim.LBFGS([{"params": [x]}, {"params": [nc.tensor([1.0], requires_grad=True)]}])
    with pytest.raises(AttributeValueError, match="line_search_fn='wolfe'"):
        optim.LBFGS([x], line_search_fn="wolfe")
    with pytest.raises(ArgumentError, match=r"LBFGS\.step: a NoneType as closure"):
        optim.LBFGS([x]).step()


def test_a_closure_may_change_the_parameters() -> None:
    """As style transfer does, which keeps its picture within 0 to 1."""
    torch = pytest.importorskip("torch")
    found = []
    for library, optimizers in ((nc, optim), (torch, torch.optim)):
        w = library.tensor([0.2, 0.9, 0.5], dtype=library.float64, requires_grad=True)
        optimizer = optimizers.LBFGS([w], max_iter=6)
        losses = []

        def closure(w: Any = w, library: Any = library, losses: list[float] = losses) -> Any:
            with library.no_grad():
                w.clamp_(0, 1)
            w.grad = None
            loss = ((w - library.tensor([1.5, 0.2, -0.7], dtype=w.dtype)) ** 4).sum()
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
        optimizer.step(closure)
        found.append([*losses, *w.tolist()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
