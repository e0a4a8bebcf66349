"""CompiledGraph and ag.capture: a replay gives what the same step gives eagerly."""

from __future__ import annotations

import gc
import itertools
import random
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import captured
import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_capture.commands import CopyCommand, HostCommand
from netcl_plugin_tensor.norm_runs import NORM_RUNS
from programs import FLOATS, generate
from twins import Classifier, Network, Twin, WeightedSum, alike, equal, floats, leaf, same, values

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff, nn, optim
from netcl_core.autograd.graph import CompiledGraph
from netcl_core.errors import AttributeValueError, ReplayError
from netcl_core.runtime.recording import captures

DEVICES = [device for device in nc.devices() if not device.simulator]
OPENCL = [device for device in DEVICES if device.backend == "opencl"]


# -- a replay is a step --------------------------------------------------------------------


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


@pytest.mark.parametrize(("compiled", "most"), [(False, 18), (True, 16)])
def test_a_training_step_has_few_launches(fast: nc.Device, compiled: bool, most: int) -> None:
    if fast.backend == "numpy":
        pytest.skip("NumPy launches nothing")
    sizes = (784, 512, 256, 10)
    layers: list[Any] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x: Any, y: Any) -> Any:
        return ag.cross_entropy(model(x), y)

    forward = ag.jit_compile(loss_of) if compiled else loss_of

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = floats((128, sizes[0]), 0), np.arange(128) % sizes[-1]
    assert ag.capture(step, x, y).launches <= most


ACTIONS = ("replay", "replay device data", "eager", "rate", "no gradients", "allocate", "entry")


@settings(max_examples=examples(25), deadline=None)
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


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
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


def test_a_checkpoint_draws_the_same_numbers_twice(device: nc.Device) -> None:
    def make() -> tuple[nc.Tensor, Callable[[Any], Any]]:
        w = leaf((40,), 0)

        def step(x: Any) -> Any:
            w.grad = None
            hidden = autodiff.checkpoint(lambda w, x: ag.tanh(ag.dropout(w * x, 0.5)), w, x)
            loss = ag.sum(ag.dropout(hidden, 0.2))
            loss.backward()
            return loss

        return w, step

    (w1, eager), (w2, step) = make(), make()
    nc.manual_seed(4)
    wanted = []
    for turn in range(4):
        loss = eager(nc.tensor(floats(40, turn)))
        wanted.append((loss.item(), w1.grad.numpy()))
    nc.manual_seed(4)
    graph = ag.capture(step, floats(40, 0))
    for turn in range(1, 4):
        assert graph(floats(40, turn)).item() == wanted[turn][0]
        np.testing.assert_array_equal(w2.grad.numpy(), wanted[turn][1])


def test_gradients_of_gradients(device: nc.Device) -> None:
    w = leaf((3, 3), 0)

    def step(x: Any) -> Any:
        w.grad = None
        loss = ag.sum(ag.tanh(x @ w))
        (slope,) = ag.grad(loss, [w], create_graph=True)
        penalty = ag.sum(ag.square(slope))
        penalty.backward()
        return penalty

    graph = ag.capture(step, floats((2, 3), 0))
    for turn in (1, 2):
        found, gradient = graph(floats((2, 3), turn)).item(), w.grad.numpy()
        assert found == step(nc.tensor(floats((2, 3), turn))).item()
        np.testing.assert_array_equal(gradient, w.grad.numpy())


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
    w.overwrite(floats((4, 4), 9))  # what is static is read where it lies
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


def test_what_a_check_lets_run_belongs_to_the_capture(device: nc.Device) -> None:
    """A compiled function goes on, with data, where an op looks at them: at its first call here."""

    def places(x: Any) -> Any:
        return ag.one_hot((ag.sum(x, 1) > 0).astype("int64"), 2)

    compiled = ag.jit_compile(places)
    compiled.quiet = True
    x = nc.tensor([[1.0, 2.0], [-1.0, -2.0]])
    graph = ag.capture(lambda x: compiled(x) * 1, x)
    assert graph(-x).tolist() == places(-x).tolist() == [[1, 0], [0, 1]]


def test_anomaly_mode_reads_values(fast: nc.Device) -> None:
    w = leaf((3,), 0)
    with ag.detect_anomaly(), pytest.raises(ReplayError, match="values cannot be read"):
        ag.capture(lambda x: ag.sum(w * x).backward(), [1.0, 1.0, 1.0])
    assert w.grad is None and not captures


@pytest.mark.parametrize("device", OPENCL, ids=str, indirect=True)
def test_calls_of_the_hosts_libraries(give: Callable[..., None], device: nc.Device) -> None:
    calls = []

    def plan(request: ag.Request) -> nc.HostCall:
        turned = request.attrs["trans_a"], request.attrs["trans_b"]

        def run(inputs: Any, out: Any) -> None:
            calls.append(1)
            pairs = zip(inputs, turned, strict=True)
            np.matmul(*[each.T if turn else each for each, turn in pairs], out=out)

        return nc.HostCall(run)

    give("counting", ag.Implementation("matmul", "counting host", plan, priority=99))
    w = leaf((4, 2), 0)

    def step(x: Any) -> Any:
        loss = ag.sum(ag.tanh(ag.relu(x) @ w))
        loss.backward()
        return loss

    graph = ag.capture(step, floats((3, 4), 1))
    assert len(calls) == graph_calls(graph) > 0
    for turn in (2, 3):
        found = graph(nc.tensor(floats((3, 4), turn))).item()
        gradient, w.grad = w.grad.numpy(), None
        assert found == step(nc.tensor(floats((3, 4), turn))).item()
        np.testing.assert_array_equal(gradient, w.grad.numpy())
    assert len(calls) == 5 * graph_calls(graph)


def graph_calls(graph: CompiledGraph) -> int:
    return sum(isinstance(each, HostCommand) for each in graph._captured().commands)


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


@pytest.mark.parametrize("seen", ["nothing", "a result", "an op"])
def test_running_statistics_move_where_they_lie(seen: str, device: nc.Device) -> None:
    """Without copies, unless somebody looks at what would have been copied."""
    running = nc.zeros(3), nc.ones(3), nc.tensor(0)
    rows = np.random.default_rng(3).standard_normal((4, 5, 3)).astype("f4")

    def step(x: Any) -> Any:
        values, _, _, *moved = NORM_RUNS(x, None, None, 0, 1e-5, *running[:2], 0.5, running[2])
        with nc.no_grad():
            for target, source in zip(running, moved, strict=True):
                target.copy_(source)
        if seen == "nothing":
            return values, None
        return values, moved[0] if seen == "a result" else moved[0] * 1.0

    graph = ag.capture(step, rows[0])
    for batch in rows[1:]:
        _, mean = graph(batch)
    wanted = [0, 0, 0]
    for batch in rows:
        wanted = 0.5 * np.asarray(wanted) + 0.5 * batch.mean(0)
    np.testing.assert_allclose(running[0].numpy(), wanted, 1e-5)
    if seen != "nothing":
        np.testing.assert_array_equal(mean.numpy(), running[0].numpy())
    assert running[2].item() == 4
    assert graph._compiled is not None
    copies = [x for x in graph._compiled.commands if isinstance(x, CopyCommand)]
    assert len(copies) == (3 if not device.has_kernels else int(seen != "nothing"))


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


def test_random_programs(on_numpy: None) -> None:
    assert not wrong_programs(nc.default_device(), range(100))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(20))
def test_random_programs_on_every_device(device: nc.Device, part: int) -> None:
    assert not wrong_programs(device, range(part * 100, part * 100 + 100))
