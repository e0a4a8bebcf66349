"""What cannot be captured or replayed, and what a failed capture leaves behind."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from twins import equal, floats, leaf

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import optim
from netcl_core.autograd.graph import CompiledGraph
from netcl_core.errors import AttributeValueError, ReplayError
from netcl_core.runtime.recording import captures
from netcl_core.runtime.stream import replaced


def branch(x: Any) -> Any:
    return x * 2.0 if ag.sum(x) > 0 else x


@pytest.mark.parametrize(
    "step",
    [
        lambda x: ag.sum(x).item(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x * 2.0),
        branch,
        lambda x: x.to("numpy" if nc.default_device().backend == "opencl" else "opencl:0"),
        lambda x: (x * 2.0).astype("int32").value.int_range(),
        lambda x: optim.clip_grad_norm_([x], 1.0, error_if_nonfinite=True),
    ],
)
def test_values_cannot_be_read(step: Callable[[Any], Any], device: nc.Device) -> None:
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    x.grad = nc.tensor([1.0, 2.0])
    with pytest.raises(ReplayError, match=r"values cannot be read in a capture.*uncaptured"):
        ag.capture(step, x)
    assert not replaced and not captures
    assert step(x) is not None


def test_an_error_in_the_block_leaves_no_trace(device: nc.Device) -> None:
    w, x, other = leaf((3,), 0), nc.tensor([1.0, 2.0, 3.0]), leaf((3,), 1)
    w.grad = other.grad = held = nc.tensor([5.0, 5.0, 5.0])
    graph = CompiledGraph([w])
    made: list[Any] = []
    with pytest.raises(ZeroDivisionError), graph:
        made.append(weakref.ref(next(iter(captures.values()))))
        ag.sum(w * x * other).backward()
        raise ZeroDivisionError
    assert not replaced and not captures
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
    other = "numpy" if device.backend == "opencl" else "opencl:0"
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
    np.testing.assert_array_equal(graph.outputs.numpy(), wanted)  # nothing was done
    np.testing.assert_array_equal(graph(x.tolist(), y.tolist()).numpy(), wanted)


@pytest.mark.parametrize("labels", [[0, -100, 2], [0, 1, 2]])
def test_labels_to_ignore(device: nc.Device, labels: list[int]) -> None:
    """Also where those of the capture held none."""
    given = floats((3, 3), 0), np.array(labels)
    graph = ag.capture(lambda x, y: ag.cross_entropy(x, y), *given)
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
        ([nc.tensor([1.0], "numpy")], "input 0 on numpy; expected one on"),
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
    assert not captures


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


def test_what_has_to_hold_before_a_replay(device: nc.Device) -> None:
    allowed, seen = [True], list[str]()

    def condition() -> None:
        if not allowed[0]:
            raise ValueError("not any more")

    def step(x: Any) -> Any:
        nc.on_replay(lambda: seen.append("again"))
        nc.before_replay(condition)
        return x * 2.0

    nc.before_replay(lambda: 1 / 0)  # without a capture nothing happens
    graph = ag.capture(step, [1.0])
    assert graph([2.0]).item() == 4
    allowed[0] = False
    with pytest.raises(ValueError, match="not any more"):
        graph([5.0])
    assert (graph.outputs.item(), seen) == (4, ["again"])  # nothing of it was done
    allowed[0] = True
    assert graph([3.0]).item() == 6


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
