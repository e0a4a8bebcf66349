"""Thirty steps of each optimizer leave the parameters where PyTorch leaves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn, optim

torch = pytest.importorskip("torch")

STEPS = 30
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.3}),
    ("RMSprop", {"lr": 1e-3}),
    ("RMSprop", {"lr": 1e-3, "alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1, "momentum": 0.5}),
    ("RMSprop", {"lr": 1e-3, "alpha": 0.9, "eps": 1e-2, "centered": True}),
    ("RMSprop", {"lr": 1e-3, "eps": 1e-2, "momentum": 0.9, "centered": True}),
]
#: One element, a vector, an odd size, several blocks with a tail.
SHAPES = [(), (16,), (7, 5), (3, 4097)]

all_cases = pytest.mark.parametrize(("name", "settings"), CASES, ids=str)


def start(dtype: str) -> list[Any]:
    random = np.random.default_rng(4)
    return [np.asarray(random.standard_normal(shape), dtype) for shape in SHAPES]


def gradients(step: int, dtype: str) -> list[Any]:
    random = np.random.default_rng(100 + step)
    return [np.asarray(random.standard_normal(shape), dtype) for shape in SHAPES]


def expected(name: str, settings: dict[str, Any], dtype: str) -> list[Any]:
    parameters = [torch.tensor(value, requires_grad=True) for value in start(dtype)]
    optimizer = getattr(torch.optim, name)(parameters, **settings)
    for step in range(STEPS):
        for parameter, gradient in zip(parameters, gradients(step, dtype), strict=True):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
    return [parameter.detach().numpy() for parameter in parameters]


@pytest.mark.sample(3)
@all_cases
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-14)])
def test_given_gradients(name: str, settings: Any, dtype: str, tolerance: float) -> None:
    wanted = expected(name, settings, dtype)
    for device in usable_devices(dtype):
        parameters = [nn.Parameter(nc.tensor(value, device)) for value in start(dtype)]
        optimizer = getattr(optim, name)(parameters, **settings)
        for step in range(STEPS):
            for parameter, gradient in zip(parameters, gradients(step, dtype), strict=True):
                parameter.grad = nc.tensor(gradient, device)
            optimizer.step()
        for parameter, value in zip(parameters, wanted, strict=True):
            assert parameter.dtype == dtype
            np.testing.assert_allclose(parameter.to_host(), value, atol=tolerance, rtol=tolerance)


@pytest.mark.sample(2)
@all_cases
def test_half_precision_computes_in_float(name: str, settings: Any) -> None:
    """Each step rounds the parameter once; PyTorch's float32 run is the reference."""
    wanted = expected(name, settings, "float32")
    for device in usable_devices("float16"):
        parameters = [nn.Parameter(nc.tensor(value, device)) for value in start("float16")]
        optimizer = getattr(optim, name)(parameters, **settings)
        for step in range(STEPS):
            for parameter, gradient in zip(parameters, gradients(step, "float16"), strict=True):
                parameter.grad = nc.tensor(gradient, device)
            optimizer.step()
        for parameter, value, first in zip(parameters, wanted, start("float16"), strict=True):
            assert parameter.dtype == "float16" and (parameter.to_host() != first).any()
            np.testing.assert_allclose(parameter.to_host(), value, atol=0.06, rtol=0.02)


@pytest.mark.sample(3)
@all_cases
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_form_for_gpus(
    name: str, settings: Any, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU runtime runs the kernels that GPUs get as well."""
    for device in usable_devices(dtype):
        results = []
        for kind in (device.kind, "gpu"):
            with monkeypatch.context() as patch:
                patch.setattr(device, "kind", kind)
                parameters = [nn.Parameter(nc.tensor(value, device)) for value in start(dtype)]
                optimizer = getattr(optim, name)(parameters, **settings)
                for step in range(3):
                    for parameter, gradient in zip(parameters, gradients(step, dtype), strict=True):
                        parameter.grad = nc.tensor(gradient, device)
                    optimizer.step()
            results.append([parameter.to_host() for parameter in parameters])
        for value, expected_value in zip(*results, strict=True):
            rtol = {"bfloat16": 1.6e-2, "float16": 2e-3}.get(dtype, 1e-5)
            one, two = (nc.widened(each) for each in (value, expected_value))
            np.testing.assert_allclose(one, two, rtol=rtol)


# -- models: the gradients come from the ops -------------------------------------------


def elementwise_start() -> dict[str, Any]:
    random = np.random.default_rng(1)
    names = ("a", "b", "c", "d")
    return {name: random.standard_normal((12, 1)).astype(np.float32) for name in names}


def elementwise_loss(lib: Any, p: dict[str, Any], x: Any, y: Any) -> Any:
    """The squared error of y = d * tanh(a * x + b) + c, not reduced."""
    return lib.square(p["d"] * lib.tanh(p["a"] * x + p["b"]) + p["c"] - y)


@pytest.mark.sample(4)
@all_cases
def test_a_model_of_elementwise_ops(name: str, settings: Any) -> None:
    x = np.linspace(-2, 2, 40, dtype=np.float32)
    y = np.sin(x)
    theirs = {n: torch.tensor(v, requires_grad=True) for n, v in elementwise_start().items()}
    optimizer = getattr(torch.optim, name)(theirs.values(), **{**settings, "lr": 1e-3})
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = elementwise_loss(torch, theirs, torch.tensor(x), torch.tensor(y))
        loss.backward(torch.ones_like(loss))
        optimizer.step()
    for device in usable_devices():
        ours = {n: nn.Parameter(nc.tensor(v, device)) for n, v in elementwise_start().items()}
        ours_optimizer = getattr(optim, name)(ours.values(), **{**settings, "lr": 1e-3})
        inputs, targets = nc.tensor(x, device), nc.tensor(y, device)
        for _ in range(STEPS):
            ours_optimizer.zero_grad()
            result = elementwise_loss(ag, ours, inputs, targets)
            result.backward(nc.Tensor.ones(result.shape, device=device))
            ours_optimizer.step()
        for key, parameter in ours.items():
            value = theirs[key].detach()
            np.testing.assert_allclose(parameter.to_host(), value, atol=1e-4, rtol=1e-4)


def batches() -> list[tuple[Any, Any]]:
    random = np.random.default_rng(9)
    return [
        (random.standard_normal((16, 20)).astype(np.float32), random.integers(0, 10, 16))
        for _ in range(STEPS)
    ]


def reference(name: str, settings: Any) -> tuple[dict[str, Any], dict[str, Any], list[float]]:
    """State before and after, and the losses of PyTorch's run of the perceptron."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)]
    model = torch.nn.Sequential(*layers)
    before = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    optimizer = getattr(torch.optim, name)(model.parameters(), **settings)
    losses = []
    for x, y in batches():
        loss = torch.nn.functional.cross_entropy(model(torch.tensor(x)), torch.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return before, {key: value.numpy() for key, value in model.state_dict().items()}, losses


def run(device: Device, name: str, settings: Any, state: Any) -> tuple[nn.Module, list[float]]:
    """The same run here."""
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    model.load_state_dict(state)
    optimizer, losses = getattr(optim, name)(model.parameters(), **settings), []
    for x, y in batches():
        loss = nn.CrossEntropyLoss()(model(nc.tensor(x, device)), nc.tensor(y, device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


@pytest.mark.sample(3)
@all_cases
def test_a_perceptron(name: str, settings: Any) -> None:
    before, after, losses = reference(name, settings)
    for device in usable_devices():
        model, ours = run(device, name, settings, before)
        np.testing.assert_allclose(ours, losses, atol=1e-4)
        for key, tensor in model.state_dict().items():
            np.testing.assert_allclose(tensor.to_host(), after[key], atol=1e-4)


LOADED: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"momentum": 0.9}),
    ("RMSprop", {"momentum": 0.9, "maximize": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {"maximize": True}),
    ("Adagrad", {"initial_accumulator_value": 0.3}),
    ("Adadelta", {}),
    ("Adamax", {}),
    ("NAdam", {"decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("ASGD", {"lambd": 0.1, "t0": 5}),
    ("Rprop", {"step_sizes": (1e-3, 0.2)}),
]


def one_step(step: int, ours: list[Any], theirs: list[Any], optimizers: Any) -> None:
    """The same gradients for both, and a step of both."""
    for tensor, parameter, gradient in zip(ours, theirs, gradients(step, "float32"), strict=True):
        tensor.grad, parameter.grad = nc.tensor(gradient), torch.tensor(gradient)
    for optimizer in optimizers:
        optimizer.step()


@pytest.mark.parametrize(("name", "settings"), LOADED, ids=[name for name, _ in LOADED])
def test_pytorch_states_load_and_go_back(name: str, settings: Any) -> None:
    """After ten steps in PyTorch the optimizer goes on here, and then in PyTorch again."""
    parameters = [torch.tensor(value, requires_grad=True) for value in start("float32")]
    make = getattr(torch.optim, name)
    decay = {} if name == "Rprop" else {"weight_decay": 0.01}
    theirs = make(parameters, lr=0.1, **decay, **settings)
    for step in range(10):
        for parameter, gradient in zip(parameters, gradients(step, "float32"), strict=True):
            parameter.grad = torch.tensor(gradient)
        theirs.step()
    tensors = [nn.Parameter(p.detach().numpy()) for p in parameters]
    ours = getattr(optim, name)(tensors)
    ours.load_state_dict(theirs.state_dict())
    assert ours.lr == 0.1
    one_step(10, tensors, parameters, (ours, theirs))
    for tensor, parameter in zip(tensors, parameters, strict=True):
        np.testing.assert_allclose(tensor.to_host(), parameter.detach(), atol=1e-5)
    saved = ours.state_dict()
    arrays = {
        number: {key: torch.tensor(value) for key, value in entry.items()}
        for number, entry in saved["state"].items()
    }
    fresh = make(parameters)
    fresh.load_state_dict({**saved, "state": arrays})
    assert fresh.param_groups[0].items() >= {"lr": 0.1, **decay}.items()
    one_step(11, tensors, parameters, (ours, fresh))
    for tensor, parameter in zip(tensors, parameters, strict=True):
        np.testing.assert_allclose(tensor.to_host(), parameter.detach(), atol=2e-5)


def test_rprop_takes_what_is_not_finite() -> None:
    """Each element apart: turns, zeros, infinities and NaN, one after the other."""
    rows = np.array([[1, -1, 0, np.inf, np.nan, 2], [1, 1, 1, -np.inf, 1, 0], [1, -1, -1, 1, 1, 1]])
    parameter = torch.zeros(6, requires_grad=True)
    theirs = torch.optim.Rprop([parameter], lr=0.1)
    for row in rows:
        parameter.grad = torch.tensor(row, dtype=torch.float32)
        theirs.step()
    for device in usable_devices():
        tensor = nn.Parameter(nc.zeros(6, device=device))
        ours = optim.Rprop([tensor], lr=0.1)
        for row in rows:
            tensor.grad = nc.tensor(row.astype(np.float32), device)
            ours.step()
        np.testing.assert_allclose(tensor.to_host(), parameter.detach(), rtol=1e-6)
