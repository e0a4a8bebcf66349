"""Hooks of modules: what they see and change, in PyTorch's order; compiled and captured ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import drawn

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, ReplayError

X = drawn(3, 4)


class Scaled(nn.Module):
    """Two inputs and a keyword in, two results out."""

    def forward(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        return ag.mul(x, scale), ag.mul(x, y)


def test_forward_hooks_see_and_change_in_order() -> None:
    layer, seen = nn.Linear(4, 2), []
    x = nc.tensor(X)
    plain = layer(x).numpy()
    layer.register_forward_hook(lambda module, args, output: seen.append("second"))
    layer.register_forward_hook(lambda *given: seen.append("first"), prepend=True)
    doubled = layer.register_forward_hook(lambda module, args, output: output * 2)
    halved = layer.register_forward_pre_hook(lambda module, args: args[0] * 0.0)
    wrapped = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1.0,), prepend=True)
    np.testing.assert_allclose(
        layer(x).numpy(), 2 * layer.bias.numpy() * np.ones((3, 1)), rtol=1e-6
    )
    assert seen == ["first", "second"]
    for handle in (doubled, halved, wrapped, doubled):
        handle.remove()
    np.testing.assert_array_equal(layer(x).numpy(), plain)
    with layer.register_forward_hook(lambda *given: nc.zeros(1)):
        assert layer(x).shape == (1,)
    np.testing.assert_array_equal(layer(x).numpy(), plain)


def test_forward_hooks_with_keywords() -> None:
    module, seen = Scaled(), []
    one = nc.ones(2)

    def before(module: Any, args: Any, kwargs: Any) -> Any:
        return args, {"scale": kwargs["scale"] + 1}

    def after(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        seen.append(kwargs)

    handle = module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after, with_kwargs=True)
    assert module(one, one, scale=2.0)[0].tolist() == [3, 3]
    assert seen == [{"scale": 3.0}]
    handle.remove()
    module.register_forward_pre_hook(lambda *given: one, with_kwargs=True)
    with pytest.raises(ArgumentError, match=r"None or \(args, kwargs\)"):
        module(one, one)
    with pytest.raises(ArgumentError, match="a function"):
        module.register_forward_hook(3)


@pytest.mark.parametrize("changes", [False, True])
def test_backward_hooks_equal_pytorch(changes: bool) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for library, make in ((torch.nn, torch.tensor), (nn, nc.tensor)):
        seen: list[Any] = []

        def hook(module: Any, grads: Any, of: Any, seen: Any = seen) -> Any:
            seen.append([np.array(x.tolist()) for x in (*grads, *of)])
            return tuple(x * 3.0 for x in grads) if changes else None

        layer = library.Linear(4, 2, bias=False)
        layer.load_state_dict({"weight": make(drawn(2, 4))})
        layer.register_full_backward_hook(hook)
        x = make(X, requires_grad=True)
        y = layer(x * 2.0)
        (y * y).sum().backward()
        found.append([*seen[0], np.array(x.grad.tolist()), np.array(layer.weight.grad.tolist())])
        assert len(seen) == 1
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_backward_hooks_of_several_inputs_and_results() -> None:
    module, seen = Scaled(), []
    module.register_full_backward_hook(lambda *given: seen.append(given))
    module.register_full_backward_hook(lambda module, grads, of: (grads[0], grads[1] * 0.0))
    x, y = nc.tensor(X, requires_grad=True), nc.tensor(X + 1, requires_grad=True)
    first, second = module(x, y)
    ag.sum(first + second * 2.0).backward()
    ((of, grads, results),) = seen
    assert of is module
    np.testing.assert_allclose(grads[0].numpy(), 1 + 2 * (X + 1), rtol=1e-5)
    np.testing.assert_allclose(grads[1].numpy(), 2 * X, rtol=1e-5)
    np.testing.assert_array_equal(results[0].numpy(), np.ones((3, 4)))
    np.testing.assert_array_equal(results[1].numpy(), 2 * np.ones((3, 4)))
    np.testing.assert_allclose(x.grad.numpy(), grads[0].numpy())
    assert not y.grad.numpy().any()
    module.register_full_backward_hook(lambda module, grads, of: grads[0])
    with pytest.raises(ArgumentError, match="1 gradients; expected one for each of 2"):
        ag.sum(module(x, y)[1]).backward()


def test_a_backward_hook_without_a_gradient_of_the_input() -> None:
    layer, seen = nn.Linear(4, 2), []
    layer.register_full_backward_hook(lambda module, grads, of: seen.append((grads, of)))
    ag.sum(layer(nc.tensor(X))).backward()
    ((grads, of),) = seen
    assert grads == (None,) and of[0].numpy().tolist() == np.ones((3, 2)).tolist()
    with ag.no_grad():
        layer(nc.tensor(X))


def test_compiled_hooks_are_part_of_the_program_and_watched() -> None:
    layer, x = nn.Linear(4, 2), nc.tensor(X)
    compiled = ag.jit_compile(lambda x: layer(x) * 1.0)
    plain = compiled(x).numpy()
    with layer.register_forward_hook(lambda module, args, output: output * 2.0):
        np.testing.assert_allclose(compiled(x).numpy(), 2 * plain, rtol=1e-6)
    np.testing.assert_allclose(compiled(x).numpy(), plain, rtol=1e-6)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda *given: seen.append(given))
    with pytest.warns(nc.errors.FusionSkipped, match="."):
        ag.sum(compiled(nc.tensor(X, requires_grad=True))).backward()
    assert len(seen) == 1


def test_a_captured_hook_cannot_read_values() -> None:
    layer, x = nn.Linear(4, 2), nc.tensor(X)
    scale = layer.register_forward_hook(lambda module, args, output: output * 2.0)
    graph = ag.capture(layer, x)
    np.testing.assert_array_equal(graph(X + 1).numpy(), layer(nc.tensor(X + 1)).numpy())
    scale.remove()
    layer.register_forward_hook(lambda module, args, output: output.numpy() and None)
    with pytest.raises(ReplayError, match="reads a tensor's values"):
        ag.capture(layer, x)
