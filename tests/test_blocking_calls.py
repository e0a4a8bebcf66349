"""A training step does not wait for the device: the host runs ahead, however the step is made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from blocking import blocking_calls

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, nn, optim
from netcl_core.hardware.device import opencl_module
from netcl_core.runtime.stream import stream_of

OPENCL = [each for each in nc.devices() if each.backend == "opencl" and not each.simulator]
STEPS = 5
Step = Callable[[Any, Any], Any]


@pytest.fixture(params=OPENCL, ids=str)
def opencl(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


def mlp() -> Any:
    layers: list[Any] = []
    for before, after in pairwise((20, 32, 16, 4)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def training(
    scaler: Any = None,
    forward: Callable[[Any], Any] = lambda loss: loss,
    model: Any = None,
    clip: bool = False,
) -> Step:
    """A step with AdamW, of a small MLP unless another model is given; gives the loss."""
    model = model or mlp()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = forward(lambda x, y: ag.cross_entropy(model(x), y))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        if scaler is None:
            loss.backward()
            if clip:
                optim.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        else:
            scaler.scale_loss(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return loss

    return step


def batch() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.standard_normal((8, 20), np.float32), random.integers(0, 4, 8)


def waits_of(step: Step, given: tuple[Any, Any]) -> list[str]:
    """The calls that wait in some steps, after those that build."""
    for _ in range(3):
        step(*given)
    stream_of(nc.default_device()).finish()
    with blocking_calls() as found:
        for _ in range(STEPS):
            step(*given)
    return found


WAYS: dict[str, Callable[[], Step]] = {
    "eager": training,
    "compiled": lambda: training(forward=ag.jit_compile),
}


@pytest.mark.parametrize("on_device", [True, False], ids=["tensors", "arrays"])
@pytest.mark.parametrize("way", WAYS)
def test_a_step_waits_for_nothing(opencl: nc.Device, way: str, on_device: bool) -> None:
    given: Any = batch()
    if on_device:
        given = tuple(map(nc.tensor, given))
    assert waits_of(WAYS[way](), given) == []


@pytest.mark.parametrize("on_device", [True, False], ids=["tensors", "arrays"])
def test_a_replay_waits_for_nothing(opencl: nc.Device, on_device: bool) -> None:
    graph = ag.capture(training(), *batch())
    given: Any = batch()
    if on_device:
        given = tuple(map(nc.tensor, given))
    assert waits_of(graph, given) == []


def language_model() -> Any:
    """Indices of a batch go through a view on their way to the embedding."""
    parts = [nn.Embedding(20, 16), nn.Flatten(), nn.Dropout(0.1), nn.BatchNorm1d(64)]
    return nn.Sequential(*parts, nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))


@pytest.mark.parametrize("way", ["eager", "replay"])
def test_other_layers_and_clipping_wait_for_nothing(opencl: nc.Device, way: str) -> None:
    random = np.random.default_rng(0)
    given = nc.tensor(random.integers(0, 20, (8, 4))), nc.tensor(random.integers(0, 4, 8))
    step: Any = training(model=language_model(), clip=True)
    if way == "replay":
        step = ag.capture(step, *given)
    assert waits_of(step, given) == []


def test_a_scaler_reads_one_flag_a_step(opencl: nc.Device) -> None:
    given = tuple(map(nc.tensor, batch()))
    found = waits_of(training(amp.GradScaler(2.0)), given)
    assert len(found) == STEPS, found
    assert all(each.startswith("_enqueue_read_buffer\n") for each in found)


def test_a_replayed_scaler_reads_none(opencl: nc.Device) -> None:
    given = tuple(map(nc.tensor, batch()))
    assert waits_of(ag.capture(training(amp.GradScaler(2.0)), *given), given) == []


def test_reading_a_loss_is_one_wait(opencl: nc.Device) -> None:
    step, given = training(), tuple(map(nc.tensor, batch()))
    found = waits_of(lambda x, y: step(x, y).item(), given)
    assert len(found) == STEPS, found


def test_what_waits_is_counted(opencl: nc.Device) -> None:
    """The count is worth something: each way to wait is seen, and no other call is."""
    cl, x = opencl_module(), nc.tensor([1.0, 2.0])
    host = np.empty(2, np.float32)
    queue, buffer = opencl.queue, x.buffer
    with blocking_calls() as found:
        event = cl.enqueue_copy(queue, host, buffer, is_blocking=False)
        event.wait()
        cl.enqueue_copy(queue, host, buffer)
        cl.enqueue_copy(queue, buffer, host)
        queue.finish()
        cl.wait_for_events([event])
        mapped, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, (2,), host.dtype)
        mapped.base.release(queue).wait()
        ag.relu(x)
    assert [each.partition("\n")[0] for each in found] == [
        "wait", "_enqueue_read_buffer", "_enqueue_write_buffer", "finish", "wait_for_events",
        "enqueue_map_buffer", "wait",
    ]  # fmt: skip
    assert "test_blocking_calls.py" in found[0]
