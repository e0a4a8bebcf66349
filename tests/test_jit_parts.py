"""A compiled function that needs data on its way: its parts are fused, and it does what it says."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_fusion.parts import _TIMED, _WARMING, Parts, Timing
from netcl_plugin_kit.testing.streams import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import FusionSkipped, NetclError, ShapeError
from netcl_core.runtime.numpy_stream import NumpyStream
from netcl_core.runtime.opencl_stream import OpenCLStream
from netcl_core.tape.state import thread

for _plugin in ("elementwise", "tensor", "linalg"):
    pytest.importorskip(f"netcl_plugin_{_plugin}")


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That these functions are no single program is meant here, and that they stay in parts."""
    monkeypatch.setattr(Timing, "open", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        yield
    assert thread.tracer is None


def leaf(*values: float, device: Any = "numpy") -> nc.Tensor:
    return nc.Tensor.from_host(np.float32(values), device, requires_grad=True)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def twelve(x: Any) -> Any:
    """Six elementwise ops, a look at the data, and six more, of which some depend on it."""
    y = ag.exp(-ag.tanh(x * 2.0 + 1.0)) * 0.5
    scale = float(y.sum().item())
    z = ag.sigmoid(y * scale) - 0.25
    return ag.sqrt(z * z + 1.0) if scale < 10 else z * z * z


def test_one_look_at_the_data_makes_two_parts(device: nc.Device) -> None:
    fused = ag.jit_compile(twelve)
    for values in ((0.5, -1.0), (0.5, -1.0), (1.5, 2.0), tuple(np.linspace(-3, 3, 50))):
        x, y = leaf(*values, device=device), leaf(*values, device=device)
        found, expected = fused(x), twelve(y)
        same(found, expected)
        assert found.requires_grad and not found.is_leaf
        ag.sum(found).backward()
        ag.sum(expected).backward()
        same(x.grad, y.grad)
    x = leaf(0.5, -1.0, device=device)
    with recorded(device) as plain:
        twelve(x)
    before = len(list(fused.parts))
    with recorded(device) as stream:
        fused(x)
    assert len(list(fused.parts)) == before
    if device.backend == "opencl":
        assert (len(plain.launched), len(stream.launched)) == (13, 3)
    text = fused.explain(x)
    assert "runs in parts" in text and "mul -> add -> tanh -> neg -> exp -> mul" in text, text


def test_a_foreign_function_makes_two_parts_and_passes_gradients_on() -> None:
    def clip(x: Any) -> Any:
        bare = lambda value: nc.Tensor.from_host(np.clip(value.numpy(), -1, 1), value.device)  # noqa: E731
        return ag.apply_op(bare, lambda grad: [grad * 2], x, op_name="foreign")

    def function(x: Any) -> Any:
        return ag.exp(clip(ag.tanh(x * 3) + 1) * 2) - 1

    fused = ag.jit_compile(function)
    for _ in range(3):
        x, y = leaf(-0.5, 0.1, 2), leaf(-0.5, 0.1, 2)
        found, expected = fused(x), function(y)
        same(found, expected)
        ag.sum(found).backward()
        ag.sum(expected).backward()
        same(x.grad, y.grad)
    assert [each.trace.written for each in fused.parts] == [3, 3]


class Running:
    """An object with a state in Python and one in a tensor."""

    def __init__(self) -> None:
        self.calls, self.mean, self.last = 0, nc.zeros(2), None

    def step(self, x: Any) -> Any:
        self.calls += 1
        y = ag.relu(x * self.calls + 1)
        with nc.no_grad():
            self.mean *= 0.5
            self.mean[1:] += y.detach().mean()
        self.last = y - self.mean
        if self.calls % 2 and y.sum() > 0:
            y = y * self.last
        y[0] = 7.0
        return ag.exp(-y) + y.reshape(1, 2)[0]


def test_side_effects_and_changes_in_place_are_those_of_python(device: nc.Device) -> None:
    with nc.use_device(device):
        plain, other = Running(), Running()
        fused = ag.jit_compile(other.step)
        for _ in range(5):
            x, y = leaf(1, -2, device=device), leaf(1, -2, device=device)
            expected, found = plain.step(x), fused(y)
            same(found, expected)
            same(other.last, plain.last)
            same(other.mean, plain.mean)
            assert other.calls == plain.calls
            ag.sum(expected).backward()
            ag.sum(found).backward()
            same(y.grad, x.grad)


def test_what_has_not_run_tells_the_truth_of_itself() -> None:
    seen: list[Any] = []

    def function(x: Any) -> Any:
        bool(x[0, 1] > 0)
        y = x * 2
        part = y.t()[1]
        seen.append((y.requires_grad, y.is_leaf, y.op_name, part.stride(), part.is_contiguous()))
        with pytest.raises(ShapeError):
            y.t().view(6)
        with nc.no_grad():
            seen.append(((y * 2).requires_grad, (y > 1).requires_grad, y.detach().is_leaf))
        part.data = part + 1
        other = y.detach()
        other += 1
        seen.append((y.tolist(), other.tolist(), y.grad_fn is None))
        x.grad = (y * 3).detach()
        return y

    x = nc.Tensor.from_host(np.arange(6, dtype=np.float32).reshape(2, 3), requires_grad=True)
    fused = ag.jit_compile(function)
    with nc.use_device("numpy"):
        rows = []
        for call in (function, fused, fused, fused):
            seen.clear()
            call(x)
            rows.append([*seen, x.grad.tolist()])
    assert rows[1:] == rows[:1] * 3


def test_errors_come_where_they_belong_and_leave_values_behind() -> None:
    kept: dict[str, Any] = {}

    def function(x: Any, index: Any) -> Any:
        bool(x[0] > 0)
        kept["y"] = x * 2
        try:
            ag.gather(x, 0, index)
        except NetclError:
            kept["caught"] = True
        if index[0] == 3:
            raise KeyError("three")
        return kept["y"] + 1

    fused = ag.jit_compile(function)
    x, places = leaf(1, 2), [nc.tensor([i], device="numpy") for i in (0, 3, 9)]
    for place in (*places, *places):
        kept.clear()
        if place.item() == 3:
            with pytest.raises(KeyError, match="three"):
                fused(x, place)
        else:
            assert fused(x, place).tolist() == [3, 5]
        assert kept["y"].tolist() == [2, 4] and ("caught" in kept) == (place.item() > 1)


def test_gradients_inside_are_those_of_python() -> None:
    def penalty(x: Any, w: Any) -> Any:
        y = ag.tanh(x * w)
        (slope,) = ag.grad(ag.sum(y * y), [y], create_graph=True)
        loss = ag.sum(slope * y) + float(y.sum().item())
        loss.backward()
        return loss

    fused = ag.jit_compile(penalty)
    for _ in range(3):
        (x, v), (y, w) = [(leaf(1, 2), leaf(0.5, 0.1)) for _ in range(2)]
        same(fused(x, v), penalty(y, w))
        same(v.grad, w.grad)


def test_a_leaf_that_is_frozen_meanwhile() -> None:
    def function(x: Any, w: Any) -> Any:
        bool(x[0] > 0)
        y = x * w
        w.requires_grad_(False)
        z = y + x * w
        w.requires_grad_(True)
        return z * z

    fused = ag.jit_compile(function)
    for _ in range(3):
        x, w = leaf(1, 2), leaf(3, 4)
        ag.sum(fused(x, w)).backward()
        assert w.grad.tolist() == [12, 64]
        assert x.grad.tolist() == [72, 256]


def test_what_is_not_faster_in_parts_is_given_up() -> None:
    def restless(x: Any, state: list[int] = [0]) -> Any:  # noqa: B006
        state[0] += 1
        for _ in range(state[0]):
            x = x * 0.5
        return x if x.sum() > 1 else x + 1

    def halting(x: Any) -> Any:
        while x.sum() > 1:
            x = x * 0.5
        return x

    for function, argument in ((restless, 1.0), (halting, 3e9)):
        fused = ag.jit_compile(function)
        fused.parts = Parts()
        fused.parts._credit = 1_000
        for _ in range(60):
            fused(leaf(argument))
        assert fused.parts._credit <= 0
        assert fused(leaf(argument)).numpy().size == 1


def test_threads_have_parts_in_common() -> None:
    fused, wrong = ag.jit_compile(twelve), []

    def work(seed: int) -> None:
        x = leaf(*np.random.default_rng(seed).normal(size=5))
        expected = twelve(x).numpy()
        for _ in range(30):
            if not np.allclose(fused(x).numpy(), expected, rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What calls are timed by, in place of a clock: a result of an op takes 10 us."""
    monkeypatch.undo()
    now = [0.0]

    def counted(allocate: Any) -> Any:
        def run(*args: Any) -> Any:
            now[0] += 1e-5
            return allocate(*args)

        return run

    for stream in (NumpyStream, OpenCLStream):
        monkeypatch.setattr(stream, "allocate", counted(stream.allocate))
    monkeypatch.setattr("netcl_plugin_fusion.parts.perf_counter", lambda: now[0])
    return now


def _slow(clock: list[float], seconds: float) -> Any:
    def function(x: Any) -> Any:
        bool((x * 2 + 1).sum() > 0)
        if thread.tracer is not None:
            clock[0] += seconds
        return ag.tanh(x * 3) * 2

    return function


def test_parts_that_do_not_pay_are_given_up_by_what_calls_take(
    device: nc.Device, clock: list[float]
) -> None:
    """Only for arguments like those that were timed; `explain` says what was found."""
    x, calls = leaf(1, 2, device=device).detach(), 1 + _WARMING + 2 * _TIMED
    fused = ag.jit_compile(_slow(clock, 0.02))
    for _ in range(calls):
        same(fused(x), ag.tanh(x * 3) * 2)
    text = fused.explain(x)
    assert "runs op by op" in text and "parts do not pay: in parts a call took" in text, text
    for _ in range(2):
        same(fused(x), ag.tanh(x * 3) * 2)
    hits = fused.cache_info().hits
    same(fused(x), ag.tanh(x * 3) * 2)
    assert fused.cache_info().hits == hits, "such calls are not looked up any more"
    with nc.use_device(device):
        assert "runs in parts" in ag.jit_compile(_slow(clock, 0)).explain(x)
        fused(nc.ones(3))
        assert "runs in parts" in fused.explain(nc.ones(3))
        many = ag.jit_compile(lambda x: [x := ag.tanh(x + 1) for _ in range(40)][int(x.sum() > 0)])
        for _ in range(calls):
            many(nc.ones(3))
        assert "runs in parts" in many.explain(nc.ones(3))


def _several(x: Any, w: Any) -> Any:
    """Results of which each follows from others, in one kernel and behind a product."""
    y = ag.tanh(x * 2)
    z = ag.exp(y) * x
    p = ag.relu(x.reshape(1, -1) @ w)
    return y, z + y, y * 3, p, ag.sigmoid(p * 2) + 1


@pytest.mark.parametrize("looks", [False, True])
def test_gradients_of_results_by_one_another(looks: bool, device: nc.Device) -> None:
    """Outside of the function, though one kernel has computed both; with hooks, and again."""

    def function(x: Any, w: Any) -> Any:
        found = _several(x, w)
        if looks:
            bool(found[1].sum() > 0)
        return found

    rng = np.random.default_rng(0)
    arrays = rng.standard_normal(3).astype("f"), rng.standard_normal((3, 3)).astype("f")
    fused = ag.jit_compile(function)
    for order in ((0, 1), (1, 0), (0, 2), (3, 4), (4, 3)):
        rows = []
        for call in (function, fused, fused):
            x, w = (nc.Tensor.from_host(each, device, requires_grad=True) for each in arrays)
            results = call(x, w)
            a, b = (results[i] for i in order)
            seen: list[Any] = []
            for each in results[:2]:
                each.register_hook(lambda grad, seen=seen: seen.append(grad.numpy()))
            found = ag.grad(ag.sum(b * b + b), [a, x], allow_unused=True, create_graph=True)
            parts = [each for each in found if each is not None]
            loss = sum((ag.sum(each * each) for each in parts), ag.sum(results[1] * results[4]))
            loss.backward()
            seen.sort(key=lambda each: each.tolist())
            kept = [x.grad, w.grad, *parts]
            rows.append([len(parts), *seen, *(each.numpy() for each in kept if each is not None)])
        for row in rows[1:]:
            for one, other in zip(row, rows[0], strict=True):
                np.testing.assert_allclose(one, other, 1e-4, 1e-5, err_msg=str(order))
