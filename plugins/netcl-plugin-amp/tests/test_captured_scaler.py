"""GradScaler in captures: a replay gives what the step gives eagerly, and nothing is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices
from scaled import DEVICES, leaf

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, amp, nn, optim
from netcl_core.errors import DeviceError, ReplayError
from netcl_core.runtime.stream import StreamWrapper, stream_of, use_stream

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.25}),
    ("Adam", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True, "eps": 1e-2}),
]
each = pytest.mark.parametrize(("name", "kept"), KINDS, ids=[name for name, _ in KINDS])
SCALER: dict[str, Any] = {"init_scale": 1000.0, "growth_factor": 1.5, "growth_interval": 3}
BAD = (np.inf, -np.inf, np.nan)


@pytest.fixture(params=usable_devices(), ids=str)
def device(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


class Training:
    """A step of a small model whose parameters are float32 and float16."""

    def __init__(self, name: str, kept: dict[str, Any], clip: bool = False) -> None:
        random = np.random.default_rng(0)
        self.params = [
            nc.tensor(random.standard_normal(33).astype(dtype), requires_grad=True)
            for dtype in (np.float32, np.float16)
        ]
        self.optimizer = getattr(optim, name)(self.params, **kept)
        self.scaler = amp.GradScaler(**SCALER)
        self.clip = clip

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        wide = self.params[0] + self.params[1].astype("float32")
        loss = ag.sum(wide * wide * x)
        self.scaler.scale_loss(loss).backward()
        if self.clip:
            self.scaler.unscale_grads(self.params)
            optim.clip_grad_norm_(self.params[:1], 0.5)
        self.scaler.step(self.optimizer)
        return loss

    def values(self) -> list[Any]:
        return [param.numpy() for param in self.params]

    def all(self) -> Any:
        return self.values(), self.optimizer.state_dict(), self.scaler.state_dict()


def batch(turn: int, bad: bool) -> Any:
    x = np.random.default_rng(turn).standard_normal(33).astype(np.float32)
    if bad:
        x[turn % 33] = BAD[turn % 3]
    return x


class Silent(StreamWrapper):
    """A stream of which nothing can be read."""

    def download(self, buffer: Any, size: int, dtype: Any) -> Any:
        raise AssertionError("the host reads")

    def finish(self) -> None:
        raise AssertionError("the host waits")


@each
@pytest.mark.parametrize("clip", [False, True])
def test_replays_are_eager_steps(device: Device, name: str, kept: Any, clip: bool) -> None:
    eager, twin = Training(name, kept, clip), Training(name, kept, clip)
    eager.step(nc.tensor(batch(0, False)))
    graph = ag.capture(twin.step, batch(0, False))
    for turn in range(1, 41):
        bad = turn % 7 in (1, 2, 5)
        eager.step(nc.tensor(batch(turn, bad)))
        with use_stream(Silent(stream_of(device))):
            graph(batch(turn, bad))
        np.testing.assert_equal(twin.values(), eager.values())
        if turn in (13, 26):  # the host asks in between
            np.testing.assert_equal(twin.all(), eager.all())
    np.testing.assert_equal(twin.all(), eager.all())
    assert eager.optimizer.state_dict()["state"][0]["step"] == 1 + sum(
        turn % 7 not in (1, 2, 5) for turn in range(1, 41)
    )


@each
def test_prepared_replays(device: Device, name: str, kept: Any) -> None:
    """The same on the device's own stream, whose commands are prepared."""
    eager, twin = Training(name, kept), Training(name, kept)
    eager.step(nc.tensor(batch(0, True)))
    graph = ag.capture(twin.step, batch(0, True))  # the capture itself is a skipped step
    for turn in range(1, 30):
        eager.step(nc.tensor(batch(turn, turn % 4 == 0)))
        graph(batch(turn, turn % 4 == 0))
    np.testing.assert_equal(twin.all(), eager.all())


TURN = st.tuples(
    st.sampled_from(["long", "short", "eager"]),
    st.booleans(),
    st.sampled_from(["", "", "ask", "rate", "load", "copy"]),
)


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(TURN, max_size=14))
def test_graphs_and_eager_steps_in_any_order(turns: list[tuple[str, bool, str]]) -> None:
    """Two graphs (another batch each) and eager steps share parameters, optimizer and scaler."""
    with nc.use_device(OPENCL[0] if OPENCL else "numpy"):
        eager, twin = Training("Adam", {"lr": 0.05}), Training("Adam", {"lr": 0.05})
        graphs = {}
        for name, rows in (("long", 2), ("short", 1)):
            first = np.tile(batch(0, False), (rows, 1))
            eager.step(nc.tensor(first))
            graphs[name] = ag.capture(twin.step, first)
        for number, (how, bad, then) in enumerate(turns):
            x = np.tile(batch(number, bad), (2 if how == "long" else 1, 1))
            eager.step(nc.tensor(x))
            (twin.step if how == "eager" else graphs[how])(nc.tensor(x))
            for training in (eager, twin):
                if then == "ask":
                    training.optimizer.state_dict()
                    training.scaler.get_scale()
                elif then == "rate":
                    training.optimizer.lr = 0.01 * (number + 1)
                elif then == "load":
                    training.scaler.load_state_dict(
                        {**training.scaler.state_dict(), "scale": 77.0, "growth_interval": 2}
                    )
                elif then == "copy":
                    training.params[1].overwrite(training.params[1].numpy() * 0.5)
        np.testing.assert_equal(twin.all(), eager.all())


def test_two_optimizers_in_one_capture(device: Device) -> None:
    def make() -> tuple[list[Any], Any, Any]:
        pair = [nc.tensor(np.ones(3, np.float32), requires_grad=True) for _ in range(2)]
        optimizers = [optim.Adam([each], lr=0.1) for each in pair]
        scaler = amp.GradScaler(64.0, growth_interval=2)

        def step(x: Any, y: Any) -> Any:
            for optimizer, w, factor in zip(optimizers, pair, (x, y), strict=True):
                optimizer.zero_grad()
                scaler.scale(ag.sum(w * w * factor)).backward()
            for optimizer in optimizers:
                scaler.step(optimizer)
            return x + y

        return pair, scaler, step

    (ours, scaler, step), (theirs, reference, eager) = make(), make()
    one = np.ones(3, np.float32)
    graph = ag.capture(step, one, one)
    eager(nc.tensor(one), nc.tensor(one))
    for turn in range(12):
        pair = [one * (np.inf if turn % 5 == k else turn) for k in (1, 3)]
        graph(*[each.astype(np.float32) for each in pair])
        eager(*[nc.tensor(each.astype(np.float32)) for each in pair])
        assert scaler.state_dict() == reference.state_dict()
    for first, second in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_a_round_of_a_replay_and_an_eager_step(device: Device) -> None:
    """Both gradients were scaled by the scale from before the first of the two steps."""
    found = []
    for captured in (False, True):
        one, two = (nc.tensor(np.ones(3, np.float32), requires_grad=True) for _ in range(2))
        first, second = optim.SGD([one], lr=0.5), optim.SGD([two], lr=0.5)
        scaler = amp.GradScaler(4.0, growth_interval=1)

        def step(x: Any, w: Any = one, optimizer: Any = first, scaler: Any = scaler) -> Any:
            optimizer.zero_grad()
            loss = ag.sum(w * x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            return loss

        x = nc.Tensor.ones((3,))
        run: Any = ag.capture(step, x) if captured else step
        if not captured:
            step(x)
        for _ in range(4):
            second.zero_grad()
            scaler.scale(ag.sum(two * two)).backward()
            run(x)
            scaler.step(second)
        found.append((one.numpy().tolist(), two.numpy().tolist(), scaler.state_dict()))
    assert found[0] == found[1]
    assert found[0][1] == [0.0] * 3  # 1 - 0.5 * 2


def test_gradients_that_are_judged_apart(device: Device) -> None:
    """Two calls of unscale_grads before one step: either flag skips it, and no other step."""
    w = [nc.tensor(np.ones(3, np.float32), requires_grad=True) for _ in range(3)]
    optimizer, other = optim.SGD(w[:2], lr=1.0), optim.SGD(w[2:], lr=1.0)
    scaler = amp.GradScaler(4.0)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        other.zero_grad()
        loss = ag.sum(w[0] * x) + ag.sum(w[1] * y) + ag.sum(w[2])
        scaler.scale(loss).backward()
        flags = [scaler.unscale_grads([each]) for each in w]
        assert all(isinstance(flag, nc.Tensor) for flag in flags)
        scaler.step(optimizer)
        scaler.step(other)
        return loss

    one, bad = np.ones(3, np.float32), np.full(3, np.nan, np.float32)
    graph = ag.capture(step, one, one)
    for x, y, left in ((bad, one, -1.0), (one, bad, -2.0), (one, one, -3.0)):
        graph(x, y)
        assert w[2].numpy().tolist() == [left] * 3
    assert [each.numpy()[0] for each in w] == [-1.0, -1.0, -3.0]
    assert scaler.get_scale() == 1.0


def test_a_step_outside_of_the_capture_that_unscaled(device: Device) -> None:
    w = nc.tensor(np.ones(3, np.float32), requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(4.0)

    def gradients(x: Any) -> Any:
        loss = ag.sum(w * x)
        scaler.scale(loss).backward()
        scaler.unscale_grads([w])
        return loss

    graph = ag.capture(gradients, np.ones(3, np.float32))
    scaler.step(optimizer)
    for value, right in ((1.0, -1.0), (np.inf, -1.0), (0.5, -1.5)):
        graph(np.full(3, value, np.float32))
        scaler.step(optimizer)
        assert w.numpy().tolist() == [right] * 3
    assert scaler.get_scale() == 2.0


def test_what_cannot_be_captured(device: Device) -> None:
    w = nc.tensor(np.ones(3, np.float32), requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(4.0)

    class Foreign:
        param_groups = optimizer.param_groups

        def step(self) -> None:
            raise AssertionError("it must not get here")

    def with_foreign(x: Any) -> Any:
        scaler.scale(ag.sum(w * x)).backward()
        scaler.step(Foreign())
        return x * 1

    def reading(x: Any) -> Any:
        scaler.scale(ag.sum(w * x)).backward()
        scaler.step(optimizer)
        return x * scaler.get_scale()

    def branching(x: Any) -> Any:
        scaler.scale(ag.sum(w * x)).backward()
        if scaler.unscale_grads([w]):
            return x
        return x * 1

    one = np.ones(3, np.float32)
    with pytest.raises(ReplayError, match="a Foreign inside a capture; expected an optimizer of"):
        ag.capture(with_foreign, one)
    for step in (reading, branching):
        with pytest.raises(ReplayError, match="values cannot be read in a capture"):
            ag.capture(step, one)
    w.grad = nc.Tensor.ones((3,))
    scaler.unscale_grads([w])
    with pytest.raises(ReplayError, match="unscaled before the capture"):
        ag.capture(lambda x: scaler.step(optimizer) or x * 1, one)


def test_one_device_in_a_capture() -> None:
    if not OPENCL:
        pytest.skip("no OpenCL device")
    homes = [nc.get_device("numpy"), OPENCL[0]]
    tensors = [nc.Tensor.ones((3,), device=home, requires_grad=True) for home in homes]
    scaler = amp.GradScaler()

    def step(x: Any) -> Any:
        for tensor in tensors:
            tensor.grad = nc.Tensor.ones((3,), device=tensor.device)
        scaler.step(optim.SGD(tensors))
        return x * 1

    with pytest.raises(DeviceError, match="inside a capture; expected all on one device"):
        ag.capture(step, nc.Tensor.ones((3,), device=OPENCL[0]))


def test_one_scaler_and_graphs_on_two_devices() -> None:
    """The scale that one device's replay left is the one with which the other's begins."""
    if not OPENCL:
        pytest.skip("no OpenCL device")
    scaler = amp.GradScaler(2.0**20)
    graphs = []
    for home in (nc.get_device("numpy"), OPENCL[0]):
        w = nc.Tensor.ones((3,), device=home, requires_grad=True)
        optimizer = optim.SGD([w], lr=0.0)

        def step(x: Any, w: Any = w, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            scaled = scaler.scale(ag.sum(w * x))
            scaled.backward()
            scaler.step(optimizer)
            return scaled

        graphs.append(ag.capture(step, nc.Tensor.ones((3,), device=home)))
    bad, scale = np.full(3, np.inf, np.float32), 2.0**20
    for turn in (0, 1, 0, 0, 1, 1, 0):
        graphs[turn](bad)
        scale /= 2
    assert graphs[1](np.ones(3, np.float32)).item() == 3 * scale
    assert scaler.get_scale() == scale


@pytest.mark.parametrize("place", DEVICES, ids=str)
def test_unscale_in_a_capture(place: Device) -> None:
    """Replays allow it again, as eager steps do."""
    with nc.use_device(place):
        w = leaf(1.0, 2.0)
        optimizer, scaler = optim.SGD([w], lr=0.5), amp.GradScaler("cuda", init_scale=4.0)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            scaler.scale(ag.sum(w * x)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            return x

        graph = ag.capture(step, nc.tensor([3.0, 4.0]))
        before = w.numpy()
        graph([3.0, 4.0])
        np.testing.assert_allclose(w.numpy(), before - [0.3, 0.4], rtol=1e-5)
        step(nc.tensor([3.0, 4.0]))
        scaler.unscale_(optimizer)
