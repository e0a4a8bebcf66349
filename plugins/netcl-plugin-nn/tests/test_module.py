"""Module: what it registers, walks, saves, loads, moves and shows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, DeviceError, DtypeError
from netcl_core.testing import usable_devices


class Block(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(np.full(3, 2, np.float32))
        self.inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
        self.register_buffer("mean", nc.tensor(np.zeros(3, np.float32)))
        self.register_buffer("hits", nc.tensor(np.zeros(3, np.int64)), persistent=False)
        self.note = "plain"

    def forward(self, x: Any) -> Any:
        return self.inner(ag.mul(x, self.scale))


NAMES = ["scale", "inner.0.weight", "inner.0.bias", "inner.2.weight"]


def host(module: nn.Module) -> dict[str, Any]:
    return {name: tensor.to_host() for name, tensor in module.state_dict().items()}


def test_attributes_are_registered_by_what_they_are() -> None:
    block = Block()
    assert [name for name, _ in block.named_parameters()] == NAMES
    assert [name for name, _ in block.named_buffers()] == ["mean", "hits"]
    assert [name for name, _ in block.named_children()] == ["inner"]
    expected = ["", "inner", "inner.0", "inner.1", "inner.2"]
    assert [name for name, _ in block.named_modules()] == expected
    assert list(block.state_dict()) == ["scale", "mean", *NAMES[1:]]


def test_a_parameter_shares_the_buffer_of_a_tensor() -> None:
    tensor = nc.tensor(np.ones(2, np.float32))
    assert nn.Parameter(tensor).buffer is tensor.buffer
    assert nn.Parameter(tensor).requires_grad and not tensor.requires_grad
    with pytest.raises(DtypeError, match="floating"):
        nn.Parameter(np.ones(2, np.int64))


def test_other_attributes_are_left_alone() -> None:
    block = Block()
    result = ag.mul(nc.tensor(np.ones(3, np.float32)), block.scale)
    block.last = result
    assert block.last is result
    block.leaf = nc.tensor(np.ones(1, np.float32), requires_grad=True)
    assert "leaf" not in dict(block.named_parameters())
    block.scale = None
    del block.inner
    assert list(block.named_parameters()) == []
    block.mean = nc.tensor(np.ones(3, np.float32))
    assert "mean" in block.state_dict()


def test_names_are_checked() -> None:
    block = Block()
    with pytest.raises(ArgumentError, match="an attribute already"):
        block.register_buffer("note", nc.tensor(1.0))
    with pytest.raises(ArgumentError, match="a dot"):
        block.register_parameter("a.b", nc.tensor(1.0))
    with pytest.raises(ArgumentError, match=r"nn\.Module"):
        block.add_module("more", "text")
    with pytest.raises(ArgumentError, match="leaf"):
        block.register_parameter("more", "text")


def test_shared_parameters_count_once_and_are_saved_twice() -> None:
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(net.parameters())) == 2 and len(list(net.modules())) == 3
    assert len(net.state_dict()) == 4


def test_a_state_loads_into_a_model_of_the_same_structure() -> None:
    source, target = Block(), Block()
    report = target.load_state_dict(host(source))
    assert report == ([], [])
    for name, value in host(source).items():
        np.testing.assert_array_equal(value, host(target)[name])
    target.load_state_dict(source.state_dict())  # tensors serve as well


@pytest.mark.parametrize("strict", [True, False])
def test_a_state_that_does_not_fit_changes_nothing(strict: bool) -> None:
    block = Block()
    before = host(block)
    state = {**before, "inner.0.bias": np.zeros(9, np.float32), "extra": np.zeros(1)}
    del state["scale"]
    state["mean"] = np.ones(3, np.float32)
    with pytest.raises(nn.StateError) as caught:
        block.load_state_dict(state, strict=strict)
    assert r"inner.0.bias (shape (9,) given, (4,) expected)" in str(caught.value)
    assert ("missing scale" in str(caught.value)) is strict
    assert ("unexpected extra" in str(caught.value)) is strict
    for name, value in before.items():
        np.testing.assert_array_equal(value, host(block)[name])


def test_not_strict_loads_what_fits() -> None:
    block = Block()
    report = block.load_state_dict({"mean": np.ones(3), "extra": np.zeros(1)}, strict=False)
    assert report.unexpected_keys == ["extra"] and report.missing_keys == NAMES
    assert block.mean.to_host().tolist() == [1, 1, 1]


def test_train_and_eval_reach_all_modules() -> None:
    block = Block()
    assert all(module.training for module in block.modules())
    assert not any(module.training for module in block.eval().modules())
    assert all(module.training for module in block.train().modules())


def test_zero_grad_and_freezing() -> None:
    block = Block()
    x = nc.tensor(np.ones((5, 3), np.float32))
    ag.sum(block(x)).backward()
    assert all(p.grad is not None for p in block.parameters())
    block.zero_grad(set_to_none=False)
    assert not block.scale.grad.to_host().any()
    block.zero_grad()
    assert all(p.grad is None for p in block.parameters())
    block.requires_grad_(False)
    assert [name for name, _ in block.named_parameters()] == NAMES
    assert not block(x).requires_grad


def test_to_moves_in_place() -> None:
    block = Block()
    parameters, before = list(block.parameters()), host(block)
    ag.sum(block(nc.tensor(np.ones((1, 3), np.float32)))).backward()
    for device in usable_devices():
        assert block.to(device) is block
        assert [id(p) for p in block.parameters()] == [id(p) for p in parameters]
        assert all(p.device is device and p.grad.device is device for p in parameters)
        assert block.hits.device is device
        for name, value in before.items():
            np.testing.assert_array_equal(value, host(block)[name])
        result = block(nc.Tensor.ones((2, 3), device=device))
        assert result.device is device and result.requires_grad


def test_to_converts_floating_tensors_only() -> None:
    block = Block().to("cpu", "float64")
    assert {p.dtype for p in block.parameters()} == {"float64"}
    assert (block.mean.dtype, block.hits.dtype) == ("float64", "int64")
    block.to(dtype=np.float16)
    assert block.scale.dtype == "float16" and block.scale.requires_grad
    with pytest.raises(DtypeError, match="floating"):
        block.to("int32")
    with pytest.raises(DeviceError, match="no usable device"):
        block.to("opencl:999", "float32")
    assert block.scale.dtype == "float16"


def test_a_deep_copy_is_independent() -> None:
    block = Block()
    other = copy.deepcopy(block)
    nn.init.zeros_(other.scale)
    assert block.scale.to_host().any() and not other.scale.to_host().any()
    assert [name for name, _ in other.named_parameters()] == NAMES


def test_apply_goes_from_the_leaves_to_the_root() -> None:
    seen: list[str] = []
    Block().apply(lambda module: seen.append(type(module).__name__))
    assert seen[-2:] == ["Sequential", "Block"]


def test_the_text_shows_the_structure() -> None:
    assert repr(Block()) == (
        "Block(\n"
        "  (inner): Sequential(\n"
        "    (0): Linear(in_features=3, out_features=4, bias=True)\n"
        "    (1): ReLU()\n"
        "    (2): Linear(in_features=4, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="ModuleList: it has no forward"):
        nn.ModuleList()(1)


def test_a_module_loads_its_own_state() -> None:
    for device in usable_devices():
        layer = nn.Linear(3, 2, device=device)
        before = layer.weight.to_host()
        layer.load_state_dict(layer.state_dict())
        np.testing.assert_array_equal(layer.weight.to_host(), before)


def test_a_registered_name_takes_what_it_is_registered_for() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(np.ones(2, np.float32))
            self.inner = nn.Linear(2, 2)
            self.register_buffer("seen", nc.Tensor.zeros((1,)))

    model = Model()
    result = ag.mul(model.weight, 2.0)
    for name, kind, values in (
        ("weight", "parameter", (1.0, "w", np.ones(2), [1.0], result, nn.ReLU(), max, nc.ones(2))),
        ("inner", "module", (1.0, max, nc.Tensor.ones((2,)), result)),
        ("seen", "buffer", (1, np.ones(1), result)),
    ):
        for value in values:
            text = f"Model: cannot assign a .* as {kind} '{name}'; expected an? .* or None"
            with pytest.raises(TypeError, match=text):
                setattr(model, name, value)
    assert [name for name, _ in model.named_parameters()] == [
        "weight", "inner.weight", "inner.bias"
    ]  # fmt: skip
    model.weight.data.copy_(nc.tensor([3.0, 4.0]))  # what the error says
    assert model.weight.tolist() == [3.0, 4.0]
    model.weight = model.inner = model.seen = None
    assert list(model.named_parameters()) == list(model.named_buffers()) == []
    assert list(model.named_children()) == []
    assert model.state_dict() == {}
    with pytest.raises(TypeError, match="as parameter 'weight'"):
        model.weight = 3
    model.inner, model.weight = nn.Linear(2, 1), nn.Parameter(np.ones(2, np.float32))
    assert list(model.state_dict()) == ["weight", "inner.weight", "inner.bias"]
    del model.weight
    model.weight = 3
    assert list(model.state_dict()) == ["inner.weight", "inner.bias"]
    model.inner = nn.Parameter(np.ones(2, np.float32))
    assert list(model.state_dict()) == ["inner"]
    model.register_parameter("late", None)
    model.register_buffer("kept", None)
    with pytest.raises(TypeError, match="as parameter 'late'"):
        model.late = 3
    model.late, model.kept = nn.Parameter(np.ones(2, np.float32)), nc.Tensor.ones((1,))
    assert list(model.state_dict()) == ["inner", "late", "kept"]


def test_a_frozen_parameter_is_one() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.scale = nn.Parameter(np.ones(2, np.float32), requires_grad=False)
            self.rest = nn.ParameterList([self.scale, nc.zeros(3)])
            self.free = nn.Parameter(np.ones(2, np.float32))

    model = Model()
    assert list(model.state_dict()) == ["scale", "free", "rest.0", "rest.1"]
    assert model.rest[0] is model.scale and isinstance(model.scale, nn.Parameter)
    assert [each.requires_grad for each in model.parameters()] == [False, True, True]
    optimizer = nc.optim.SGD(model.parameters(), lr=1.0)
    nc.sum(model.scale * model.free).backward()
    optimizer.step()
    assert model.scale.tolist() == [1.0, 1.0] and model.free.tolist() == [0.0, 0.0]


def test_a_list_of_modules_may_hold_none() -> None:
    held = nn.ModuleList([nn.Linear(1, 1), None])
    held.append(None)
    assert len(held) == 3 and list(held)[1:] == [None, None]
    assert list(held.state_dict()) == ["0.weight", "0.bias"]
    assert [each for each in held if each is not None] == list(held.children())
    held[1] = nn.ReLU()
    assert isinstance(held[1], nn.ReLU) and repr(held).splitlines()[-2] == "  (2): None"
    with pytest.raises(TypeError, match=r"expected an nn\.Module or None"):
        held.append(3)


def test_what_a_module_holds_is_a_dict_that_changes_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for name, layer in model._modules.items():
        if isinstance(layer, nn.Linear):
            model._modules[name] = nn.Identity()
    assert isinstance(model[0], nn.Identity) and list(model._modules) == ["0", "1"]
    norm = model[1]
    assert list(norm._buffers) == ["running_mean", "running_var", "num_batches_tracked"]
    assert list(norm._parameters) == ["weight", "bias"] and norm._parameters["bias"] is norm.bias
    norm._parameters["scale"] = nn.Parameter(np.ones(1, np.float32))
    del norm._parameters["bias"]
    assert [name for name, _ in norm.named_parameters()] == ["weight", "scale"]
    with pytest.raises(KeyError):
        norm._buffers["weight"]
