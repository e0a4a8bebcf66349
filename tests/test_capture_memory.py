"""What memory a captured graph takes, reads and writes, alone and beside others."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded
from twins import Classifier, Network, equal, floats, leaf

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import optim
from netcl_core.autograd.graph import CompiledGraph
from netcl_core.errors import AttributeValueError, ReplayError
from netcl_core.runtime.signatures import read_only
from netcl_core.runtime.stream import StreamWrapper, own_stream, stream_of, use_stream

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


def test_the_memory_of_graphs_is_counted(fast: nc.Device) -> None:
    before = fast.memory_stats()["allocated"]
    graph = ag.capture(lambda x: ag.relu(x) * 2.0, floats(1 << 20, 0))
    held = fast.memory_stats()
    assert before + (8 << 20) <= held["allocated"] <= held["peak"]
    assert graph.launches == 2
    del graph
    gc.collect()
    assert fast.memory_stats()["allocated"] <= before + (1 << 20)


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
    source = "kernel void f(__global const float *a, global float *const b, const ulong n) {}"
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
    graph = ag.capture(lambda x: x * 2.0, nc.tensor([1.0], "numpy"))
    assert str(graph.device) == "numpy"
    assert str(CompiledGraph([leaf((2,), 0).to("numpy")]).device) == "numpy"
    assert graph([3.0]).item() == 6
    assert ag.capture(lambda x: x * 2.0, [1.0], device="numpy")([2.0]).item() == 4


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
