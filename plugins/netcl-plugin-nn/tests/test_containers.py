"""Containers do what PyTorch's do: names, order, text, slices, and what they refuse."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import ArgumentError, MissingNameError

torch = pytest.importorskip("torch")


def layers(library: Any, *sizes: int) -> list[Any]:
    return [library.Linear(3, size) for size in sizes]


def sequential(library: Any) -> list[Any]:
    net = library.Sequential(OrderedDict(first=library.Linear(3, 4), act=library.ReLU()))
    net.append(library.Linear(4, 5))
    other = library.Sequential(*layers(library, 6, 7))
    other.insert(1, library.Tanh())
    del other[0]
    other.extend([library.ReLU(), library.Tanh()])
    other[-1] = library.Sigmoid()
    return [net, net[1:], net[:2] + other, other, other.pop(0), other * 2, library.Sequential()]


def module_list(library: Any) -> list[Any]:
    held = library.ModuleList(layers(library, 3, 3, 4))
    held.insert(0, library.ReLU())
    held += layers(library, 4)
    held.extend(layers(library, 5))
    return [held, held[1:3], held.pop(1), held + layers(library, 6), held, library.ModuleList()]


def module_dict(library: Any) -> list[Any]:
    held = library.ModuleDict({"b": library.ReLU(), "a": library.Linear(3, 4)})
    held.update([("c", library.Tanh())])
    held["b"] = library.Sigmoid()
    popped = held.pop("a")
    assert list(held) == list(held.keys()) == ["b", "c"] and "b" in held and len(held) == 2
    assert [type(each).__name__ for each in held.values()] == ["Sigmoid", "Tanh"]
    assert [name for name, _ in held.items()] == ["b", "c"]
    return [held, popped]


@pytest.mark.parametrize("make", [sequential, module_list, module_dict])
def test_containers_equal_pytorch(make: Any) -> None:
    for ours, theirs in zip(make(nn), make(torch.nn), strict=True):
        assert repr(ours) == repr(theirs)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert [name for name, _ in ours.named_modules()] == [
            name for name, _ in theirs.named_modules()
        ]


@pytest.mark.parametrize("name", ["ModuleList", "Sequential", "ModuleDict"])
def test_none_keeps_a_place(name: str) -> None:
    def seen(library: Any) -> list[Any]:
        items = [library.Linear(1, 1), None, library.ReLU()]
        kind = getattr(library, name)
        held = kind(dict(zip("abc", items, strict=True))) if name == "ModuleDict" else (
            kind(items) if name == "ModuleList" else kind(*items))  # fmt: skip
        facts = [repr(held), len(held), [each is None for each in held], list(held.state_dict())]
        facts += [len(list(held.children())), [key for key, _ in held.named_modules()]]
        if name != "ModuleDict":
            held[0], held[1] = None, library.Tanh()
            facts += [repr(held), repr(held[1:]), held[0] is None, len(held.append(None))]
            held.insert(1, library.ReLU())
        return [*facts, repr(held), list(held._modules)]

    assert seen(nn) == seen(torch.nn)


def test_parameter_lists_keep_frozen_parameters() -> None:
    frozen, tensor = nn.Parameter(nc.ones(1), requires_grad=False), nc.ones(1, requires_grad=True)
    held = nn.ParameterList([frozen, tensor, None])
    assert held[0] is frozen and isinstance(held[1], nn.Parameter) and held[2] is None
    assert list(held.state_dict()) == ["0", "1"] and "(2): None" in repr(held)
    assert nn.ParameterDict({"a": frozen, "b": None})["a"] is frozen


def test_sequential_runs_what_it_holds() -> None:
    net = nn.Sequential(OrderedDict(first=nn.Linear(3, 4), act=nn.ReLU()))
    assert net(nc.zeros(2, 3)).shape == (2, 4) and net.first is net[0] and net[0] in net
    with pytest.raises(ArgumentError, match=r"Sequential: a int; expected an nn\.Module"):
        net.insert(0, 3)
    assert [name for name, _ in net.named_children()] == ["first", "act"]


def test_a_name_of_a_method_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'keys' is an attribute already"):
        nn.ModuleDict({"keys": nn.ReLU()})
    held = nn.ModuleDict({"a": nn.ReLU()})
    held.clear()
    assert len(held) == 0 and held.get("a") is None
    with pytest.raises(KeyError):
        held["a"]


def test_parameter_lists() -> None:
    frozen = nn.Parameter(np.ones(3, np.float32))
    held = nn.ParameterList([np.ones(2, np.float32), frozen])
    held.append(nc.zeros(4)).insert(0, np.zeros(1, np.float32))
    assert held[2] is frozen and [each.shape for each in held] == [(1,), (2,), (3,), (4,)]
    frozen.requires_grad_(False)
    assert held.pop(0).shape == (1,)
    assert held[1] is frozen and not frozen.requires_grad  # numbered anew, and not changed
    assert list(held.state_dict()) == ["0", "1", "2"] and len(held[1:]) == 2
    assert "(1): Parameter of float32 and shape (3,)" in repr(held)
    assert all(each.requires_grad for each in held[::2])


def test_parameter_dicts() -> None:
    held = nn.ParameterDict({"w": np.ones(2, np.float32)})
    assert held.setdefault("b", nc.zeros(3)) is held["b"] and held["b"].requires_grad
    assert list(held.state_dict()) == ["w", "b"] and "w" in held and held.get("x") is None
    assert held.pop("w").shape == (2,) and list(held) == ["b"]
    assert repr(held) == "ParameterDict(\n  (b): Parameter of float32 and shape (3,)\n)"


class Net(nn.Module):
    def __init__(self) -> None:
        self.register_buffer("mean", nc.zeros(2))
        self.weight = nn.Parameter(np.ones(2, np.float32))
        self.blocks = nn.ModuleList([nn.Linear(2, 2)])
        self.same = self.blocks[0]


def test_walks_and_names() -> None:
    net = Net()
    assert net.get_submodule("blocks.0") is net.same and net.get_submodule("") is net
    assert net.get_parameter("blocks.0.bias") is net.same.bias
    assert net.get_buffer("mean") is net.mean
    for call in (net.get_submodule, net.get_parameter, net.get_buffer):
        with pytest.raises(MissingNameError, match="it has no 'nothing'"):
            call("blocks.nothing" if call != net.get_buffer else "nothing")
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == ["net.weight"]
    names = [name for name, _ in net.named_parameters(remove_duplicate=False)]
    assert names == ["weight", "blocks.0.weight", "blocks.0.bias", "same.weight", "same.bias"]
    assert list(net.state_dict(prefix="net."))[:2] == ["net.weight", "net.mean"]
    assert [name for name, _ in net.named_modules(prefix="n")] == ["n", "n.blocks", "n.blocks.0"]
    assert "0" not in dir(net.blocks) and "weight" in dir(net)
    net.register_module("more", nn.ReLU())
    assert "more" in dict(net.named_children())
    seen: list[str] = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ModuleList", "Linear", "ReLU", "Net"]


def test_casts() -> None:
    layer = nn.Linear(2, 2).cpu()
    for name, dtype in {"half": "float16", "double": "float64", "bfloat16": "bfloat16",
                        "float": "float32"}.items():  # fmt: skip
        assert getattr(layer, name)() is layer and layer.weight.dtype == dtype
    like = nc.Tensor.zeros((1,), "float64", "numpy")
    assert layer.to(like, non_blocking=True).weight.dtype == "float64"


def test_what_is_registered_wrongly_is_told_how() -> None:
    net = Net()
    array = np.zeros(3, np.float32)
    with pytest.raises(ArgumentError, match=r"buffer 'b'; .* Make a tensor of it: nc\.tensor\(x\)"):
        net.register_buffer("b", array)
    for value in (array, nc.ones(3)):
        with pytest.raises(ArgumentError, match=r"parameter 'p'; .*nn\.Parameter\(x\)"):
            net.register_parameter("p", value)
    with pytest.raises(ArgumentError, match=r"result of an op.*nn\.Parameter\(x\.detach\(\)\)"):
        net.register_parameter("p", net.weight * 2.0)
    net.register_parameter("none", None)
    assert net.none is None and "none" in net._parameters and "none" not in net.state_dict()
