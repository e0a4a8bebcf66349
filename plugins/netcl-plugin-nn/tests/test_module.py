"""Module: what it registers, walks, saves, loads, moves and shows."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, DeviceError, DtypeError


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
    block.leaf = ag.tensor(nc.tensor(np.ones(1, np.float32)), requires_grad=True)
    block.tensor = nc.ones(1, requires_grad=True)
    assert [name for name, _ in block.named_parameters()] == NAMES
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
        block.register_parameter("a.b", nn.Parameter(1.0))
    with pytest.raises(ArgumentError, match=r"nn\.Module"):
        block.add_module("more", "text")
    for value in ("text", nc.tensor(1.0)):
        with pytest.raises(
            ArgumentError, match=r"Block: .* parameter 'more'; expected an nn\.Para"
        ):
            block.register_parameter("more", value)


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


def test_a_state_from_before_batches_were_counted_fits() -> None:
    norm = nn.Sequential(nn.BatchNorm1d(2))
    state = {name: x for name, x in norm.state_dict().items() if not name.endswith("_tracked")}
    assert len(state) == 4 and norm.load_state_dict(state) == ([], [])


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
    block = Block().to("numpy", "float64")
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
        (
            "weight",
            "parameter",
            (
                1.0,
                "w",
                np.ones(2, np.float32),
                [1.0],
                result,
                nn.ReLU(),
                max,
                nc.ones(2),
                nc.ones(2, requires_grad=True),
            ),
        ),
        ("inner", "module", (1.0, max, nc.Tensor.ones((2,)), result)),
        ("seen", "buffer", (1, np.ones(1), "text", max)),
    ):
        for value in values:
            text = f"Model: cannot assign a .* as {kind} '{name}'; expected an? .* or None"
            with pytest.raises(TypeError, match=text):
                setattr(model, name, value)
    assert [name for name, _ in model.named_parameters()] == [
        "weight", "inner.weight", "inner.bias"
    ]  # fmt: skip
    model.weight = nn.Parameter(nc.ones(2), requires_grad=False)
    assert "weight" in dict(model.named_parameters())
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


def test_the_error_of_a_tensor_for_a_parameter_says_what_to_write() -> None:
    layer = nn.Linear(2, 2)
    for value in (nc.ones(2, 2), nc.ones(2, 2, requires_grad=True), layer.weight * 2):
        with pytest.raises(TypeError) as caught:
            layer.weight = value
        text = str(caught.value)
        for part in ("Linear: cannot assign a", "as parameter 'weight'; expected an nn.Parameter",
                     "nn.Parameter(", "no_grad", "module.weight.copy_("):  # fmt: skip
            assert part in text
    assert isinstance(layer.weight, nn.Parameter)


def test_a_buffer_takes_any_tensor() -> None:
    block = Block()
    block.mean = block.mean * 0.9 + 1
    assert type(block.mean) is nc.Tensor
    block.mean = ag.mul(block.mean, block.scale)  # with its graph, as a state of a recurrent net
    ag.sum(block.mean).backward()
    assert block.scale.grad is not None and "mean" in block.state_dict()
    block.to("numpy", "float64")
    assert block.mean.dtype == "float64" and not block.mean.requires_grad
    block.load_state_dict(block.state_dict())
    copy.deepcopy(block)


def test_a_frozen_parameter_is_one() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            self.fixed = nn.Parameter(nc.tensor([3.0]), requires_grad=False)
            self.count = nn.Parameter(nc.tensor([3]), requires_grad=False)
            self.weight = nn.Parameter(nc.tensor([2.0]))

        def forward(self, x: Any) -> Any:
            return x * self.fixed * self.weight

    for model in (Frozen(), copy.deepcopy(Frozen())):
        assert list(model.state_dict()) == ["fixed", "count", "weight"]
        assert isinstance(model.fixed, nn.Parameter) and not model.fixed.requires_grad
        ag.sum(model(nc.ones(1))).backward()
        assert model.fixed.grad is None and model.weight.grad.tolist() == [3]
        model.to("numpy", "float64")
        assert (model.fixed.dtype, model.count.dtype) == ("float64", "int64")
        model.load_state_dict({**model.state_dict(), "fixed": np.array([7.0])})
        assert model.fixed.tolist() == [7] and not model.fixed.requires_grad
        model.requires_grad_(False)
        assert len(list(model.parameters())) == 3


def both_views(library: Any, ones: Any) -> list[Any]:
    """What PyTorch's dicts show, and what changing them does."""
    net = library.nn.Linear(2, 2)
    net.register_buffer("seen", ones(1))
    net.register_buffer("kept", None, persistent=False)
    net.act = library.nn.ReLU()
    seen: list[Any] = [list(net._parameters), list(net._buffers), list(net._modules)]
    seen += ["weight" in net._parameters, net._parameters.get("x"), net._buffers["kept"]]
    net._parameters["bias"] = None
    net._parameters["late"] = library.nn.Parameter(ones(1))
    net._modules["0"] = library.nn.Tanh()
    del net._modules["act"]
    net._buffers.pop("seen")
    net._buffers["kept"] = ones(2)
    for name in net._buffers:
        net._buffers[name] = net._buffers[name] + 1
    seen += [list(net.state_dict()), list(dict(net.named_modules())), hasattr(net, "act")]
    seen += [net.kept.tolist(), net.bias is None, net.late is net._parameters["late"]]
    for read in (lambda: net._parameters["x"], lambda: net._modules.pop("x")):
        with pytest.raises(KeyError):
            read()
    net.weight = net.weight if net._parameters.copy() else None
    net._parameters = {}
    return [*seen, list(net.parameters()), len(net._modules), repr(net._parameters)]


def test_the_tables_of_a_module_are_live() -> None:
    torch = pytest.importorskip("torch")
    assert both_views(nc, nc.ones) == both_views(torch, torch.ones)


def test_recorded_gradients_pass_a_frozen_parameter() -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight = nn.Parameter(nc.tensor([[2.0, 3.0]]), requires_grad=False)
    x = nc.ones(1, 2, requires_grad=True)
    (grad,) = ag.grad(ag.square(layer(x)).sum(), [x], create_graph=True)
    grad.sum().backward()
    assert x.grad.tolist() == [[20, 30]] and layer.weight.grad is None


def test_a_shared_parameter_stays_shared() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    for made in (net, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made[0].weight is made[1].weight and len(list(made.parameters())) == 3
        assert made[0]._parameters["weight"] is made[1]._parameters["weight"]


def test_a_compiled_function_sees_what_the_tables_change() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    compiled, x = ag.jit_compile(lambda x: net(x)), nc.ones(1, 2)
    compiled(x)
    net._modules["1"] = nn.Tanh()
    net[0]._parameters["bias"] = None
    np.testing.assert_allclose(compiled(x).to_host(), net(x).to_host(), rtol=1e-6)
