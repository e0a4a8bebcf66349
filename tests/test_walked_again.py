"""A second walk over a graph: where PyTorch's raises, and where it does not; what is freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff
from netcl_core.errors import GradientError

torch = pytest.importorskip("torch")
F = torch.nn.functional

#: Of x, by one op and a sum; both libraries have each under this name.
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "x + 1": lambda m, x: x + 1,
    "-x": lambda m, x: -x,
    "reshape": lambda m, x: x.reshape(-1),
    "transpose": lambda m, x: x.T,
    "x[0]": lambda m, x: x[0],
    "cat": lambda m, x: m.cat([x, x]),
    "mean": lambda m, x: x.mean(),
    "x * x": lambda m, x: x * x,
    "exp": lambda m, x: x.exp(),
    "tanh": lambda m, x: m.tanh(x),
    "relu": lambda m, x: m.relu(x),
    "softmax": lambda m, x: m.softmax(x, 1),
    "matmul": lambda m, x: m.matmul(x, x),
    "max of a dimension": lambda m, x: x.max(1)[0],
    "cumsum": lambda m, x: m.cumsum(x, 1),
}


def leaf(module: Any) -> Any:
    return module.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)


def walked(module: Any, function: Callable[[Any, Any], Any], *retain: bool) -> tuple[Any, str]:
    """The gradient after walks over one graph, and what the first error said, if there was one."""
    x = leaf(module)
    y = function(module, x)
    loss = y if y.shape == () else y.sum()
    said = ""
    for each in retain:
        try:
            loss.backward(retain_graph=each)
        except RuntimeError as error:
            said = said or str(error)
    return x.grad.numpy(), said


@pytest.mark.parametrize("name", OPS)
def test_it_raises_where_pytorchs_does(name: str, either: nc.Device) -> None:
    found, said = walked(nc, OPS[name], False, False)
    right, theirs = walked(torch, OPS[name], False, False)
    assert bool(said) == bool(theirs)
    assert not said or "retain_graph=True" in said
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPS)
def test_a_retained_graph_adds_the_same_again(name: str, on_numpy: None) -> None:
    found, said = walked(nc, OPS[name], True, True, False)
    right, theirs = walked(torch, OPS[name], True, True, False)
    assert said == theirs == ""
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def two_losses(module: Any, retain: bool) -> Any:
    x = leaf(module)
    shared = module.tanh(x)
    first, second = (shared * shared).sum(), (shared * 3).sum()
    first.backward(retain_graph=retain)
    said = ""
    try:
        second.backward()
    except RuntimeError as error:
        said = str(error)
    return [x.grad.tolist(), "retain_graph=True" in said]


@pytest.mark.parametrize("retain", [False, True])
def test_two_losses_that_share_a_graph(retain: bool, either: nc.Device) -> None:
    found, right = two_losses(nc, retain), two_losses(torch, retain)
    assert found[1] == right[1] == (not retain)
    np.testing.assert_allclose(found[0], right[0], rtol=1e-5)


def test_nothing_is_added_by_a_walk_that_is_refused(either: nc.Device) -> None:
    x, w = leaf(nc), leaf(nc)
    shared = ag.tanh(x)
    ag.sum(shared).backward()
    held = x.grad.numpy()
    with pytest.raises(GradientError, match=r"backward through tanh of .*: shared = ag.tanh\(x\)"):
        ag.sum(shared * w).backward()
    assert w.grad is None
    np.testing.assert_array_equal(x.grad.numpy(), held)


def test_grad_frees_but_for_create_graph(either: nc.Device) -> None:
    x = leaf(nc)
    y = ag.sum(x * x * x)
    [slope] = ag.grad(y, x, create_graph=True)
    [bend] = ag.grad(ag.sum(slope), x, retain_graph=True)
    np.testing.assert_allclose(bend.numpy(), 6 * x.numpy())
    [again] = ag.grad(y, x)
    np.testing.assert_array_equal(slope.numpy(), again.numpy())
    with pytest.raises(GradientError, match="retain_graph=True"):
        ag.grad(y, x)


@pytest.mark.usefixtures("on_numpy")
def test_grad_of_what_is_not_used() -> None:
    for module, grad in ((nc, ag.grad), (torch, torch.autograd.grad)):
        x, other = leaf(module), leaf(module)
        with pytest.raises(RuntimeError, match="allow_unused=True"):
            grad((x * x).sum(), [x, other])
        found = grad((x * x).sum(), [x, other], allow_unused=True)
        assert found[0] is not None and found[1] is None


def compiled(x: Any) -> Any:
    return ag.jit_compile(lambda x: ag.sum(ag.exp(x) * 2))(x)


def checkpointed(x: Any) -> Any:
    return autodiff.checkpoint(lambda x: ag.sum(ag.exp(x)), x)


def joined(x: Any) -> Any:
    return ag.jit_compile(lambda x: ag.sum(ag.softmax(x * 2, 1) + x))(x)


@pytest.mark.parametrize("make", [compiled, checkpointed, joined])
def test_other_kinds_of_calls(make: Callable[[Any], Any], either: nc.Device) -> None:
    x = leaf(nc)
    loss = make(x)
    loss.backward(retain_graph=True)
    first = x.grad.numpy()
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * first)
    with pytest.raises(GradientError, match="retain_graph=True"):
        loss.backward()


def test_a_call_that_was_walked_has_neither_gradients_nor_parents(either: nc.Device) -> None:
    y = ag.exp(leaf(nc))
    grad_fn, seed = y.grad_fn, nc.ones(2, 2)
    assert len(grad_fn(seed)) == len(y.parents) == 1
    y.backward(seed)
    assert y.parents == []
    with pytest.raises(GradientError, match=r"grad_fn of exp.*retain_graph=True"):
        grad_fn(seed)


@pytest.mark.parametrize("retain", [False, True])
def test_what_was_saved_is_freed_with_its_memory(retain: bool, either: nc.Device) -> None:
    x = leaf(nc)
    hidden = ag.exp(x)
    gone = weakref.ref(hidden.value)
    loss = ag.sum(hidden * hidden)
    del hidden
    loss.backward(retain_graph=retain)
    gc.collect()
    assert (gone() is None) is not retain


def test_it_is_freed_while_the_walk_goes_on(either: nc.Device) -> None:
    """So that what a step keeps shrinks as its gradients come into being."""
    x = leaf(nc)
    low = ag.exp(x)
    high = ag.exp(low)
    gone, seen = weakref.ref(high.value), []
    low.register_hook(lambda grad: seen.append(gone() is None))
    loss = ag.sum(high * high)
    del low, high
    gc.collect()
    gc.disable()  # what is freed is freed at once, and not by the collector
    try:
        loss.backward()
    finally:
        gc.enable()
    assert seen == [True]
