"""Many ops, threads and steps: results stay right, memory stays flat, nothing is left behind."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from daily import examples
from netcl_plugin_kit.testing import usable_devices
from threads import in_threads, turns

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.errors import MissingOpError, ShapeError
from netcl_core.hardware import programs as cache
from netcl_core.hardware.programs import SharedKernel

THREADS = 8
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]


@pytest.fixture(params=OPENCL, ids=lambda device: device.platform.split()[0])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each OpenCL device in turn, used for the test."""
    with nc.use_device(request.param):
        yield request.param


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns after every few instructions."""
    with turns():
        yield


def live_bytes(device: Any) -> int:
    """What the device's pool has given out."""
    gc.collect()
    device.queue.finish()
    return device.memory_stats()["allocated"]


def resident() -> int:
    """The process's memory in bytes."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


# -- a model with its gradients in NumPy ------------------------------------------------------


class Model:
    """A dozen ops over shared weights, and what they must give."""

    OPS = 12

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.arrays = (random.standard_normal((16, 12)), random.standard_normal(12))
        self.w, self.b = (
            nc.tensor(array.astype(np.float32)).requires_grad_() for array in self.arrays
        )

    def data(self, seed: int) -> tuple[Any, Any]:
        """Inputs and targets of a thread; their sizes differ from thread to thread."""
        random = np.random.default_rng(seed)
        return random.standard_normal((5 + seed, 16)), random.standard_normal((5 + seed, 12))

    def loss(self, x: Any, t: Any, scale: float) -> Any:
        """The ops."""
        h = ag.relu(x @ self.w + self.b)
        p = ag.softmax(h * scale, 1)
        return ag.mean(ag.sum(p * t, 1)) + ag.sum(x * x) * 0.125

    def expected(self, x: Any, t: Any, scale: float) -> tuple[Any, ...]:
        """The loss and the gradients of x, w and b."""
        w, b = self.arrays
        pre = x @ w + b
        e = np.exp(np.maximum(pre, 0) * scale)
        p = e / e.sum(1, keepdims=True)
        upstream = t / len(x)
        g = p * (upstream - (upstream * p).sum(1, keepdims=True)) * scale * (pre > 0)
        loss = (p * t).sum(1).mean() + (x * x).sum() * 0.125
        return loss, g @ w.T + 0.25 * x, x.T @ g, g.sum(0)


def close(found: Any, wanted: Any, what: str) -> None:
    np.testing.assert_allclose(found.to_host(), wanted, 1e-4, 1e-5, err_msg=what)


def test_twenty_thousand_ops_in_threads(device: Any, impatient: None) -> None:
    """Values and gradients of eight threads with tapes of their own."""
    model, total = Model(), 20_000 // len(OPENCL)
    steps = -(-total // (THREADS * Model.OPS))

    def work(seed: int) -> None:
        x, t = model.data(seed)
        scales = (0.5, 1.0, 1.5)
        wanted = [model.expected(x, t, scale) for scale in scales]
        own, target = nc.tensor(x.astype(np.float32)), nc.tensor(t.astype(np.float32))
        for step in range(steps):
            which = step % len(scales)
            leaf = ag.tensor(own.detach(), requires_grad=True)
            with ag.Tape() as tape:
                loss = model.loss(leaf, target, scales[which])
            assert len(tape.nodes) == Model.OPS
            assert ag.get_current_tape() is not tape
            gradients = ag.grad(loss, [leaf, model.w, model.b])
            for name, found, right in zip("lxwb", (loss, *gradients), wanted[which], strict=True):
                close(found, right, f"{name} in step {step} of thread {seed}")

    in_threads(work)


def test_threads_add_to_the_gradient_of_shared_weights(device: Any, impatient: None) -> None:
    """No thread's gradient is lost."""
    model, steps = Model(), 40

    def work(seed: int) -> None:
        x, t = (nc.tensor(array.astype(np.float32)) for array in model.data(seed))
        for _ in range(steps):
            model.loss(x, t, 1.0).backward()

    in_threads(work)
    parts = [model.expected(*model.data(seed), 1.0) for seed in range(THREADS)]
    for leaf, place in ((model.w, 2), (model.b, 3)):
        wanted = steps * sum(part[place] for part in parts)
        np.testing.assert_allclose(leaf.grad.to_host(), wanted, 1e-3, 1e-3)


# -- memory -----------------------------------------------------------------------------------


def test_a_thousand_steps_leave_memory_flat(device: Any) -> None:
    """Without reset(), with batches of changing size and an optimizer that changes its scalars."""
    random = np.random.default_rng(0)
    w1, w2 = (
        nc.tensor((random.standard_normal(shape) * 0.1).astype(np.float32)).requires_grad_()
        for shape in ((64, 32), (32, 10))
    )
    optimizer = nc.optim.Adam([w1, w2])
    batches = [random.standard_normal((size, 64)).astype(np.float32) for size in (32, 31, 17)]

    def step(number: int) -> Any:
        x = batches[number % len(batches)]
        labels = np.arange(len(x)) % 10
        optimizer.zero_grad()
        loss = ag.cross_entropy(ag.relu(nc.tensor(x) @ w1) @ w2, labels)
        loss.backward()
        optimizer.lr = 0.01 / (number + 1)
        optimizer.step()
        return loss.item() if number % 50 == 0 else None

    for number in range(150):
        step(number)
    gc.disable()  # reference counts alone must do
    try:
        live, size = device.memory_stats()["allocated"], resident()
        for number in range(150, 1150):
            step(number)
        device.queue.finish()
        assert device.memory_stats()["allocated"] <= live
        assert resident() - size < 20 << 20
    finally:
        gc.enable()
    assert len(ag.get_current_tape().nodes) < 100


def test_new_scalars_build_no_program(device: Any) -> None:
    """500 numbers in the places where numbers stand."""
    x = ag.tensor(nc.Tensor.ones((37,)), requires_grad=True)

    def step(number: float) -> None:
        y = x * number + number - number / (x + number)
        y = ag.clamp(ag.leaky_relu(y**number, number), -number, number)
        ag.sum(ag.where(y > number, y, number)).backward()

    step(0.125)
    before = len(cache._programs)
    for k in range(1, 501):
        step(0.125 + k / 1024)
    assert len(cache._programs) == before


def test_buffers_are_freed_while_kernels_are_queued(device: Any) -> None:
    """Who gets a freed buffer next writes to it only after the kernels that still read it."""
    x = nc.tensor(np.arange(4096, dtype=np.float32))
    results = []
    for k in range(300):
        y = x * 1.0
        for _ in range(5):
            y = ag.relu(y + float(k)) - float(k)  # each intermediate goes at once
        results.append(ag.sum(y))
        del y
    wanted = float(np.arange(4096).sum())
    assert all(abs(result.item() - wanted) < 1e-3 * wanted for result in results)
    live = live_bytes(device)
    del results
    assert live_bytes(device) < live


def test_deep_graphs_are_freed_without_recursion() -> None:
    """30,000 ops in a row in a thread with a small stack, with and without a backward."""

    def work() -> None:
        x = ag.tensor(nc.Tensor.ones((2,)), requires_grad=True)
        for backward in (False, True):
            y = x
            for _ in range(30_000):
                y = -y
            first = weakref.ref(y.inputs[0])
            if backward:
                y.backward(np.ones(2, np.float32))
            del y
            gone.append(first() is None)
        gradients.append(x.grad.to_host().tolist())

    gone: list[bool] = []
    gradients: list[Any] = []
    before = threading.stack_size(256 << 10)
    try:
        with nc.use_device("numpy"):
            in_threads(lambda seed: work(), 1)
    finally:
        threading.stack_size(before)
    assert gone == [True, True]
    assert gradients == [[1.0, 1.0]]


# -- exceptions -------------------------------------------------------------------------------


def test_exceptions_leave_nothing_behind(device: Any, impatient: None) -> None:
    """In the middle of forward, of backward and of nested modes, in all threads at once."""

    def fail(grad: Any) -> Any:
        raise InterruptedError

    x = ag.tensor(nc.Tensor.ones((64,)), requires_grad=True)

    def work(seed: int) -> None:
        outer = ag.get_current_tape()
        for k in range(examples(20)):
            with pytest.raises(ShapeError), ag.Tape(), ag.no_grad(), ag.Tape(), ag.enable_grad():
                ag.exp(x) + nc.Tensor.ones((3 + k % 5,))
            with pytest.raises(InterruptedError), ag.Tape(retain_grads=True) as tape:
                y = ag.apply_op(lambda v: v.alias(v.shape), fail, ag.exp(x * 2.0), op_name="fail")
                tape.backward(ag.sum(ag.exp(y)))
            with pytest.raises(InterruptedError), ag.detect_anomaly(check_numerics=True):
                ag.sum(ag.apply_op(lambda v: v * 1.0, fail, x, op_name="fail")).backward()
            assert ag.get_current_tape() is outer
            assert ag.is_grad_enabled()
            assert (x * 2.0).requires_grad

    in_threads(work)
    live = live_bytes(device)
    in_threads(work)
    assert live_bytes(device) <= live
    assert x.grad is None
    ag.sum(x * 3.0).backward()
    assert x.grad.to_host().tolist() == [3.0] * 64


# -- threads and plugins that come and go ---------------------------------------------------------


def test_many_short_lived_threads(device: Any) -> None:
    """Each uses the ops once; their kernel objects and tapes do not pile up."""
    x = nc.Tensor.ones((33,)).requires_grad_()
    tapes: list[weakref.ref[Any]] = []

    def work(seed: int) -> None:
        tapes.append(weakref.ref(ag.get_current_tape()))
        (gradient,) = ag.grad(ag.sum(ag.sigmoid(x) * float(seed)), x)
        wanted = seed * np.exp(-1) / (1 + np.exp(-1)) ** 2
        np.testing.assert_allclose(gradient.to_host(), wanted, 1e-5)

    in_threads(work, 4)
    live = live_bytes(device)
    for _ in range(50):
        in_threads(work, 4)
    assert live_bytes(device) <= live
    gc.collect()
    assert not any(ref() is not None for ref in tapes)
    kernels = [each for each in gc.get_objects() if type(each) is SharedKernel]
    assert max(len(each.of_thread) for each in kernels) <= 65


def test_a_plugin_comes_and_goes_while_ops_run(device: Any, impatient: None) -> None:
    """Its own op is there or missing, never wrong; all other ops do not notice."""

    def record(factor: int) -> AutogradPrimitive:
        return AutogradPrimitive(
            "passing_op",
            lambda inputs, attrs: f"{inputs[0]} * {factor}",
            lambda inputs, grad, attrs, out: [f"{grad} * {factor}"],
            arity=1,
        )

    class Given:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        @nc.hookimpl
        def netcl_register_primitives(self, registry: Any) -> None:
            registry.add(record(self.factor))

    done = threading.Event()
    seen: set[Any] = set()

    def work(seed: int) -> None:
        if seed == 0:
            try:
                for k in range(40):
                    nc.plugins.register(Given(k % 2 + 2), "passing")
                    nc.plugins.unregister("passing")
            finally:
                done.set()
            return
        x = nc.Tensor.full((37,), float(seed)).requires_grad_()
        while not done.is_set():
            (gradient,) = ag.grad(ag.sum(ag.exp(x * 0.0) * x), x)
            assert gradient.to_host().tolist() == [1.0] * 37
            try:
                (gradient,) = ag.grad(ag.sum(ag.passing_op(x)), x)
            except MissingOpError:
                seen.add(None)
            else:
                value = set(gradient.to_host().tolist())
                assert value <= {2.0, 3.0} and len(value) == 1
                seen.update(value)

    in_threads(work, 5)
    assert seen
    with pytest.raises(MissingOpError):
        _ = ag.passing_op


def test_a_plugin_is_registered_while_the_installed_ones_load(python: Callable[..., str]) -> None:
    """One thread holds what the other waits for, unless both take the same lock first."""
    code = """
import threading, time
import netcl_core as nc
import netcl_core.autograd as ag

first_use = threading.Thread(target=lambda: print(ag.relu(nc.Tensor.ones(())).item()), daemon=True)

class Given:
    @nc.hookimpl
    def netcl_register_primitives(self, registry):
        first_use.start()
        time.sleep(0.3)

nc.plugins.register(Given(), "mine")
first_use.join(60)
print(first_use.is_alive())
"""
    assert python(code, NETCL_DEVICE="numpy").split() == ["1.0", "False"]
