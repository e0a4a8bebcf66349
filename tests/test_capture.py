"""CompiledGraph and ag.capture: a replay gives what the same step gives eagerly."""

from __future__ import annotations

import gc
import random
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import captured
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import FLOATS, generate

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, optim
from netcl_core.autograd.graph import CompiledGraph
from netcl_core.errors import AttributeValueError, ReplayError
from netcl_core.runtime.recording import recordings
from netcl_core.runtime.signatures import read_only
from netcl_core.runtime.stream import StreamWrapper, own_stream, replaced, stream_of, use_stream
from netcl_core.testing.streams import recorded

DEVICES = [device for device in nc.devices() if not device.simulator]
Arrays = tuple[Any, ...]


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture
def fast() -> Iterator[nc.Device]:
    """The device that is chosen where none is: for what does not depend on it."""
    with nc.use_device(DEVICES[0]) as chosen:
        yield chosen


def floats(shape: Any, seed: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def leaf(shape: Any, seed: int) -> nc.Tensor:
    return nc.tensor(floats(shape, seed), requires_grad=True)


def equal(first: Any, second: Any) -> None:
    np.testing.assert_array_equal(first.numpy(), second.numpy())


# -- a replay is a step --------------------------------------------------------------------


class Twin:
    """A step with state of its own; two of them begin alike."""

    def __init__(self) -> None:
        self.params: list[nc.Tensor] = []
        self.companions: list[Any] = []

    def step(self, *inputs: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def inputs(turn: int) -> Arrays:
        raise NotImplementedError


class WeightedSum(Twin):
    def __init__(self) -> None:
        super().__init__()
        self.params = [leaf((7, 33), 0)]

    def step(self, *inputs: Any) -> Any:
        loss = ag.sum(inputs[0] * self.params[0])
        loss.backward()
        with ag.no_grad():
            self.params[0].copy_(self.params[0] - self.params[0].grad * 0.01)
        return loss

    @staticmethod
    def inputs(turn: int) -> Arrays:
        return (floats((7, 33), turn + 1),)


class Classifier(Twin):
    def __init__(self) -> None:
        super().__init__()
        self.params = [leaf((12, 5), 0)]
        self.companions = [optim.SGD(self.params, lr=0.1, momentum=0.9)]

    def step(self, *inputs: Any) -> Any:
        self.companions[0].zero_grad()
        loss = ag.cross_entropy(inputs[0] @ self.params[0], inputs[1])
        loss.backward()
        self.companions[0].step()
        return loss

    @staticmethod
    def inputs(turn: int) -> Arrays:
        labels = np.random.default_rng(turn).integers(0, 5, 9)
        return floats((9, 12), turn + 1), labels


class Network(Twin):
    def __init__(self) -> None:
        super().__init__()
        layers = nn.Linear(12, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 5)
        self.model = nn.Sequential(*layers)
        for number, each in enumerate(self.model.parameters()):
            each.copy_(floats(each.shape, number) * 0.3)
        self.params = list(self.model.parameters())
        optimizer = optim.Adam(self.params, lr=1e-2)
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
        self.companions = [optimizer, schedule]

    def step(self, *inputs: Any) -> Any:
        optimizer, schedule = self.companions
        loss = ag.cross_entropy(self.model(inputs[0]), inputs[1], label_smoothing=0.1)
        loss.backward()
        optim.clip_grad_norm_(self.params, 1.0)
        optimizer.step()
        schedule.step()
        gradient = self.params[0].grad * 1.0
        optimizer.zero_grad()
        return loss, gradient

    inputs = staticmethod(Classifier.inputs)


@pytest.mark.parametrize("kind", [WeightedSum, Classifier, Network])
def test_a_hundred_steps(kind: type[Twin], device: nc.Device) -> None:
    eager, twin = kind(), kind()
    nc.manual_seed(3)
    wanted = []
    for turn in range(100):
        for each in eager.params:
            each.grad = None
        tensors = [nc.tensor(array) for array in kind.inputs(turn)]
        wanted.append(values(eager, eager.step(*tensors)))
    nc.manual_seed(3)
    graph = ag.capture(twin.step, *kind.inputs(0), params=twin.params)
    same(values(twin, graph.outputs), wanted[0])
    for turn in range(1, 100):
        given: Any = kind.inputs(turn)
        if turn % 2:
            given = [nc.tensor(array) for array in given]
        same(values(twin, graph(*given)), wanted[turn])
    for first, second in zip(eager.companions, twin.companions, strict=True):
        alike(first.state_dict(), second.state_dict())
    if isinstance(eager, Network) and isinstance(twin, Network):
        alike(eager.model.state_dict(), twin.model.state_dict())


def values(twin: Twin, result: Any) -> list[Any]:
    """The outputs, parameters and gradients on the host."""
    outputs = result if isinstance(result, tuple) else (result,)
    gradients = [each.grad for each in twin.params]
    found = [*outputs, *twin.params, *gradients]
    return [None if each is None else each.numpy() for each in found]


def same(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)


def alike(first: Any, second: Any) -> None:
    """Two states are the same."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for name in first:
            alike(first[name], second[name])
    elif isinstance(first, nc.Tensor):
        equal(first, second)
    else:
        np.testing.assert_array_equal(first, second)


ACTIONS = ("replay", "replay device data", "eager", "rate", "no gradients", "allocate", "entry")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=12))
def test_replays_and_eager_work_in_any_order(actions: list[str]) -> None:
    with nc.use_device(DEVICES[0]):
        eager, twin = Network(), Network()
        nc.manual_seed(2)
        graph = ag.capture(twin.step, *twin.inputs(0))
        done, found, wanted = 1, [values(twin, graph.outputs)], []
        for action in actions:
            if action in ("replay", "replay device data", "eager"):
                given: Any = twin.inputs(done)
                if action != "replay":
                    given = [nc.tensor(array) for array in given]
                run = twin.step if action == "eager" else graph
                found.append(values(twin, run(*given)))
                done += 1
            _disturb(twin, graph, action)
        nc.manual_seed(2)
        for turn in range(done):
            tensors = [nc.tensor(array) for array in eager.inputs(turn)]
            wanted.append(values(eager, eager.step(*tensors)))
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        for first, second in zip(eager.companions, twin.companions, strict=True):
            alike(first.state_dict(), second.state_dict())


def _disturb(twin: Network, graph: CompiledGraph, action: str) -> None:
    """Something between two steps that makes no difference to them."""
    if action == "rate":
        twin.companions[0].lr = twin.companions[0].lr
    elif action == "no gradients":
        for each in twin.params:
            each.grad = None if each.grad is not None else nc.Tensor.ones(each.shape)
        twin.companions[0].zero_grad()
    elif action == "allocate":
        _ = [nc.Tensor.full((size,), 7.0) for size in (3, 60, 144, 192)]
    elif action == "entry":
        with graph:
            assert twin.params[0].grad is None  # as the step left it


@pytest.mark.parametrize("kind", ["AdamW", "RMSprop", "SGD"])
def test_every_optimizer(kind: str, device: nc.Device) -> None:
    def make() -> tuple[nc.Tensor, Any, Callable[[Any], Any]]:
        w = leaf((4, 3), 0)
        optimizer = getattr(optim, kind)([w], lr=0.05, weight_decay=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ag.sum(ag.square(x @ w))
            loss.backward()
            optimizer.step()
            return loss

        return w, optimizer, step

    (w1, first, eager), (w2, second, step) = make(), make()
    graph = ag.capture(step, floats((2, 4), 0))
    eager(nc.tensor(floats((2, 4), 0)))
    for turn in range(1, 6):
        first.lr = second.lr = 0.05 / turn
        equal(eager(nc.tensor(floats((2, 4), turn))), graph(floats((2, 4), turn)))
        equal(w1, w2)
    alike(first.state_dict(), second.state_dict())


def test_two_steps_of_an_optimizer_in_one_capture(fast: nc.Device) -> None:
    def make() -> tuple[nc.Tensor, Callable[[Any], Any]]:
        w = leaf((5,), 0)
        optimizer = optim.Adam([w], lr=0.1)

        def step(x: Any) -> None:
            for _ in range(2):
                optimizer.zero_grad()
                ag.sum(ag.square(w - x)).backward()
                optimizer.step()

        return w, step

    (w1, eager), (w2, step) = make(), make()
    graph = ag.capture(step, floats(5, 0))
    eager(nc.tensor(floats(5, 0)))
    for turn in range(1, 5):
        eager(nc.tensor(floats(5, turn)))
        assert graph(floats(5, turn)) is None
        equal(w1, w2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dtypes(dtype: str, device: nc.Device) -> None:
    if dtype == "float64" and not device.supports_fp64:
        pytest.skip("no float64")
    graph = ag.capture(lambda x: ag.softmax(x * 2.0, -1), floats((3, 5), 0, dtype))
    equal(
        graph(floats((3, 5), 1, dtype)), ag.softmax(nc.tensor(floats((3, 5), 1, dtype)) * 2.0, -1)
    )


def test_random_numbers_are_fresh_and_those_of_eager_code(device: nc.Device) -> None:
    @ag.jit_compile
    def compiled(x: Any) -> Any:
        return ag.relu(ag.dropout(x, 0.5)) * 3.0

    def step(x: Any) -> Any:
        return ag.dropout(x, 0.5), compiled(x)

    x = nc.tensor(np.ones(400, np.float32))
    nc.manual_seed(5)
    eager = [step(x) for _ in range(4)]
    nc.manual_seed(5)
    graph = ag.capture(step, x)
    found = [tuple(each.numpy() for each in graph.outputs)]
    found += [tuple(each.numpy() for each in graph(x)) for _ in range(3)]
    for one, other in zip(found, eager, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs.numpy())
    assert len({one[0].tobytes() for one in found}) == 4


def test_inference(device: nc.Device) -> None:
    w = leaf((4, 4), 0)

    @ag.jit_compile
    def layer(x: Any) -> Any:
        return ag.gelu(x @ w) + 1.0

    with ag.no_grad():
        graph = ag.capture(lambda x: layer(layer(x)), floats((2, 4), 0))
        found = graph(floats((2, 4), 1))
        equal(found, layer(layer(nc.tensor(floats((2, 4), 1)))))
    assert isinstance(found, nc.Tensor)
    w.copy_(floats((4, 4), 9))  # what is static is read where it lies
    with ag.no_grad():
        equal(graph(floats((2, 4), 1)), layer(layer(nc.tensor(floats((2, 4), 1)))))


def test_gradients_as_results(device: nc.Device) -> None:
    def step(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        loss = ag.sum(ag.tanh(leaf) * leaf)
        return ag.grad(loss, [leaf])[0]

    graph = ag.capture(step, floats((3, 5), 0))
    equal(graph(floats((3, 5), 1)), step(nc.tensor(floats((3, 5), 1))))


def test_indices_are_checked_at_a_replay(device: nc.Device) -> None:
    table = nn.Embedding(4, 3)
    graph = ag.capture(lambda x: table(x), np.array([[0, 1]]))
    equal(graph(np.array([[3, 2]])), table(np.array([[3, 2]])))
    for wrong in (np.array([[0, 4]]), nc.tensor(np.array([[-5, 0]]))):
        with pytest.raises(AttributeValueError, match="index"):
            graph(wrong)


def test_anomaly_mode_reads_values(fast: nc.Device) -> None:
    w = leaf((3,), 0)
    with ag.detect_anomaly(), pytest.raises(ReplayError, match="values cannot be read"):
        ag.capture(lambda x: ag.sum(w * x).backward(), [1.0, 1.0, 1.0])
    assert w.grad is None and not recordings


# -- the documented form -------------------------------------------------------------------


def test_a_block(device: nc.Device) -> None:
    w, x = leaf((3,), 0), nc.tensor([1.0, 1.0, 1.0])
    w.grad = nc.tensor([9.0, 9.0, 9.0])  # from before
    graph = CompiledGraph(params=[w])
    with graph:
        hidden = x * w
        loss = ag.sum(hidden)
        loss.backward()
    assert w.grad is not None and w.grad.numpy().tolist() == [1, 1, 1]
    graph.compile([x])
    tape_free = weakref.ref(loss)
    wanted = float((w.numpy() * 2).sum())
    del loss, hidden
    gc.collect()
    assert tape_free() is None
    for _ in range(2):
        found = graph.replay([[2.0, 2.0, 2.0]])
        assert found.item() == pytest.approx(wanted)
        assert w.grad.numpy().tolist() == [2, 2, 2]
    assert x.numpy().tolist() == [1, 1, 1]
    assert graph.launches == (0 if device.backend == "numpy" else 3)


def test_outputs_are_what_a_block_assigned(fast: nc.Device) -> None:
    x, kept = nc.tensor([1.0, 2.0], requires_grad=True), nc.tensor([5.0])
    graph = CompiledGraph()
    with graph:
        first = x * 2.0
        second, third = first + 1.0, ag.sum(first)
        kept = kept.alias((1, 1))  # no work of the device
    graph.compile([x])
    assert isinstance(graph.outputs, tuple) and len(graph.outputs) == 2
    assert [each.numpy().tolist() for each in graph.replay([[2.0, 3.0]])] == [[5, 7], 10]
    graph.compile([x], {"doubled": first, "all": [second, third]})
    found = graph.replay([[0.0, 1.0]])
    assert found["doubled"].numpy().tolist() == [0, 2]
    assert found["all"][1].item() == 2
    with graph:
        pass
    bare = CompiledGraph()
    with bare:
        ag.sum(x * 3.0)
    bare.compile([x])
    assert bare.replay([x]) is None


def test_results_with_names_stay_so(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: {"largest": ag.max(x, 0)}, floats((4, 3), 0))
    found = graph(floats((4, 3), 1))["largest"]
    wanted = ag.max(nc.tensor(floats((4, 3), 1)), 0)
    equal(found.values, wanted.values)
    equal(found.indices, wanted.indices)


def test_a_second_entry_finds_the_gradients_of_the_last_replay(device: nc.Device) -> None:
    w, x = leaf((2,), 0), nc.tensor([1.0, 2.0])
    optimizer = optim.SGD([w], lr=1.0)
    graph = CompiledGraph([w])
    with graph:
        ag.sum(w * x).backward()
    graph.compile([x])
    graph.replay([[3.0, 4.0]])
    w.grad = None
    before = w.numpy()
    launches = graph.launches
    with graph:
        assert w.grad.numpy().tolist() == [3, 4]
        optimizer.step()
    np.testing.assert_array_equal(w.numpy(), before - np.array([3, 4], np.float32))
    assert graph.launches == launches


def test_gradients_of_leaves_that_are_not_named(device: nc.Device) -> None:
    w = leaf((3,), 0)
    w.grad = nc.tensor([9.0, 9.0, 9.0])
    graph = ag.capture(lambda x: ag.sum(w * x).backward(), [1.0, 1.0, 1.0])
    graph([1.0, 2.0, 3.0])
    assert w.grad.numpy().tolist() == [1, 2, 3]


def test_gradients_add_up_within_a_capture(device: nc.Device) -> None:
    w = leaf((3,), 0)

    def step(x: Any) -> None:
        w.grad = None
        ag.sum(w * x).backward()
        ag.sum(w * x * 2.0).backward()

    graph = ag.capture(step, [1.0, 1.0, 1.0])
    for _ in range(2):
        graph([1.0, 2.0, 3.0])
        assert w.grad.numpy().tolist() == [3, 6, 9]


def test_an_input_that_is_a_leaf(device: nc.Device) -> None:
    x = leaf((3,), 0)
    graph = CompiledGraph([x])
    with graph:
        ag.sum(ag.square(x)).backward()
    graph.compile([x])
    graph.replay([[1.0, 2.0, 3.0]])
    assert x.grad.numpy().tolist() == [2, 4, 6]


# -- memory --------------------------------------------------------------------------------


def test_a_replay_allocates_nothing(device: nc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Network()
    given = [nc.tensor(array) for array in twin.inputs(0)]
    graph = ag.capture(twin.step, *given)
    graph(*given)
    stream, taken = own_stream(device), []

    def allocate(*args: Any) -> Any:
        taken.append(args)
        return allocate_before(*args)

    name = "allocate" if device.backend == "numpy" else "_take"
    allocate_before = getattr(stream, name)
    monkeypatch.setattr(stream, name, allocate)
    graph(*given)
    graph(*twin.inputs(1))
    assert not taken
    _ = given[0] * 2.0
    assert len(taken) == 1


def test_nobody_else_gets_the_memory_of_a_graph(device: nc.Device) -> None:
    twin, other = Network(), Network()
    first = ag.capture(twin.step, *twin.inputs(0))
    made: list[nc.Tensor] = []
    for turn in range(1, 20):
        made += [nc.tensor(floats((64, size), turn)) * 1.0 for size in (1, 5, 12, 16)]
        if turn == 5:
            second = ag.capture(other.step, *other.inputs(0))
        first(*twin.inputs(turn))
        if turn > 5:
            second(*other.inputs(turn))
    for number, each in enumerate(made):
        size = (1, 5, 12, 16)[number % 4]
        np.testing.assert_array_equal(each.numpy(), floats((64, size), number // 4 + 1))


def test_a_graph_uses_again_what_was_freed_within_it(fast: nc.Device) -> None:
    def chain(x: Any) -> Any:
        with ag.no_grad():
            for _ in range(30):
                x = ag.relu(x)
        return x

    graph = ag.capture(chain, floats(1000, 0))
    buffers = {id(buffer) for each in graph._captured().commands for buffer in each.buffers}
    assert graph.launches == 30
    assert len(buffers) < 8
    equal(graph(floats(1000, 1)), ag.relu(nc.tensor(floats(1000, 1))))


def test_a_graph_is_freed(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: x * 2.0, floats(100, 0))
    held, result = weakref.ref(graph._captured()), graph(floats(100, 1))
    del graph
    gc.collect()
    assert held() is None
    np.testing.assert_array_equal(result.numpy(), floats(100, 1) * 2)  # its own memory stays


def test_what_a_replay_changes_counts_as_changed(device: nc.Device) -> None:
    w = leaf((3,), 0)
    optimizer = optim.SGD([w], lr=0.1)

    def step(x: Any) -> None:
        ag.sum(w * x).backward()
        optimizer.step()

    graph = ag.capture(step, [1.0, 1.0, 1.0])
    loss = ag.sum(ag.square(w))
    graph([1.0, 1.0, 1.0])
    with pytest.raises(nc.errors.MutationError, match="changed in place"):
        loss.backward()
    indices = ag.capture(lambda x: ag.argmax(x, 0), [1.0, 2.0, 3.0])
    assert indices([3.0, 1.0, 1.0]).int_range() == (0, 0)
    assert indices([1.0, 3.0, 1.0]).int_range() == (1, 1)


def test_an_input_that_the_graph_writes_is_copied(device: nc.Device) -> None:
    def step(x: Any) -> Any:
        x.copy_(x * 2.0)
        return x + 1.0

    example, given = nc.tensor([1.0, 2.0]), nc.tensor([3.0, 4.0])
    graph = ag.capture(step, example)
    assert example.numpy().tolist() == [2, 4]  # the capture is a run as usual
    for _ in range(2):
        assert graph(given).numpy().tolist() == [7, 9]
    assert given.numpy().tolist() == [3, 4] and example.numpy().tolist() == [2, 4]


def test_an_output_as_the_next_input(device: nc.Device) -> None:
    graph = ag.capture(lambda x: x * 2.0, [1.0, 2.0])
    found = graph([1.0, 2.0])
    for _ in range(4):
        found = graph(found)
    assert found.numpy().tolist() == [32, 64]


def test_an_output_is_copied_before_the_graph_overwrites_it(device: nc.Device) -> None:
    w = nc.tensor(floats((3, 3), 0))
    graph = ag.capture(lambda x: x @ w, floats((3, 3), 1))
    found = graph(floats((3, 3), 2))
    wanted = nc.tensor(floats((3, 3), 2)) @ w
    for _ in range(3):
        found, wanted = graph(found), wanted @ w
    equal(found, wanted)


def test_tensors_are_read_where_they_lie_unless_the_graph_uses_them(fast: nc.Device) -> None:
    w = leaf((3,), 0)
    optimizer = optim.SGD([w], lr=1.0)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ag.sum(w * x * x)
        loss.backward()
        optimizer.step()
        return x * 1.0

    graph, x = ag.capture(step, [1.0, 1.0, 1.0]), nc.tensor([1.0, 2.0, 3.0])
    with Ledger(fast) as seen:
        equal(graph(x), x)
        equal(graph(x), x)
    assert not seen.copies
    for _ in range(2):
        before = w.numpy()
        with Ledger(fast) as seen:  # w is what the step changes
            found = graph(w)
        assert seen.copies == 1
        np.testing.assert_array_equal(found.numpy(), before)
        np.testing.assert_array_equal(w.numpy(), before - before * before)
    equal(graph([4.0, 5.0, 6.0]), nc.tensor([4.0, 5.0, 6.0]))
    equal(graph(x), x)


class Ledger(StreamWrapper):
    """Counts copies between buffers."""

    def __init__(self, device: nc.Device) -> None:
        super().__init__(stream_of(device))
        self.copies = 0
        self.scope = use_stream(self)

    def __enter__(self) -> Ledger:
        return self.scope.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.scope.__exit__(*error)

    def copy(self, target: Any, source: Any, size: int, dtype: Any) -> None:
        self.copies += 1
        super().copy(target, source, size, dtype)


def test_what_a_kernel_can_write_is_read_from_its_signature() -> None:
    source = "__kernel void f(__global const float *a, global float *const b, const ulong n) {}"
    assert read_only(source, "f") == (True, False, False)
    assert read_only(source, "g") == (False,)


def test_views_and_constants(device: nc.Device) -> None:
    offset = np.array([10.0, 20.0], np.float32)

    def step(x: Any) -> Any:
        changed = nc.tensor(offset)
        changed.copy_(changed + ag.reshape(x, (2,)))
        return ag.reshape(x, (2, 1)), changed

    graph = ag.capture(step, [[1.0, 2.0]])
    offset[:] = 0  # a copy was taken
    for _ in range(2):
        view, changed = graph([[3.0, 4.0]])
        assert view.numpy().tolist() == [[3], [4]]
        assert changed.numpy().tolist() == [13, 24]


def test_no_elements(device: nc.Device) -> None:
    graph = ag.capture(lambda x, y: (ag.relu(x), ag.sum(x) + y), np.zeros((0, 3), "f"), [1.0])
    empty, total = graph(np.zeros((0, 3), "f"), [5.0])
    assert empty.shape == (0, 3) and total.numpy().tolist() == [5]


# -- side by side --------------------------------------------------------------------------


def test_two_threads_with_a_graph_each(device: nc.Device) -> None:
    problems: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with nc.use_device(device):
                twin, eager = Classifier(), Classifier()
                graph = ag.capture(twin.step, *twin.inputs(number))
                eager.step(*[nc.tensor(each) for each in twin.inputs(number)])
                for turn in range(20):
                    graph(*twin.inputs(turn))
                    eager.step(*[nc.tensor(each) for each in twin.inputs(turn)])
                    equal(twin.params[0], eager.params[0])
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not problems, problems


def test_one_graph_in_two_threads(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: ag.sum(x * 2.0), floats(50, 0))
    threads = [threading.Thread(target=lambda: [graph(floats(50, 1)) for _ in range(50)])]
    threads.append(threading.Thread(target=lambda: [graph(floats(50, 1)) for _ in range(50)]))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    equal(graph.outputs, ag.sum(nc.tensor(floats(50, 1)) * 2.0))


def test_another_thread_is_not_captured(fast: nc.Device) -> None:
    x = nc.tensor([1.0, 2.0])
    graph = CompiledGraph()
    with graph:
        y = x * 2.0
        other = threading.Thread(
            target=lambda: [(nc.tensor([1.0]) * 2.0).numpy() for _ in range(9)]
        )
        other.start()
        other.join()
    graph.compile([x], y)
    assert len(graph._captured().commands) == 1


def test_a_replaced_stream_sees_the_replay(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: ag.sum(ag.relu(x)), floats(50, 0))
    wanted = graph(floats(50, 1)).numpy()
    with recorded(fast) as seen:
        found = graph(floats(50, 1)).numpy()
    assert len(seen.launched) == graph.launches
    np.testing.assert_array_equal(found, wanted)


def test_a_long_graph(fast: nc.Device) -> None:
    def step(x: Any) -> Any:
        with ag.no_grad():
            for _ in range(1500):
                x = x + 1.0
        return x

    graph = ag.capture(step, [0.0])
    assert graph.launches == 1500
    assert graph([5.0]).item() == 1505


def test_zeros_for_gradients(device: nc.Device) -> None:
    w = leaf((2,), 0)
    optimizer = optim.SGD([w], lr=0.0)

    def step(x: Any) -> None:
        optimizer.zero_grad(set_to_none=False)
        for _ in range(2):
            ag.sum(w * x).backward()

    graph = ag.capture(step, [1.0, 1.0])
    for _ in range(2):
        graph([2.0, 3.0])
        assert w.grad.numpy().tolist() == [4, 6]


def test_a_graph_works_where_its_tensors_are(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: x * 2.0, nc.tensor([1.0], "cpu"))
    assert str(graph.device) == "cpu"
    assert str(CompiledGraph([leaf((2,), 0).to("cpu")]).device) == "cpu"
    assert graph([3.0]).item() == 6
    assert ag.capture(lambda x: x * 2.0, [1.0], device="cpu")([2.0]).item() == 4


def test_one_hot_classes_are_checked_at_a_replay(device: nc.Device) -> None:
    graph = ag.capture(lambda x: ag.one_hot(x, 3), np.array([0, 2]))
    assert graph(np.array([1, 0])).numpy().tolist() == [[0, 1, 0], [1, 0, 0]]
    with pytest.raises(AttributeValueError, match="one_hot: the index 3"):
        graph(np.array([1, 3]))
    with pytest.raises(ReplayError, match="range of a tensor's values"):
        ag.capture(lambda x: ag.one_hot(x), np.array([0, 2]))


def test_a_plateau_gets_the_number_of_the_capture(fast: nc.Device) -> None:
    w = leaf((2,), 0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([w], lr=1.0), patience=1)

    def step(x: Any) -> Any:
        schedule.step(1.0)
        return x * 2.0

    graph = ag.capture(step, [1.0])
    for _ in range(3):
        graph([1.0])
    assert schedule.last_epoch == 4 and schedule.num_bad_epochs == 1
    with pytest.raises(ReplayError, match="values cannot be read"):
        ag.capture(lambda x: schedule.step(x), [1.0])


def test_many_replays_do_not_run_ahead(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: x + 1.0, floats(5, 0))
    for _ in range(3000):
        found = graph(floats(5, 1))
    equal(found, nc.tensor(floats(5, 1)) + 1.0)


# -- what cannot be ------------------------------------------------------------------------


def branch(x: Any) -> Any:
    return x * 2.0 if ag.sum(x) > 0 else x


@pytest.mark.parametrize(
    "step",
    [
        lambda x: ag.sum(x).item(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x * 2.0),
        branch,
        lambda x: x.to("cpu" if nc.default_device().backend == "opencl" else "opencl:0"),
        lambda x: (x * 2.0).astype("int32").value.int_range(),
        lambda x: optim.clip_grad_norm_([x], 1.0, error_if_nonfinite=True),
    ],
)
def test_values_cannot_be_read(step: Callable[[Any], Any], device: nc.Device) -> None:
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    x.grad = nc.tensor([1.0, 2.0])
    with pytest.raises(ReplayError, match=r"values cannot be read in a capture.*uncaptured"):
        ag.capture(step, x)
    assert not replaced and not recordings
    assert step(x) is not None


def test_an_error_in_the_block_leaves_no_trace(device: nc.Device) -> None:
    w, x, other = leaf((3,), 0), nc.tensor([1.0, 2.0, 3.0]), leaf((3,), 1)
    w.grad = other.grad = held = nc.tensor([5.0, 5.0, 5.0])
    graph = CompiledGraph([w])
    made: list[Any] = []
    with pytest.raises(ZeroDivisionError), graph:
        made.append(weakref.ref(next(iter(recordings.values()))))
        ag.sum(w * x * other).backward()
        raise ZeroDivisionError
    assert not replaced and not recordings
    assert w.grad is other.grad is held and held.numpy().tolist() == [5, 5, 5]
    gc.collect()
    assert made[0]() is None
    for attempt in (lambda: graph.compile([x]), lambda: graph.replay([x]), lambda: graph.launches):
        with pytest.raises(ReplayError, match="the block raised ZeroDivisionError; expected a cap"):
            attempt()
    with graph:  # another attempt
        y = w * x
    graph.compile([x])
    equal(graph.replay([x]), y)


def test_a_replay_before_its_time(fast: nc.Device) -> None:
    x = nc.tensor([1.0])
    graph = CompiledGraph()
    with pytest.raises(ReplayError, match="nothing has been captured; expected a captured block"):
        graph.compile([x])
    with graph:
        x * 2.0
    with pytest.raises(ReplayError, match=r"replay: a graph that is not compiled.*Call compile"):
        graph.replay([x])


def test_inputs_that_do_not_fit(device: nc.Device) -> None:
    graph = ag.capture(lambda x, y: ag.cross_entropy(x, y), floats((2, 3), 0), np.array([0, 2]))
    x, y = floats((2, 3), 1), np.array([1, 1])
    wanted = graph(x, y).numpy()
    other = "cpu" if device.backend == "opencl" else "opencl:0"
    for wrong, text in [
        ([x], "1 inputs; expected 2"),
        ([x[:1], y], r"input 0 has shape \(1, 3\) and dtype float32; expected shape \(2, 3\)"),
        ([x.astype("float64"), y], r"has .* dtype float64; expected .* dtype float32"),
        ([x, y.astype("int32")], r"input 1 has shape \(2,\) and dtype int32; expected"),
        ([nc.tensor(x, other), y], f"input 0 lies on {other}.*{device}.*Move it"),
    ]:
        with pytest.raises(ReplayError, match=text):
            graph.replay(wrong)
    with pytest.raises(ReplayError, match="inputs of type ndarray; expected a list"):
        graph.replay(x)
    with pytest.raises(AttributeValueError, match="class index 3 in target"):
        graph(x, np.array([1, 3]))
    with pytest.raises(AttributeValueError, match="class index 3 in target"):
        graph(x, nc.tensor(np.array([1, 3])))
    with pytest.raises(ReplayError, match=r"labels from -100, which may hold ignore_index=-100"):
        graph(x, np.array([1, -100]))
    np.testing.assert_array_equal(graph.outputs.numpy(), wanted)  # nothing was done
    np.testing.assert_array_equal(graph(x.tolist(), y.tolist()).numpy(), wanted)


def test_labels_to_ignore(device: nc.Device) -> None:
    labels = np.array([0, -100, 2])
    graph = ag.capture(lambda x, y: ag.cross_entropy(x, y), floats((3, 3), 0), labels)
    for each in ([1, 1, 1], [-100, 0, -100]):
        found = graph(floats((3, 3), 1), np.array(each)).item()
        wanted = ag.cross_entropy(nc.tensor(floats((3, 3), 1)), nc.tensor(np.array(each))).item()
        assert found == pytest.approx(wanted, rel=1e-6)


def test_inputs_that_cannot_be_named(fast: nc.Device) -> None:
    x, y, unused = nc.tensor([1.0, 2.0]), nc.tensor([3.0, 4.0]), nc.tensor([5.0])
    graph = CompiledGraph()
    with graph:
        z = x * y
    for wrong, text in [
        ([x, x], "two inputs that share their memory; expected each tensor once"),
        ([x, ag.reshape(x, (2, 1))], "two inputs that share"),
        ([x, unused], r"input 1, of shape \(1,\), which the capture never read"),
        ([[1.0, 2.0]], "input 0 of type list; expected a tensor that was there before"),
        (x, "inputs of type Tensor; expected a list"),
        ([nc.tensor([1.0], "cpu")], "input 0 on cpu; expected one on"),
    ]:
        with pytest.raises(ReplayError, match=text):
            graph.compile(wrong, z)
    graph.compile([x], z)
    assert graph.replay([x]).numpy().tolist() == [3, 8]
    graph.compile([y, x], z)  # and anew
    assert graph.replay([x, x]).numpy().tolist() == [1, 4]


def test_captures_do_not_nest(fast: nc.Device) -> None:
    inner = ag.capture(lambda x: x * 2.0, [1.0])
    with pytest.raises(ReplayError, match="a capture inside a capture"):
        ag.capture(lambda x: ag.capture(lambda x: x * 2.0, x), [1.0])
    with pytest.raises(ReplayError, match="a replay inside a capture"):
        ag.capture(lambda x: inner(x) + 1.0, [1.0])
    with pytest.raises(ReplayError, match="random numbers, which would be the same"):
        ag.capture(lambda x: x * nc.host_generator().random(), [1.0])
    assert not recordings


def test_a_captured_step_of_an_optimizer_that_changed(fast: nc.Device) -> None:
    w = leaf((3,), 0)
    optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        ag.sum(w * x).backward()
        optimizer.step()

    graph = ag.capture(step, [1.0, 1.0, 1.0])
    before = w.numpy()
    optimizer.param_groups[0]["weight_decay"] = 0.5
    with pytest.raises(ReplayError, match=r"a replay with the settings .*Capture the step anew"):
        graph([1.0, 1.0, 1.0])
    optimizer.param_groups[0]["weight_decay"] = 0.0
    state = optimizer.state_dict()
    graph([1.0, 1.0, 1.0])
    after = w.numpy()
    assert (after != before).all()
    optimizer.load_state_dict(state)
    with pytest.raises(ReplayError, match="states that are no longer used"):
        graph([1.0, 1.0, 1.0])
    np.testing.assert_array_equal(w.numpy(), after)


def test_a_parameter_that_moved(fast: nc.Device) -> None:
    w = leaf((3,), 0)
    graph = ag.capture(lambda x: ag.sum(w * x).backward(), [1.0, 1.0, 1.0])
    w.buffer = nc.tensor([1.0, 1.0, 1.0]).buffer
    with pytest.raises(ReplayError, match=r"shape \(3,\) that has other memory than then"):
        graph([1.0, 1.0, 1.0])


def test_functions_at_a_replay_and_things_done_once(device: nc.Device) -> None:
    seen: list[str] = []

    def step(x: Any) -> Any:
        nc.on_replay(lambda: seen.append("again"))
        with nc.uncaptured():
            factor = float(x.numpy().max())
            seen.append("once")
        return x * factor

    assert step(nc.tensor([1.0, 2.0])).numpy().tolist() == [2, 4]
    assert seen == ["once"]
    graph = ag.capture(step, [1.0, 3.0])
    assert graph([2.0, 2.0]).numpy().tolist() == [6, 6]
    assert seen == ["once", "once", "again"]
    with pytest.raises(ZeroDivisionError):
        ag.capture(lambda x: (x * 2.0, nc.on_replay(lambda: 1 / 0)), [1.0])([1.0])


def test_seeds_set_within_a_capture(fast: nc.Device) -> None:
    def step(x: Any) -> Any:
        nc.manual_seed(7)
        return ag.dropout(x, 0.5)

    x = nc.tensor(np.ones(100, np.float32))
    graph = ag.capture(step, x)
    equal(graph(x), step(x))


def test_a_trace_goes_on_where_a_replay_stands(fast: nc.Device) -> None:
    graph = ag.capture(lambda x: x * 2.0, [1.0])

    @ag.jit_compile
    def compiled(x: Any) -> Any:
        return graph(x) + 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(nc.tensor([3.0])).numpy().tolist() == [7]


# -- random programs -----------------------------------------------------------------------


def wrong_programs(device: nc.Device, seeds: range) -> list[str]:
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            program = generate(random.Random(seed).randrange, length=10, dtypes=FLOATS)
            problem = captured.mismatch(program, device)
            if problem:
                found.append(f"seed {seed}: {problem}\n{program}")
    return found


@pytest.mark.parametrize("device", [nc.get_device("cpu"), DEVICES[0]], ids=str, indirect=True)
def test_random_programs(device: nc.Device) -> None:
    assert not wrong_programs(device, range(100))


@pytest.mark.release
@pytest.mark.parametrize("part", range(20))
def test_more_random_programs(device: nc.Device, part: int) -> None:
    assert not wrong_programs(device, range(100 + part * 100, 200 + part * 100))
