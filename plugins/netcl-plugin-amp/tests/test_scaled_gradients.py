"""GradScaler and gradients: which are unscaled, how often, and by how many launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded
from scaled import HALF, OPENCL, WIDE, Reads, fill, leaf

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, amp, optim
from netcl_core.errors import (
    ArgumentError,
    GradientError,
)
from netcl_core.runtime.stream import use_stream

torch = pytest.importorskip("torch")


# -- gradients -----------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "unscaling", "steps"), [(20, 1, 1), (60, 2, 3)])
def test_launches_and_one_reading(opencl: Device, size: int, unscaling: int, steps: int) -> None:
    """For one dtype one per 48 gradients; and the optimizer's own."""
    tensors = [leaf(1.0, 2.0) for _ in range(size)]
    optimizer, scaler = optim.SGD(tensors), amp.GradScaler()
    for turn in range(3):
        for tensor in tensors:
            fill(tensor, 1.0)
        if turn == 2:
            fill(tensors[-1], np.nan)
        with recorded(opencl) as stream, use_stream(Reads(stream)) as reads:
            scaler.step(optimizer)
        expected = ["gradient_unscale"] * unscaling + ["sgd_step"] * (steps * (turn < 2))
        assert (stream.launched, reads.count) == (expected, 1)


def test_dtypes_sizes_and_absent_gradients(device: Device) -> None:
    """All that an optimizer can have at once; what is infinite stands anywhere."""
    dtypes = ["bfloat16", "float16", "float32", *(["float64"] * device.supports_fp64)]
    shapes = [(), (0, 3), (7, 5), (4099,)]
    tensors = [
        nc.Tensor.ones(shape, dtype, requires_grad=True) for dtype in dtypes for shape in shapes
    ]
    tensors.append(leaf(1.0))
    scaler = amp.GradScaler(init_scale=4.0)

    def give() -> None:
        for tensor in tensors[:-1]:
            tensor.grad = nc.Tensor.full(tensor.shape, 2.0, tensor.dtype)

    give()
    assert scaler.unscale_grads(tensors) is False
    for tensor in tensors[:-1]:
        assert (tensor.grad.numpy() == 0.5).all()
    assert tensors[-1].grad is None
    for number, tensor in enumerate(tensors[:-1]):
        for place in {0, tensor.size // 2, tensor.size - 1} if tensor.size else ():
            give()
            array = tensor.grad.numpy().reshape(-1)
            array[place] = (np.inf, -np.inf, np.nan)[number % 3]
            tensor.grad.overwrite(array.reshape(tensor.shape))
            fresh = amp.GradScaler(init_scale=4.0)
            assert fresh.unscale_grads(tensors) is True


def test_large_gradients_are_finite(either: Device) -> None:
    """The largest numbers of each dtype are; the scale only makes them smaller."""
    for dtype in ("bfloat16", "float16", "float32", *(["float64"] * either.supports_fp64)):
        w = nc.Tensor.ones((40,), dtype, requires_grad=True)
        w.grad = nc.Tensor.full((40,), -float(nc.DTYPES[dtype].limits.max), dtype)
        assert amp.GradScaler().unscale_grads([w]) is False
        assert np.isfinite(nc.widened(w.grad.numpy())).all()


def test_gradients_of_several_devices() -> None:
    if not OPENCL:
        pytest.skip("no OpenCL device")
    homes = [nc.get_device("numpy"), OPENCL[0]]
    for bad in (None, 0, 1):
        tensors = [nc.Tensor.ones((3,), device=home, requires_grad=True) for home in homes]
        scaler = amp.GradScaler(init_scale=4.0)
        for number, tensor in enumerate(tensors):
            fill(tensor, np.inf if number == bad else 4.0)
        scaler.step(optim.SGD(tensors, lr=1.0))
        values = [tensor.numpy().tolist() for tensor in tensors]
        assert values == [[0.0] * 3 if bad is None else [1.0] * 3] * 2
        assert scaler.get_scale() == (4.0 if bad is None else 2.0)


def test_a_generator_of_parameters_is_kept(either: Device) -> None:
    tensors = [leaf(1.0), leaf(1.0)]
    optimizer, scaler = optim.SGD(iter(tensors), lr=1.0), amp.GradScaler(init_scale=4.0)
    for tensor in tensors:
        fill(tensor, 4.0)
    scaler.step(optimizer, (tensor for tensor in tensors))
    assert [tensor.item() for tensor in tensors] == [0.0, 0.0]
    for tensor in tensors:
        fill(tensor, 4.0)
    assert scaler.unscale_grads(tensor for tensor in tensors) is False
    assert [tensor.grad.item() for tensor in tensors] == [1.0, 1.0]


def test_more_parameters_than_the_optimizer_has(either: Device) -> None:
    """What is infinite in one of them skips the step; the optimizer's are unscaled in any case."""
    w, other = leaf(1.0), leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=4.0)
    fill(w, 4.0)
    fill(other, np.inf)
    scaler.step(optimizer, [other])
    assert w.item() == 1.0 and w.grad.item() == 1.0 and scaler.get_scale() == 2.0


def test_nodes_are_parameters(either: Device) -> None:
    w = leaf(3.0)
    fill(w, 4.0)
    assert amp.GradScaler(init_scale=4.0).unscale_grads([ag.tensor(w), w]) is False
    assert w.grad.item() == 1.0
    with pytest.raises(ArgumentError, match="a Node to unscale; expected leaf tensors"):
        amp.GradScaler().unscale_grads([w * 2])


def test_without_any_gradient(either: Device) -> None:
    w = leaf(1.0)
    scaler = amp.GradScaler()
    assert scaler.unscale_grads([w]) is False
    with pytest.raises(GradientError, match="none has a gradient; expected gradients"):
        scaler.step(optim.SGD([w]))
    assert scaler.state_dict()["_growth_tracker"] == 0
    empty = nc.Tensor.zeros((0,), requires_grad=True)
    fill(empty)
    scaler.step(optim.SGD([empty]))
    assert scaler.state_dict()["_growth_tracker"] == 1


def test_underflow_of_float16_gradients(either: Device) -> None:
    """Documented: what is below half the smallest float16 number is 0."""
    w = leaf(1.0, 1.0, dtype=HALF)
    fill(w, 2.0**-8, 2.0**-10)
    amp.GradScaler(init_scale=2.0**16).unscale_grads([w])
    assert w.grad.numpy().tolist() == [2.0**-24, 0.0]


# -- unscaled once -------------------------------------------------------------------------


def loop(how: str) -> tuple[float, float]:
    """One step with something between unscaling and it; the parameter, and the scale."""
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=4.0)
    scaler.scale(ag.sum(w * 0.5)).backward()
    assert scaler.unscale_grads([w]) is False
    if how == "twice":
        assert scaler.unscale_grads([w]) is False
    elif how == "clip":
        optim.clip_grad_norm_([w], 0.25)
    elif how == "new tensor":
        with ag.no_grad():
            w.grad = (w.grad * 0.5).value
    elif how == "copy":
        w.grad.overwrite([0.25])
    elif how == "other loss":
        scaler.scale(leaf(1.0) * 1.0).backward()
    elif how == "more":
        scaler.unscale_grads([leaf(1.0)])
    scaler.step(optimizer)
    return round(w.item(), 5), scaler.get_scale()


@pytest.mark.parametrize(
    ("how", "right"),
    [("nothing", 0.5), ("twice", 0.5), ("clip", 0.75), ("new tensor", 0.75), ("copy", 0.75),
     ("other loss", 0.5), ("more", 0.5)],
)  # fmt: skip
def test_a_step_does_not_unscale_again(either: Device, how: str, right: float) -> None:
    assert loop(how) == (right, 4.0)


def test_a_new_backward_is_unscaled_again(either: Device) -> None:
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=4.0)
    for turn in range(4):
        optimizer.zero_grad()
        scaler.scale(ag.sum(w * (np.nan if turn == 1 else 0.25))).backward()
        found = scaler.unscale_grads([w])
        assert found is (turn == 1)
        if turn == 3:
            assert w.grad.item() == 0.25
        if turn in (0, 1):  # the user's own step, or none
            continue
        scaler.step(optimizer)
    assert w.item() == 0.5


def test_after_a_step_all_is_scaled_again(either: Device) -> None:
    """Gradients that somebody assigns, too."""
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=4.0)
    for right in (0.75, 0.5, 0.25):
        fill(w, 1.0)
        scaler.unscale_grads([w])
        scaler.step(optimizer)
        assert w.item() == right


def test_ag_grad_and_grad_manager_arrive_as_well(either: Device) -> None:
    w = leaf(1.0)
    scaler = amp.GradScaler(init_scale=4.0)
    fill(w, 8.0)
    scaler.unscale_grads([w])
    w.grad = None
    [gradient] = ag.grad(scaler.scale(w * 1.0), [w])
    ag.accumulate_grad(w, gradient)
    scaler.step(optim.SGD([w], lr=0.5))
    assert w.item() == 0.5


def test_a_replay_that_only_computes_gradients(device: Device) -> None:
    """The gradient is the same tensor each time, and has to be unscaled each time."""
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=0.25), amp.GradScaler(init_scale=4.0)

    def gradients(x: Any) -> Any:
        loss = ag.sum(w * x)
        scaler.scale(loss).backward()
        return loss

    graph = ag.capture(gradients, np.ones(1, WIDE))
    scaler.step(optimizer)
    for turn, right in enumerate((0.5, 0.5, 0.25, 0.25, 0.0)):
        graph(np.array([np.inf if turn in (1, 3) else 1.0], WIDE))
        if turn % 2:
            scaler.unscale_grads([w])
        scaler.step(optimizer)
        assert w.item() == right
    assert scaler.get_scale() == 1.0


def test_replays_between_which_there_is_no_step(either: Device) -> None:
    w = leaf(1.0)
    scaler = amp.GradScaler(init_scale=4.0)

    def gradients(x: Any) -> Any:
        loss = ag.sum(w * x)
        scaler.scale(loss).backward()
        return loss

    graph = ag.capture(gradients, np.ones(1, WIDE))
    for value in (3.0, 5.0, 7.0):
        graph(np.array([value], WIDE))
        scaler.unscale_grads([w])
        scaler.unscale_grads([w])
        assert w.grad.item() == value


def test_a_verdict_is_each_optimizers_own(either: Device) -> None:
    good, bad = leaf(1.0), leaf(1.0)
    scaler = amp.GradScaler(init_scale=4.0)
    fill(good, 4.0)
    fill(bad, np.inf)
    assert (scaler.unscale_grads([good]), scaler.unscale_grads([bad])) == (False, True)
    scaler.step(optim.SGD([good], lr=1.0))
    scaler.step(optim.SGD([bad], lr=1.0))
    assert (good.item(), bad.item(), scaler.get_scale()) == (0.0, 1.0, 2.0)
