"""Compiled functions that overwrite tensors from outside: running statistics, counters, caches."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import FusionError, FusionSkipped


@pytest.fixture(params=usable_devices(), ids=str, autouse=True)
def device(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as found:
        yield found


def network() -> Any:
    """Two convolutions with norms in training, drawn alike each time."""
    nc.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                         nn.Conv2d(4, 2, 3), nn.BatchNorm2d(2, momentum=None))  # fmt: skip


def test_batch_norms_in_training_are_compiled_and_move_their_statistics() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((2, 3, 7, 7)).astype(np.float32) for _ in range(3)]
    eager, traced = network(), network()
    compiled = ag.jit_compile(lambda x: ag.sum(ag.square(traced(x))), strict=True)
    for batch in batches:
        x = nc.tensor(batch)
        losses = ag.sum(ag.square(eager(x))), compiled(x)
        for loss in losses:
            loss.backward()
        np.testing.assert_allclose(*(each.numpy() for each in losses), rtol=1e-5)
    for (name, right), (_, found) in zip(
        eager.state_dict().items(), traced.state_dict().items(), strict=True
    ):
        np.testing.assert_allclose(found.numpy(), right.numpy(), 1e-5, 1e-6, err_msg=name)
    for right, found in zip(eager.parameters(), traced.parameters(), strict=True):
        np.testing.assert_allclose(found.grad.numpy(), right.grad.numpy(), 1e-4, 1e-4)
    assert compiled.cache_info().misses == 1
    assert traced[1].num_batches_tracked.item() == 3


def test_what_is_read_later_is_the_new_value() -> None:
    total = nc.Tensor.zeros((2,))

    @ag.jit_compile(strict=True)
    def summed(x: Any) -> Any:
        before = total * 1.0
        total.copy_(total + x)
        total.copy_(total * 2.0)
        return before, total + 0.0

    x = nc.tensor([1.0, 2.0])
    for before, after in (([0, 0], [2, 4]), ([2, 4], [6, 12])):
        found = summed(x)
        assert [each.numpy().tolist() for each in found] == [before, after]
        assert total.numpy().tolist() == after


def test_a_write_of_another_dtype_and_to_another_shape() -> None:
    count = nc.tensor([0], dtype="int32")
    noted = ag.jit_compile(lambda x: (count.copy_(x.astype("int64")), x * 2)[1], strict=True)
    noted(nc.tensor([7.5]))
    assert count.dtype == "int32" and count.item() == 7
    kept = nc.Tensor.zeros((3,))
    keep = ag.jit_compile(lambda x: (kept.copy_(x * 2), x * 3)[1])
    keep(nc.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(nc.errors.ShapeError, match="copy_"):
        keep(nc.tensor([1.0, 2.0]))
    assert kept.numpy().tolist() == [2, 4, 6]


def _through_an_older_view(kept: Any, x: Any) -> Any:
    view = ag.reshape(kept, (2, 1))
    kept.copy_(x * 2.0)
    return view + x


def _through_a_view_from_outside(kept: Any, x: Any, view: Any) -> Any:
    kept.copy_(x * 2.0)
    return view + x


def _returned(kept: Any, x: Any) -> Any:
    y = x * 3.0
    kept.copy_(y)
    return kept


def _to_a_view(kept: Any, x: Any, view: Any) -> Any:
    view.copy_(ag.reshape(x * 2.0, (2, 1)))
    return kept + x


def _read_by_the_host(kept: Any, x: Any) -> Any:
    kept.copy_(x * 2.0)
    return x * float(kept.numpy()[0])


UNTRACED = [
    _through_an_older_view,
    _through_a_view_from_outside,
    _returned,
    _to_a_view,
    _read_by_the_host,
]


@pytest.mark.parametrize("function", UNTRACED)
def test_what_a_program_cannot_do_is_done_as_it_stands(function: Any) -> None:
    def values(wrap: Any) -> list[Any]:
        kept, x = nc.tensor([10.0, 20.0]), nc.tensor([1.0, 2.0])
        views = [kept.reshape((2, 1))][: function.__code__.co_argcount - 2]
        called = wrap(lambda x: function(kept, x, *views))
        first = called(x)
        assert (first is kept) == (function is _returned)
        return [each.numpy().tolist() for each in (first, called(x), kept)]

    with pytest.warns(FusionSkipped):
        found = values(ag.jit_compile)
    assert found == values(lambda each: each)


def test_an_interrupted_trace_has_written_too() -> None:
    kept = nc.tensor([0.0])

    def branching(x: Any) -> Any:
        kept.copy_(kept + x)
        return x * 2.0 if x.item() > 0 else x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        compiled = ag.jit_compile(branching)
        for expected in (1.0, 2.0):
            assert compiled(nc.tensor([1.0])).item() == 2
            assert kept.item() == expected
    with pytest.raises(FusionError):
        ag.jit_compile(branching, strict=True)(nc.tensor([1.0]))
    assert kept.item() == 2


def test_a_captured_step_writes_at_each_replay() -> None:
    kept = nc.tensor([0.0])
    step = ag.jit_compile(lambda x: (kept.copy_(kept + x), x * 1.0)[1])
    graph = ag.capture(step, nc.tensor([1.0]))
    start = kept.item()
    graph(nc.tensor([5.0]))
    graph(nc.tensor([7.0]))
    assert kept.item() == start + 12
