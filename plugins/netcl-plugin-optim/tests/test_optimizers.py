"""What all optimizers share: launches, groups, absent gradients, states, moves, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn, optim
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DtypeError,
    MutationError,
)
from netcl_core.hardware import programs as cache

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("Adam", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True, "eps": 1e-2}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}),
]
each = pytest.mark.parametrize(("name", "settings"), KINDS, ids=[name for name, _ in KINDS])
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)


def parameters(device: Any, count: int = 3, size: int = 5, dtype: str = "float32") -> list[Any]:
    values = np.arange(size, dtype=dtype)
    return [nn.Parameter(nc.tensor(values + i, device)) for i in range(count)]


def give(tensors: list[Any], value: float = 1.0) -> None:
    for tensor in tensors:
        tensor.grad = nc.Tensor.full(tensor.shape, value, tensor.dtype, tensor.device)


@pytest.fixture
def launches(device: Device) -> Iterator[list[str]]:
    """The entries of all kernels that are launched."""
    with recorded(device) as stream:
        yield stream.launched


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize(("count", "expected"), [(1, 1), (24, 1), (25, 2), (60, 3)])
@each
def test_one_launch_per_24_parameters(
    device: Device, launches: list[str], count: int, expected: int, name: str, settings: Any
) -> None:
    tensors = parameters(device, count)
    give(tensors)
    optimizer = getattr(optim, name)(tensors, **settings)
    optimizer.step()
    launches.clear()
    optimizer.step()
    assert launches == [f"{name.lower().rstrip('w')}_step"] * expected
    others = parameters("numpy", count)
    give(others)
    reference = getattr(optim, name)(others, **settings)
    reference.step()
    reference.step()
    for tensor, other in zip(tensors, others, strict=True):
        np.testing.assert_allclose(tensor.to_host(), other.to_host(), rtol=1e-6)


@pytest.mark.parametrize("device", OPENCL, ids=str)
@each
def test_new_numbers_build_nothing(
    device: Device, name: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = parameters(device)
    give(tensors)
    optimizer = getattr(optim, name)(tensors, **settings)
    optimizer.step()
    before = len(cache._programs)
    monkeypatch.setattr(cache, "from_source", None)
    for lr in (0.2, 0.3, 0.0):
        optimizer.lr = lr
        kept = [tensor.to_host() for tensor in tensors]
        optimizer.step()
    assert len(cache._programs) == before
    for tensor, value in zip(tensors, kept, strict=True):  # the last rate was 0
        np.testing.assert_array_equal(tensor.to_host(), value)


@everywhere
@each
def test_without_a_gradient_nothing_changes(device: Device, name: str, settings: Any) -> None:
    tensors = parameters(device)
    before = [tensor.to_host() for tensor in tensors]
    give(tensors[1:2])
    getattr(optim, name)(tensors, **settings).step()
    changed = [bool((t.to_host() != b).any()) for t, b in zip(tensors, before, strict=True)]
    assert changed == [False, True, False]


@everywhere
@each
def test_each_parameter_counts_its_own_steps(device: Device, name: str, settings: Any) -> None:
    """A parameter that joins late goes the way that the others went."""
    early, late = parameters(device, 2)
    late.overwrite(early)
    optimizer = getattr(optim, name)([early, late], **settings)
    for step in range(6):
        early.grad = late.grad = None
        give([early] if step < 3 else [late], step % 3 + 1.0)
        optimizer.step()
    np.testing.assert_allclose(early.to_host(), late.to_host(), rtol=1e-6)


@everywhere
def test_groups_have_settings_of_their_own(device: Device) -> None:
    fast, slow, frozen = parameters(device)
    give([fast, slow, frozen])
    groups = [{"params": fast, "lr": 1.0}, {"params": [slow]}, {"params": [frozen], "lr": 0}]
    optimizer = optim.SGD(groups, lr=0.5)
    optimizer.step()
    values = [tensor.to_host()[0] for tensor in (fast, slow, frozen)]
    assert values == [-1.0, 0.5, 2.0]
    optimizer.lr = 0
    assert [group["lr"] for group in optimizer.param_groups] == [0, 0, 0]


@everywhere
def test_mixed_dtypes_and_empty_parameters(device: Device) -> None:
    dtypes = ["bfloat16", "float16", "float32"] + ["float64"] * device.supports_fp64
    tensors = [parameters(device, 1, dtype=dtype)[0] for dtype in dtypes]
    empty = nn.Parameter(nc.Tensor.zeros((0, 3), device=device))
    give([*tensors, empty])
    optim.SGD([*tensors, empty], lr=1.0).step()
    for tensor in tensors:
        assert tensor.to_host().tolist() == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_nothing_beyond_a_parameter_is_written(device: Device) -> None:
    """A buffer has room behind the tensor; what stands there stays."""
    backing = nc.tensor(np.full(4096 + 64, 7, np.float32), device)
    parameter = nc.Tensor(backing.buffer, (4096 + 3,), "float32", device).requires_grad_()
    give([parameter])
    optim.Adam([parameter], lr=1.0).step()
    assert (backing.to_host()[: 4096 + 3] != 7).all() and (backing.to_host()[4096 + 3 :] == 7).all()


@everywhere
@each
def test_a_saved_state_goes_on(device: Device, name: str, settings: Any) -> None:
    tensors, others = parameters(device), parameters("numpy")
    first, second = getattr(optim, name)(tensors, **settings), getattr(optim, name)(others)
    for step in range(4):
        give(tensors, step + 1.0)
        first.step()
    for tensor, other in zip(tensors, others, strict=True):
        other.overwrite(tensor)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["lr"] == 0.1
    give(tensors, -2.0)
    give(others, -2.0)
    first.step()
    second.step()
    for tensor, other in zip(tensors, others, strict=True):
        np.testing.assert_allclose(tensor.to_host(), other.to_host(), rtol=1e-5)


@each
def test_a_state_that_does_not_fit_changes_nothing(name: str, settings: Any) -> None:
    tensors = parameters("numpy")
    optimizer = getattr(optim, name)(tensors, **settings)
    give(tensors)
    optimizer.step()
    before = optimizer.state_dict()
    saved = optimizer.state_dict()
    state = next(key for key in saved["state"][1] if key != "step")
    saved["state"][1][state] = np.zeros(9, np.float32)
    saved["param_groups"][0]["lr"] = 5.0
    with pytest.raises(
        optim.OptimizerStateError, match=rf"{state} of parameter 1 has shape \(9,\)"
    ):
        optimizer.load_state_dict(saved)
    with pytest.raises(optim.OptimizerStateError, match=r"groups of \[0\] parameters"):
        optimizer.load_state_dict({"state": {}, "param_groups": [{"params": []}]})
    with pytest.raises(optim.OptimizerStateError, match="parameter 7"):
        optimizer.load_state_dict({**before, "state": {7: {}}})
    bad = {**before, "param_groups": [{**before["param_groups"][0], "lr": -1}]}
    with pytest.raises(AttributeValueError, match="lr=-1"):
        optimizer.load_state_dict(bad)
    np.testing.assert_equal(optimizer.state_dict(), before)


@each
def test_states_follow_their_parameters(name: str, settings: Any) -> None:
    """Moved to another device between two steps, a model goes on as if it had not been."""
    tensors, others = parameters("numpy"), parameters("numpy")
    module, reference = nn.Module(), getattr(optim, name)(others, **settings)
    for i, tensor in enumerate(tensors):
        module.register_parameter(f"p{i}", tensor)
    optimizer = getattr(optim, name)(tensors, **settings)
    for device in usable_devices():
        module.to(device)
        give(tensors)
        give(others)
        optimizer.step()
        reference.step()
    for tensor, other in zip(tensors, others, strict=True):
        np.testing.assert_allclose(tensor.to_host(), other.to_host(), rtol=1e-5)


@everywhere
def test_a_step_is_noticed_by_a_stale_graph(device: Device) -> None:
    (tensor,) = parameters(device, 1)
    result = ag.sum(ag.square(tensor))
    give([tensor])
    optim.SGD([tensor], lr=0.1).step()
    with pytest.raises(MutationError):
        result.backward()


def test_zero_grad() -> None:
    tensors = parameters("numpy", 2)
    optimizer = optim.SGD(tensors)
    give(tensors[:1])
    optimizer.zero_grad(set_to_none=False)
    assert not tensors[0].grad.to_host().any() and tensors[1].grad is None
    optimizer.zero_grad()
    assert tensors[0].grad is None


def test_parameters_are_checked() -> None:
    tensors = parameters("numpy")
    assert repr(optim.SGD(iter(tensors))).startswith("SGD(3 parameters, lr=0.001")
    assert len(optim.SGD([ag.tensor(tensors[0])]).param_groups[0]["params"]) == 1
    with pytest.raises(ArgumentError, match="a list of tensors"):
        optim.SGD(tensors[0])
    with pytest.raises(ArgumentError, match="no parameters"):
        optim.SGD([])
    with pytest.raises(ArgumentError, match="twice"):
        optim.Adam([tensors[0], tensors[0]])
    with pytest.raises(ArgumentError, match="a Node to optimize"):
        optim.Adam([ag.square(tensors[0])])
    with pytest.raises(DtypeError, match="int64"):
        optim.Adam([nc.tensor(np.arange(3), "numpy")])
    with pytest.raises(ArgumentError, match="'momentun'; expected momentum"):
        optim.SGD([{"params": tensors, "momentun": 1}])


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("SGD", {"lr": -1}, "lr=-1"),
        ("SGD", {"nesterov": True}, "momentum > 0"),
        ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "no dampening"),
        ("Adam", {"lr": float("nan")}, "lr=nan"),
        ("Adam", {"betas": (0.9, 1.0)}, "betas"),
        ("Adam", {"eps": "small"}, "eps='small'"),
        ("AdamW", {"betas": (1.0, 0.9)}, "AdamW: betas"),
        ("RMSprop", {"alpha": 1.5}, "alpha=1.5"),
        ("RMSprop", {"momentum": -1}, "momentum=-1"),
        ("Rprop", {"etas": (0.5, 0.9)}, r"etas=\(0.5, 0.9\); expected a number in \(0, 1\) and"),
        ("Rprop", {"step_sizes": (2, 1)}, "the lower first"),
    ],
)
def test_settings_are_checked(name: str, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(AttributeValueError, match=text):
        getattr(optim, name)(parameters("numpy"), **settings)


@everywhere
def test_a_centered_step_of_equal_gradients_is_finite(device: Device) -> None:
    """Rounding makes the variance of equal gradients negative; 0 stands for it."""
    (tensor,) = parameters(device, 1)
    optimizer = optim.RMSprop([tensor], lr=1e-3, alpha=0.5, eps=1.0, centered=True)
    for _ in range(60):
        give([tensor], 0.1)
        optimizer.step()
    assert np.isfinite(tensor.to_host()).all()


KINDS = [
    name
    for name, kind in vars(optim).items()
    if isinstance(kind, type) and issubclass(kind, optim.Optimizer) and kind is not optim.Optimizer
]


@pytest.mark.parametrize("name", KINDS)
def test_frozen_parameters_stay_as_they_are(name: str) -> None:
    frozen = nn.Parameter(nc.tensor([[1.0, 2.0]]), requires_grad=False)
    trained = nn.Parameter(nc.tensor([[3.0, 4.0]]))
    optimizer = getattr(optim, name)([frozen, trained], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (frozen * trained * trained).sum()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
    assert frozen.tolist() == [[1, 2]] and frozen.grad is None
    assert trained.tolist() != [[3, 4]]


def test_a_captured_step_leaves_frozen_parameters() -> None:
    layer = nn.Linear(2, 1)
    layer.weight = nn.Parameter(nc.ones(1, 2), requires_grad=False)
    optimizer = optim.Adam(layer.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    graph, before = ag.capture(step, nc.ones(3, 2)), layer.bias.tolist()
    graph.replay([nc.ones(3, 2)])
    assert layer.weight.tolist() == [[1, 1]] and layer.bias.tolist() != before
