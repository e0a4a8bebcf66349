"""Groups of parameters: their settings, their launches, groups that join later, and closures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn, optim
from netcl_core.errors import ArgumentError, AttributeValueError, ReplayError

torch = pytest.importorskip("torch")

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
everywhere = pytest.mark.parametrize("device", usable_devices("float64"), ids=str)
SHAPES = [(), (5,), (3, 41), (2, 3), (0, 2)]
CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True, "weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.2}),
    ("AdamW", {"amsgrad": True}),
    ("RMSprop", {"maximize": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adagrad", {"maximize": True, "weight_decay": 0.1}),
    ("Adadelta", {"rho": 0.8, "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {"weight_decay": 0.1, "betas": (0.8, 0.9), "maximize": True}),
    ("NAdam", {"maximize": True, "weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1}),
    ("RAdam", {"lr": 0.01, "maximize": True}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.8, 0.9)}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 4, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {"maximize": True, "step_sizes": (0.005, 0.015)}),
    ("Lion", {"lr": 0.01, "weight_decay": 0.3, "betas": (0.8, 0.95)}),
]


class Lion(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
    """Chen et al. 2023, algorithm 2, as the paper prints it."""

    def __init__(self, params: Any, **settings: Any) -> None:
        super().__init__(params, settings)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            (one, two), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(one * m + (1 - one) * p.grad)
                p -= lr * (update + group["weight_decay"] * p)
                self.state[p]["m"] = two * m + (1 - two) * p.grad


def grouped(name: str, parameters: list[Any]) -> list[dict[str, Any]]:
    """Three groups: with all defaults, without weight decay, with a rate of its own."""
    first, second, third, *others = parameters
    undecayed = {} if name == "Rprop" else {"weight_decay": 0}
    return [
        {"params": [first, second]},
        {"params": [third], "lr": 0.03, **undecayed},
        {"params": others, "lr": 0.007},
    ]


@pytest.fixture
def _double() -> Iterator[None]:
    """PyTorch keeps NAdam's product of momenta in its default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@everywhere
@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_groups_equal_pytorch(device: Device, name: str, settings: dict[str, Any]) -> None:
    """Twelve steps in float64; in the middle a rate and a decay are set in the groups."""
    random = np.random.default_rng(0)
    start = [np.asarray(random.standard_normal(shape)) for shape in SHAPES]
    theirs = [torch.tensor(value, requires_grad=True) for value in start]
    ours = [nc.tensor(value, device, requires_grad=True) for value in start]
    make = Lion if name == "Lion" else getattr(torch.optim, name)
    reference = make(grouped(name, theirs), **settings)
    optimizer = getattr(optim, name)(grouped(name, ours), **settings)
    for step in range(12):
        for one, other in zip(theirs, ours, strict=True):
            gradient = np.asarray(random.standard_normal(one.shape))
            one.grad, other.grad = torch.tensor(gradient), nc.tensor(gradient, device)
        for each in (reference, optimizer):
            if step == 6:
                each.param_groups[1]["lr"] = 0.02
                if name != "Rprop":
                    each.param_groups[2]["weight_decay"] = 0.05
            if step == 5 and each is reference and name == "ASGD":  # it takes rates from the last
                each.param_groups[1]["lr"] = 0.02
            each.step()
    for one, other in zip(theirs, ours, strict=True):
        right = one.detach().numpy()
        np.testing.assert_allclose(other.numpy(), right, rtol=1e-12, atol=1e-13)


def gradients_of_one(tensors: list[Any]) -> None:
    for tensor in tensors:
        tensor.grad = nc.Tensor.ones(tensor.shape, device=tensor.device)


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize("flagged", [False, True])
@pytest.mark.parametrize(("groups", "expected"), [(2, 1), (6, 1), (20, 3), (30, 5)])
def test_groups_share_launches(device: Device, flagged: bool, groups: int, expected: int) -> None:
    """As many as the arguments have room for, which is a whole row of settings for each group."""
    tensors = [nc.tensor([1.0, 2.0], device, requires_grad=True) for _ in range(groups)]
    given = [
        {"params": [tensor], "lr": 0.1 * k, "weight_decay": 0.1 * (k % 2)}
        for k, tensor in enumerate(tensors)
    ]
    optimizer = optim.AdamW(given)
    flag = nc.Tensor.zeros((1,), "int32", device) if flagged else None
    gradients_of_one(tensors)
    optimizer.step(found_inf=flag)
    with recorded(device) as stream:
        optimizer.step(found_inf=flag)
        assert stream.launched.count("adam_step") <= expected
        assert stream.launched.count("adam_count") == flagged * -(-groups // 16)
    others = [nc.tensor([1.0, 2.0], "numpy", requires_grad=True) for _ in range(groups)]
    gradients_of_one(others)
    for other, group in zip(others, given, strict=True):
        alone = optim.AdamW([other], lr=group["lr"], weight_decay=group["weight_decay"])
        alone.step()
        alone.step()
    for tensor, other in zip(tensors, others, strict=True):
        np.testing.assert_allclose(tensor.numpy(), other.numpy(), rtol=1e-5)


@everywhere
def test_a_group_joins_later(device: Device) -> None:
    """The states of the others stay; a captured step of before is outdated."""
    first, second = (nn.Parameter(nc.tensor([1.0, 2.0], device)) for _ in range(2))
    optimizer = optim.Adam([first], lr=0.1)
    with pytest.raises(AttributeValueError, match="lr=-1"):
        optimizer.add_param_group({"params": [second], "lr": -1})
    with pytest.raises(ArgumentError, match="twice"):
        optimizer.add_param_group({"params": [first]})
    assert len(optimizer.param_groups) == 1
    gradients_of_one([second])

    def step(gradient: nc.Tensor) -> None:
        first.grad = gradient
        optimizer.step()

    gradient = nc.tensor([1.0, 1.0], device)
    graph = ag.capture(step, gradient)
    graph(gradient)
    optimizer.add_param_group({"params": second, "lr": 1.0, "rho": 0.05})
    assert optimizer.param_groups[1]["rho"] == 0.05  # a program's own, as in PyTorch
    optimizer.step()
    assert [optimizer.state_dict()["state"][k]["step"] for k in (0, 1)] == [3, 1]
    np.testing.assert_allclose(first.numpy(), [0.7, 1.7], rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), [0.0, 1.0], atol=1e-5)
    with pytest.raises(ReplayError, match="states that are no longer used"):
        graph(gradient)


def test_named_parameters_are_in_the_state() -> None:
    model, theirs = nn.Linear(2, 3), torch.nn.Linear(2, 3)
    ours = optim.SGD(model.named_parameters(), lr=0.1)
    other = torch.optim.SGD(theirs.named_parameters(), lr=0.1)
    (saved,), (wanted,) = ours.state_dict()["param_groups"], other.state_dict()["param_groups"]
    assert {**wanted, **saved} == {**saved, **wanted}
    ours.load_state_dict(other.state_dict())
    with pytest.raises(ArgumentError, match="with and without names"):
        optim.SGD([("a", model.weight), model.bias])
    with pytest.raises(ArgumentError, match="with and without names"):
        ours.add_param_group({"params": [nn.Parameter([1.0])]})


def test_a_closure_runs_with_gradients_on() -> None:
    w = nc.tensor([3.0], "numpy", requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)

    def closure() -> Any:
        loss = ag.sum(ag.square(w))
        loss.backward()
        return loss

    with ag.no_grad():
        assert optimizer.step(closure).item() == 9 and w.item() == 0
    assert optimizer.step() is None
    with pytest.raises(ArgumentError, match=r"SGD\.step: a float as closure"):
        optimizer.step(1.0)  # type: ignore[arg-type]


def test_what_has_no_step_exists_until_it_is_called() -> None:
    class Plain(optim.Optimizer):
        pass

    class Unplanned(optim.lr_scheduler.LRScheduler):
        pass

    optimizer = Plain([nc.zeros(2, requires_grad=True)], {"lr": 1.0})
    with pytest.raises(NotImplementedError, match="Plain has no step"):
        optimizer.step()
    with pytest.raises(NotImplementedError, match="Unplanned has no get_lr"):
        Unplanned(optimizer)
