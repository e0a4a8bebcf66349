"""Gradients that a forward writes: when a backward knows its seed, and who gets what was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import HostCall
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import MutationError

SEEN: list[bool] = []
RUNS: list[bool] = []


@pytest.fixture(params=nc.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    SEEN.clear()
    RUNS.clear()
    with nc.use_device(request.param) as chosen:
        yield chosen


# -- a seed of 1 ---------------------------------------------------------------------------


def watched(x: Any) -> Any:
    """x itself; its backward notes whether its gradient is known to be 1."""
    return ag.apply_op(lambda x: x, lambda grad: SEEN.append(ag.is_one(grad)) or [grad], x)


def leaf(value: float = 3.0) -> Any:
    return ag.tensor(value, requires_grad=True)


def changed(grad: Any) -> None:
    grad.overwrite(np.array(5, np.float32))


Pass = Callable[[], Any]
PASSES: dict[str, tuple[Pass, bool]] = {
    "backward": (lambda: watched(leaf()).backward(), True),
    "grad": (lambda: ag.grad(watched(x := leaf()), [x]), True),
    "through a sum": (lambda: ag.add(watched(leaf()), leaf() * 2).backward(), True),
    "create_graph": (lambda: ag.grad(watched(x := leaf()), [x], create_graph=True), True),
    "retained": (lambda: [y := watched(leaf()), y.retain_grad(), y.backward()], True),
    "captured": (lambda: ag.capture(lambda: ag.grad(watched(x := leaf()), [x])), True),
    "given": (lambda: ag.backward(watched(leaf()), grad=1.0), False),
    "given ones": (lambda: ag.backward(watched(leaf()), grad=nc.Tensor.ones(())), False),
    "times one": (lambda: ag.mul(watched(leaf()), leaf(1.0)).backward(), False),
    "twice": (lambda: [y := watched(leaf()), ag.add(y, y).backward()], False),
}


@pytest.mark.parametrize("name", PASSES)
def test_a_seed_of_one_is_known(device: nc.Device, name: str) -> None:
    run, known = PASSES[name]
    run()
    assert SEEN and set(SEEN) == {known}


def test_two_results_with_one_graph(device: nc.Device) -> None:
    """One of them is read by the other, so that their gradients are added up."""
    x = leaf()
    y = watched(x)
    assert [each.item() for each in ag.grad([y, y], [x])] == [2.0]
    assert SEEN == [False]


@pytest.mark.parametrize("keep", [False, True], ids=["changes it", "returns it"])
def test_a_hook_that_changes_the_seed(device: nc.Device, keep: bool) -> None:
    x = leaf()
    for _ in range(2):
        y = watched(x)
        y.register_hook(lambda grad: changed(grad) or (grad if keep else None))
        [found] = ag.grad(y, [x])
        assert found.item() == 5
    assert SEEN == [False, False]
    y = watched(x)
    assert ag.grad(y, [x])[0].item() == 1 and SEEN[-1]


def test_a_seed_is_known_in_its_pass_alone(device: nc.Device) -> None:
    kept: list[Any] = []
    y = ag.apply_op(lambda x: x, lambda grad: kept.append(grad) or [grad], leaf())
    y.backward()
    assert not ag.is_one(kept[0])
    with pytest.raises(ZeroDivisionError):
        ag.apply_op(lambda x: x, lambda grad: [1 / 0], leaf()).backward()
    assert not ag.is_one(kept[0])


def test_a_leaf_that_is_the_result_gets_a_gradient_of_its_own(device: nc.Device) -> None:
    one, other = leaf(), leaf()
    one.backward()
    changed(one.grad)
    other.backward()
    assert (one.grad.item(), other.grad.item()) == (5, 1)


# -- what was kept is given away -----------------------------------------------------------------


def _reference(x: Any) -> Any:
    RUNS.append(True)
    return np.array((x * x).sum(), x.dtype), 2 * x


def _backward(saved: Saved, grad: Any) -> list[Any]:
    kept = saved.residuals[0]
    return [kept if ag.is_one(grad) else ag.mul(kept, grad)]


def _plan(request: Request) -> HostCall:
    def run(arrays: Any, out: Any, *kept: Any) -> None:
        total, slopes = _reference(arrays[0])
        out[...] = total
        for each in kept:
            each[...] = slopes

    return HostCall(run)


SQUARES = Operator(
    "sum_of_squares",
    bind=lambda x: ((x,), {}),
    infer=lambda x: nc.Spec((), x.dtype),
    reference=_reference,
    residuals=lambda x: (x,),
    backward=_backward,
    saves=(),
    implementations=(Implementation("sum_of_squares", "host", _plan),),
)
X = np.array([1.0, -2.0, 3.0], np.float32)


@pytest.fixture
def host(device: nc.Device) -> nc.Device:
    """A device that runs host calls, as SQUARES is one."""
    if device.kind == "gpu":
        pytest.skip("host calls are for CPUs")
    return device


def test_each_pass_gives_a_gradient_of_its_own(host: nc.Device) -> None:
    x = nc.tensor(X, requires_grad=True)
    loss = SQUARES(x)
    loss.backward(retain_graph=True)
    assert len(RUNS) == 1
    x.grad.overwrite(np.zeros(3))
    found = [ag.grad(loss, [x], retain_graph=True)[0] for _ in range(3)]
    assert len(RUNS) == 4  # it is computed again
    found[0].overwrite(np.zeros(3))
    for each in found[1:]:
        np.testing.assert_array_equal(each.to_host(), 2 * X)
    ag.backward(loss, grad=3.0)
    np.testing.assert_array_equal(x.grad.to_host(), 6 * X)


def test_what_is_not_given_away_stays(host: nc.Device) -> None:
    x = nc.tensor(X, requires_grad=True)
    loss = ag.mul(SQUARES(x), 2.0)
    for _ in range(3):
        [slope] = ag.grad(loss, [x], retain_graph=True)
        np.testing.assert_array_equal(slope.to_host(), 4 * X)
    assert len(RUNS) == 1


def test_an_input_may_not_change_before_it_is_computed_again(host: nc.Device) -> None:
    x = nc.tensor(X, requires_grad=True)
    loss = SQUARES(x)
    loss.backward(retain_graph=True)
    x.overwrite(np.ones(3))
    with pytest.raises(MutationError, match="sum_of_squares"):
        loss.backward()


def test_a_seed_costs_nothing_the_second_time(host: nc.Device) -> None:
    x = nc.tensor(X, requires_grad=True)
    SQUARES(x).backward()
    loss = SQUARES(x)
    x.grad = None
    with recorded(host) as stream:
        loss.backward()
    assert not stream.launched
