"""GradManager: what its documentation says, sentence by sentence, and what a mistake leads to."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_core.autodiff import AttachSpec, GradManager, get_backwarding_grad_manager

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff, nn
from netcl_core.errors import ArgumentError, DtypeError, GradientError, ShapeError

pytestmark = pytest.mark.usefixtures("device")


def values(x: Any) -> list[float]:
    return list(np.ravel(x.numpy()))


def test_a_plain_tensor_is_tracked_while_it_records() -> None:
    x = nc.tensor([1.0, 2.0])
    with GradManager() as gm:
        gm.attach(x)
        y = ag.sum(x * x)
        gm.backward(y)
    assert values(x.grad) == [2.0, 4.0]
    assert not x.requires_grad and not (x * x).requires_grad


def test_attached_before_and_used_again() -> None:
    x = nc.tensor([3.0])
    gm = GradManager()
    assert gm.attach([x]) is gm
    for times in (1, 2, 3):
        with gm:
            gm.backward(x * x)
        assert values(x.grad) == [6.0 * times]  # they accumulate


def test_what_was_computed_before_is_ignored() -> None:
    x = nc.tensor([3.0])
    with GradManager() as gm:
        y = x * x
        gm.attach(x)
        z = x * 5
        gm.backward([y + z])
    assert values(x.grad) == [5.0]


def test_record_and_release() -> None:
    x = nc.tensor([3.0])
    gm = GradManager().attach(x)
    gm.record()
    y = x * x
    gm.backward(y)
    assert values(x.grad) == [6.0]
    gm.record()
    y = x * x
    gm.release()
    gm.release()
    with pytest.raises(GradientError, match="record"):
        gm.backward(y)
    assert values(x.grad) == [6.0] and not x.requires_grad


def test_a_model_with_an_optimizer_and_its_parameters() -> None:
    model = nn.Linear(3, 2)
    gm = GradManager().attach(model.parameters())
    data = nc.Tensor.ones((4, 3))
    with gm:
        gm.backward(ag.sum(model(data)))
    assert values(model.bias.grad) == [4.0, 4.0]
    assert model.weight.grad.shape == (2, 3)
    assert model.weight.requires_grad  # as before


def test_only_what_is_attached_gets_a_gradient() -> None:
    x, w = nc.tensor([1.0]), nc.tensor([2.0], requires_grad=True)
    with GradManager().attach(x) as gm:
        gm.backward(x * w)
    assert values(x.grad) == [2.0] and w.grad is None


def test_lists_of_results_and_gradients() -> None:
    x = nc.tensor([1.0, 2.0])
    gm = GradManager().attach(x)
    with gm:
        gm.backward([x * 2, ag.sum(x * x)], [nc.tensor([1.0, 10.0]), nc.tensor(3.0)])
    assert values(x.grad) == [2.0 + 6.0, 20.0 + 12.0]
    with gm:
        gm.backward([])
    with gm:
        gm.backward()
    with gm:
        gm.backward(ag.sum(nc.tensor([1.0])))  # depends on nothing that is attached
    assert values(x.grad) == [8.0, 32.0]


def test_gradients_of_what_was_computed() -> None:
    x = nc.tensor([3.0], requires_grad=True)
    with GradManager() as gm:
        y = x * x
        gm.attach(y)
        gm.backward(y * 5)
    assert values(y.grad) == [5.0] and x.grad is None


# -- callbacks -----------------------------------------------------------------------------


def test_callbacks_are_chained_for_each_tensor() -> None:
    x, y = nc.tensor([1.0]), nc.tensor([1.0])
    gm = GradManager()

    def plus(tensor: Any, grad: Any) -> Any:
        return grad + 1

    def times(tensor: Any, grad: Any) -> Any:
        return grad * 10

    gm.attach([x, y], callbacks=[plus])
    gm.attach([y], callbacks=times)
    gm.attach(x)
    for count in (1, 2):
        with gm:
            gm.backward(x * 3 + y * 3)
        assert (values(x.grad), values(y.grad)) == ([4.0 * count], [40.0 * count])


def test_a_callback_knows_its_tensor_and_its_manager() -> None:
    x, seen = nc.tensor([2.0]), []
    gm = GradManager()

    def watch(tensor: Any, grad: Any) -> Any:
        seen.append((tensor.shape, values(grad), get_backwarding_grad_manager()))
        return grad

    gm.attach(x, callbacks=watch)
    assert get_backwarding_grad_manager() is None
    with gm:
        gm.backward(x * x)
    assert seen == [((1,), [4.0], gm)]
    assert get_backwarding_grad_manager() is None


def test_a_callback_runs_before_the_rest_is_computed() -> None:
    """The gradient of the last layer is complete before the first layer's is begun."""
    order: list[str] = []
    first, last = nc.tensor([2.0]), nc.tensor([3.0])

    def noted(grad: Any) -> list[Any]:
        order.append("backward of the first layer")
        return [grad * 2]

    def note(name: str) -> Callable[[Any, Any], Any]:
        def callback(tensor: Any, grad: Any) -> Any:
            order.append(name)
            return grad

        return callback

    gm = GradManager().attach(first, note("first")).attach(last, note("last"))
    with gm:
        hidden = ag.apply_op(lambda x: x * 2, noted, first)
        gm.backward(hidden * last)
    assert order == ["last", "backward of the first layer", "first"]


def test_a_callback_that_returns_nothing_or_fails() -> None:
    x = nc.tensor([1.0])
    for callback, error in (
        (lambda t, g: None, GradientError),
        (lambda t, g: 1 / 0, ZeroDivisionError),
    ):
        gm = GradManager().attach(x, callback)
        with pytest.raises(error), gm:
            gm.backward(x * x)
        assert x.grad is None and not x.requires_grad
        assert get_backwarding_grad_manager() is None
        with GradManager().attach(x) as other:  # and nothing is left behind
            other.backward(x * x)
        assert values(x.grad) == [2.0]
        x.grad = None


# -- references ------------------------------------------------------------------------------


def test_attached_tensors_are_held_weakly() -> None:
    gm = GradManager()
    for _ in range(5):
        x = nc.tensor([1.0])
        with gm:
            gm.attach(x)
            gm.backward(x * x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None and gm.attached_tensors() == [] and not gm._specs


def test_a_spec_has_the_tensor_and_its_callbacks() -> None:
    x = nc.tensor([1.0])
    gm = GradManager().attach(x, print)
    [spec] = gm._specs.values()
    assert type(spec) is AttachSpec and spec.tensor() is x and spec.callbacks == [print]


def test_a_manager_does_not_live_by_its_tensors() -> None:
    x = nc.tensor([1.0])
    gone = weakref.ref(GradManager().attach(x))
    gc.collect()
    assert gone() is None


# -- several managers ------------------------------------------------------------------------


def test_several_managers_at_a_time() -> None:
    x, w = nc.tensor([2.0]), nc.tensor([3.0])
    with GradManager().attach(x) as first, GradManager().attach(w) as second:
        y = x * w
        second.backward(y)
        assert x.requires_grad and not w.requires_grad
        first.backward(y)
    assert (values(x.grad), values(w.grad)) == ([3.0], [2.0])


def test_one_tensor_of_two_managers_stays_tracked_until_both_end() -> None:
    x = nc.tensor([2.0])
    first, second = GradManager().attach(x), GradManager().attach(x)
    first.record()
    second.record()
    first.release()
    assert x.requires_grad
    second.backward(x * x)
    assert not x.requires_grad and values(x.grad) == [4.0]


def test_a_group_records_together() -> None:
    x, w, v = nc.tensor([2.0]), nc.tensor([3.0]), nc.tensor([4.0])
    gm1, gm2, gm3 = GradManager().attach(x), GradManager().attach(w), GradManager().attach(v)
    for group in (gm1 | gm2 | gm3, gm1 | (gm2 | gm3)):
        with group:
            y = x * w * v
            gm1.backward(y)
            gm2.backward(y)
        assert (values(x.grad), values(w.grad), v.grad) == ([12.0], [8.0], None)
        assert not any(each.requires_grad for each in (x, w, v))
        x.grad = w.grad = None
    with gm2:
        with pytest.raises(GradientError, match="already"), gm1 | gm2:
            pass
        gm1.record()  # the group has left nothing behind
        gm1.release()
    with pytest.raises(TypeError):
        gm1 | 3


def test_managers_of_several_threads() -> None:
    device, failed = nc.default_device(), []

    def work(seed: int) -> None:
        try:
            with nc.use_device(device):
                gm, x = GradManager(), nc.tensor([float(seed)])
                gm.attach(
                    x, lambda tensor, grad: grad if get_backwarding_grad_manager() is gm else 0
                )
                for _ in range(20):
                    x.grad = None
                    with gm:
                        gm.backward(x * x)
                    assert values(x.grad) == [2.0 * seed]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed


def test_threads_with_a_shared_leaf_lose_no_gradient(device: nc.Device) -> None:
    x = nc.tensor([1.0, 2.0], device=device)
    turns, workers = 50, 4
    begin = threading.Barrier(workers)

    def work() -> None:
        gm = autodiff.GradManager().attach(x)
        begin.wait()
        for _ in range(turns):
            with gm:
                gm.backward(ag.sum(x * 1.0))

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(x.grad) == [turns * workers] * 2


def test_a_replay_gives_the_gradients_of_one_step(device: nc.Device) -> None:
    w = nc.tensor([1.0, 2.0], device=device)
    gm = autodiff.GradManager().attach(w)

    def step(x: Any) -> Any:
        with gm:
            loss = ag.sum(x * w)
            gm.backward(loss)
        return loss

    x = nc.tensor([3.0, 4.0], device=device)
    step(x)  # a gradient from before
    graph = ag.capture(step, x)
    for factor in (1.0, 2.0):
        graph(nc.tensor([factor, 5.0], device=device))
        assert values(w.grad) == [factor, 5.0]


# -- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda gm, x: gm.attach(3.0), TypeError),
        (lambda gm, x: gm.attach([3.0]), ArgumentError),
        (lambda gm, x: gm.attach(nc.tensor([1])), DtypeError),
        (lambda gm, x: gm.attach(x, 3), TypeError),
        (lambda gm, x: gm.attach(x, [3]), ArgumentError),
        (lambda gm, x: gm.backward(x), GradientError),
        (lambda gm, x: (gm.record(), gm.record()), GradientError),
        (lambda gm, x: (gm.attach(x), gm.record(), gm.backward(x * x)), ShapeError),
        (lambda gm, x: (gm.attach(x), gm.record(), gm.backward(x * x, [])), ArgumentError),
    ],
)
def test_mistakes_are_refused(call: Callable[[Any, Any], Any], error: type[Exception]) -> None:
    x, gm = nc.tensor([1.0, 2.0]), GradManager()
    with pytest.raises(error):
        call(gm, x)
    gm.release()
    assert not x.requires_grad and x.grad is None


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(AttributeError, match="GradManager"):
        autodiff.GradManger  # noqa: B018
