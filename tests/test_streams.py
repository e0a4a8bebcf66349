"""Streams: all work of a device goes through one, which a scope in one thread can replace."""

from __future__ import annotations

import ast
import gc
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.dtypes import DTYPES, Dtype
from netcl_core.errors import DeviceError
from netcl_core.runtime.opencl_stream import OpenCLStream
from netcl_core.runtime.stream import StreamWrapper, own_stream, replaced, stream_of, use_stream
from netcl_core.runtime.uploads import Uploads

ROOT = Path(__file__).resolve().parent.parent
OPENCL = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
FLOAT = DTYPES["float32"]


@pytest.fixture(params=OPENCL, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


class Ledger(StreamWrapper):
    """Notes every call by its name."""

    def __init__(self, device: nc.Device) -> None:
        super().__init__(stream_of(device))
        self.calls: list[str] = []

    def allocate(self, size: int, dtype: Dtype) -> Any:
        self.calls.append("allocate")
        return super().allocate(size, dtype)

    def launch(self, launch: Any, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.calls.append(launch.entry)
        super().launch(launch, buffers, scalars)

    def upload(self, array: Any, dtype: Dtype) -> Any:
        self.calls.append("upload")
        return super().upload(array, dtype)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> Any:
        self.calls.append("download")
        return super().download(buffer, size, dtype)

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        self.calls.append("copy")
        super().copy(target, source, size, dtype)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        self.calls.append("fill")
        super().fill(buffer, size, dtype, value)

    def host_call(self, run: Any, inputs: Any, outputs: Any, forms: Any) -> None:
        self.calls.append("host call")
        super().host_call(run, inputs, outputs, forms)


def test_everything_goes_through_the_stream(device: nc.Device) -> None:
    """Calls that were planned and run before as well."""
    x = nc.tensor(np.ones((4, 3), np.float32), requires_grad=True)
    for _ in range(2):
        with use_stream(Ledger(device)) as ledger:
            y = ag.mul(x, x)
            assert ledger.calls == ["allocate", "mul_forward"]
            ledger.calls.clear()
            ag.sum(y, 1)
            assert ledger.calls == ["allocate", "reduce_sum"]
            ledger.calls.clear()
            nc.Tensor.ones((2,)).copy_(nc.tensor([1.0, 2.0])).to_host()
            assert ledger.calls == ["allocate", "fill", "upload", "copy", "download"]
            ledger.calls.clear()
            y.backward(nc.Tensor.ones((4, 3)))
            assert "mul_backward" in ledger.calls
        ledger.calls.clear()
        ag.mul(x, x)
        assert not ledger.calls


def test_a_compiled_function_goes_through_the_stream(device: nc.Device) -> None:
    x = nc.tensor(np.ones((40, 30), np.float32))
    compiled = ag.jit_compile(lambda x: ag.sum(ag.tanh(x) * 2.0, 1) + 1.0)
    compiled(x)
    with recorded(device) as stream:
        result = compiled(x).to_host()
    assert stream.launched
    np.testing.assert_allclose(result, np.full(40, 30 * 2 * np.tanh(1.0) + 1), rtol=1e-5)


def test_a_host_call_goes_through_the_stream(device: nc.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("BLAS of the host serves CPUs")
    a = nc.tensor(np.ones((300, 300), np.float32))
    with use_stream(Ledger(device)) as ledger:
        result = ag.matmul(a, a).to_host()
    assert result[0, 0] == 300
    assert ledger.calls[:2] == ["allocate", "host call"] or any("gemm" in c for c in ledger.calls)


def test_scopes_nest_and_end_with_an_exception(device: nc.Device) -> None:
    own = stream_of(device)
    outer, inner = Ledger(device), Ledger(device)
    with pytest.raises(ZeroDivisionError), use_stream(outer):
        with pytest.raises(ZeroDivisionError), use_stream(inner):
            assert stream_of(device) is inner
            raise ZeroDivisionError
        assert stream_of(device) is outer
        raise ZeroDivisionError
    assert stream_of(device) is own
    assert own is own_stream(device)
    assert not replaced


def test_another_thread_keeps_its_stream(device: nc.Device) -> None:
    seen: list[Any] = []
    with use_stream(Ledger(device)):
        thread = threading.Thread(target=lambda: seen.append(stream_of(device)))
        thread.start()
        thread.join()
    assert seen == [own_stream(device)]


def test_the_numpy_path_has_a_stream() -> None:
    device = nc.get_device("numpy")
    with use_stream(Ledger(device)) as ledger, nc.use_device(device):
        assert ag.add(nc.tensor([1.0]), 2.0).to_host().tolist() == [3.0]
    assert ledger.calls == ["upload", "allocate", "host call", "download"]
    launch: Any = type("Launch", (), {"who": "mine"})
    with pytest.raises(DeviceError, match="mine: a kernel on the NumPy path"):
        stream_of(device).launch(launch, [])


# -- what a stream keeps ---------------------------------------------------------------


def test_host_copies_are_freed_when_they_have_arrived(device: nc.Device) -> None:
    """Without another upload, and without a wait for the device."""
    data = np.ones(8 << 20, np.float32)
    nc.tensor(data)
    tracemalloc.start()
    try:
        kept = nc.tensor(data)
        until = time.monotonic() + 30
        while tracemalloc.get_traced_memory()[0] > 1 << 20 and time.monotonic() < until:
            time.sleep(0.01)
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
    assert kept.to_host()[-1] == 1


def test_small_uploads_do_not_pile_up(device: nc.Device) -> None:
    stream = own_stream(device)
    assert isinstance(stream, OpenCLStream)
    for _ in range(3000):
        nc.tensor(np.ones(1000, np.float32))
    stream.finish()
    assert not stream._uploads._pending
    assert not stream._uploads._bytes


def test_python_does_not_end_before_its_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end a daemon inside the driver's function, which ends the process (SIGABRT)."""
    arrived = threading.Event()
    upload = SimpleNamespace(command_execution_status=1, wait=arrived.wait)
    uploads = Uploads()
    uploads.add(upload, 2 << 20)
    waiter = uploads._waiter
    assert waiter is not None and not waiter.daemon
    arrived.set()
    waiter.join()
    ended = SimpleNamespace(is_alive=lambda: False)
    monkeypatch.setattr(threading, "main_thread", lambda: ended)
    uploads.add(upload, 2 << 20)  # by what runs at exit, when no thread can be begun any more
    assert uploads._waiter is None and not uploads._pending


def test_threads_upload_at_the_same_time(device: nc.Device) -> None:
    """Data of any size, and what arrives is what was sent."""
    failed: list[Any] = []

    def work(number: int) -> None:
        try:
            for i in range(60):
                data = np.full((1 << 19) if i % 10 == 0 else 500, number * 100 + i, np.float32)
                sent = nc.tensor(data, device)
                data.fill(-1)
                found = ag.add(sent, 0.0).to_host()
                assert (found == number * 100 + i).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed


def test_the_host_does_not_run_ahead_without_end(device: nc.Device) -> None:
    """At most two rounds of commands are under way that the host has not waited for."""
    stream = own_stream(device)
    assert isinstance(stream, OpenCLStream)
    x = nc.Tensor.ones((1000,))
    waits = 0

    class Mark:
        def wait(self) -> None:
            nonlocal waits
            waits += 1

    for _ in range(5):
        stream._count, stream._mark = 1023, Mark()
        ag.add(x, x)
    assert waits == 5
    stream.finish()


# -- nothing is patched ----------------------------------------------------------------


def test_the_kit_patches_nothing_of_the_runtime() -> None:
    """Whoever wants to see or change a device's work replaces its stream."""
    folders = [ROOT / "netcl_core", *(ROOT / "plugins").glob("*/src")]
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in folders
        for path in folder.rglob("*.py")
        for node in _assignments(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


def _assignments(tree: ast.Module) -> Iterator[ast.stmt]:
    """Assignments to attributes of what a module imported from the runtime or the device room."""
    imported = {
        alias.asname or alias.name.split(".")[-1]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if "netcl_core.runtime" in (getattr(node, "module", None) or alias.name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            continue
        targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
        for target in targets:
            base = target.value if isinstance(target, (ast.Attribute, ast.Subscript)) else None
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name) and base.id in imported:
                yield node


def test_the_search_finds_a_patch() -> None:
    text = "from netcl_core.runtime import memory\nmemory._pools[device] = pool\n"
    assert len(list(_assignments(ast.parse(text)))) == 1
    text = "from netcl_core.runtime.opencl_stream import Launch\nLaunch.__call__ = counted\n"
    assert len(list(_assignments(ast.parse(text)))) == 1


def test_no_garbage_holds_a_stream(device: nc.Device) -> None:
    with use_stream(Ledger(device)):
        ag.add(nc.Tensor.ones((3,)), 1.0)
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is Ledger]
