"""autodiff.checkpoint: the same values and gradients, with less kept in between."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from threads import in_threads, turns

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff, nn
from netcl_core.errors import ArgumentError, GradientError, MutationError

pytestmark = pytest.mark.usefixtures("either")


def leaf(*values: float) -> Any:
    return nc.tensor(list(values), requires_grad=True)


def gradients(function: Callable[..., Any], leaves: list[Any], again: int = 1) -> list[Any]:
    for x in leaves:
        x.grad = None
    for _ in range(again):
        ag.sum(function()).backward(retain_graph=True)
    return [x.grad.numpy().tolist() for x in leaves]


@pytest.mark.parametrize("again", [1, 2])
def test_gradients_are_those_without(again: int) -> None:
    x, w, unused = leaf(0.5, 1.0), leaf(2.0, 3.0), leaf(1.0)
    hidden = w * w  # used by the function, made before it

    def block(x: Any, y: Any = None) -> Any:
        return ag.exp(x * w) + hidden * y

    plain = gradients(lambda: block(x, y=x * 2), [x, w], again)
    w2 = w * w
    hidden = w2
    made = gradients(lambda: autodiff.checkpoint(block, x, y=x * 2), [x, w], again)
    np.testing.assert_allclose(made, plain, rtol=1e-6)
    assert unused.grad is None


def test_a_model_with_dropout_and_its_parameters() -> None:
    nc.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 4))
    data = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    found = []
    for call in (lambda x: model(x), lambda x: autodiff.checkpoint(model, x)):
        nc.manual_seed(7)
        model.zero_grad()
        x = nc.tensor(data, requires_grad=True)
        y = call(x)
        ag.sum(y * y).backward()
        found.append([x.grad.numpy(), *(p.grad.numpy() for p in model.parameters())])
        found[-1].append(ag.dropout(nc.Tensor.ones((20,)), 0.5).numpy())  # and what follows
    for mine, plain in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-6)


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize("kind", [tuple, list, Pair])
def test_several_results(kind: Any) -> None:
    def block(x: Any) -> Any:
        both = (x * 2, ag.argmax(x))
        return Pair(*both) if kind is Pair else kind(both)

    x = leaf(1.0, 2.0)
    found = autodiff.checkpoint(block, x)
    assert type(found) is kind and not found[1].requires_grad and found[1].item() == 1
    ag.sum(found[0]).backward()
    assert x.grad.numpy().tolist() == [2.0, 2.0]


def test_what_is_handed_through() -> None:
    x = leaf(1.0, 2.0)
    y = autodiff.checkpoint(lambda x: x, x)
    ag.sum(y * 3).backward()
    assert x.grad.numpy().tolist() == [3.0, 3.0]


def test_nested() -> None:
    x, w = leaf(0.5), leaf(2.0)

    def inner(x: Any) -> Any:
        return ag.dropout(ag.exp(x * w), 0.5)

    def outer(x: Any) -> Any:
        return autodiff.checkpoint(inner, inner(x)) * w

    found = []
    for call in (lambda: inner(inner(x)) * w, lambda: autodiff.checkpoint(outer, x)):
        nc.manual_seed(1)
        found.append(gradients(call, [x, w]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


def test_nothing_in_between_is_kept() -> None:
    if nc.default_device().backend == "numpy":
        pytest.skip("its memory is not measured")
    device, mib = nc.default_device(), 2**20
    x = nc.Tensor.full((mib,), 0.01, requires_grad=True)

    def block(x: Any) -> Any:
        for _ in range(6):
            x = ag.exp(x) * 0.3
        return x

    kept = []
    for call in (block, lambda x: autodiff.checkpoint(block, x)):
        gc.collect()
        before = device.memory_stats()["allocated"]
        y = call(x)
        gc.collect()
        kept.append(device.memory_stats()["allocated"] - before)
        ag.sum(y).backward()
        x.grad = None
        del y
    assert kept[0] >= 6 * 4 * mib and kept[1] == 4 * mib


def test_without_gradients_the_function_is_just_called() -> None:
    x = leaf(1.0)
    with ag.no_grad():
        assert not autodiff.checkpoint(ag.exp, x).requires_grad
    y = autodiff.checkpoint(ag.exp, nc.tensor([1.0]))
    assert not y.requires_grad


def test_in_a_compiled_function_it_is_part_of_the_trace() -> None:
    @ag.jit_compile(strict=True)
    def function(x: Any) -> Any:
        return autodiff.checkpoint(lambda x: ag.exp(x) * 2, x) + 1

    x = leaf(0.0)
    ag.sum(function(x)).backward()
    assert x.grad.item() == 2.0


def test_a_change_in_between_is_noticed() -> None:
    x, w = leaf(1.0), leaf(2.0)
    for changed in (x, w):
        y = autodiff.checkpoint(lambda x: x * w, x)
        with ag.no_grad():
            changed.copy_(nc.tensor([5.0]))
        with pytest.raises(MutationError, match="checkpoint"):
            y.backward()


def test_other_tensors_the_second_time_are_noticed() -> None:
    x, used = leaf(1.0), [leaf(2.0), leaf(3.0)]
    y = autodiff.checkpoint(lambda x: x * used.pop(), x)
    with pytest.raises(GradientError, match="other tensors the second time"):
        y.backward()


def test_more_random_numbers_the_second_time_are_noticed() -> None:
    x, counts = leaf(1.0), [2, 1]

    def block(x: Any) -> Any:
        for _ in range(counts.pop()):
            x = ag.dropout(x, 0.5)
        return x

    with pytest.raises(GradientError, match="random"):
        autodiff.checkpoint(block, x).backward()
    assert ag.dropout(nc.tensor([0.0]), 0.5).item() == 0.0  # and new ones are given again


@pytest.mark.parametrize("given", [None, 3, "text", (), {}])
def test_what_is_no_tensor_is_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match="checkpoint"):
        autodiff.checkpoint(lambda x: given, leaf(1.0))


def test_an_exception_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError):
        autodiff.checkpoint(lambda x: 1 / 0, leaf(1.0))
    x = leaf(2.0)
    autodiff.checkpoint(lambda x: x * x, x).backward()
    assert x.grad.item() == 4.0


def test_anomaly_mode_looks_inside() -> None:
    x = leaf(0.0)
    with ag.detect_anomaly(check_numerics=True):
        y = autodiff.checkpoint(lambda x: ag.exp(x) * 2, x)
        y.backward()
        with pytest.raises(RuntimeError, match="backward of sqrt"):
            autodiff.checkpoint(lambda x: ag.sqrt(x), leaf(0.0)).backward()
    assert x.grad.item() == 2.0


def test_two_threads_go_back_through_one() -> None:
    x = leaf(0.5)
    y = autodiff.checkpoint(lambda x: ag.exp(ag.exp(x)), x)
    [expected] = ag.grad(y, [x], retain_graph=True)

    def work(seed: int) -> None:
        for _ in range(10):
            [found] = ag.grad(y, [x], retain_graph=True)
            assert found.item() == expected.item()

    with turns():
        in_threads(work)
