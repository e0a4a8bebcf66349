"""Devices are found, proved, ordered and chosen; the choice is restored and known to threads."""

from __future__ import annotations

import copy
import json
import pickle
import threading
import timeit
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netcl_core.errors import DeviceError, first_line
from netcl_core.hardware import device as device_module
from netcl_core.hardware import device_table, probing
from netcl_core.hardware.device import Device

TYPES = SimpleNamespace(CPU=2, GPU=4, ACCELERATOR=8)


def fake(name: str, platform: str = "P", kind: int = TYPES.CPU, **more: Any) -> Any:
    values: dict[str, Any] = {
        "name": name,
        "vendor": "V",
        "driver_version": "1",
        "extensions": "cl_khr_fp64 cl_khr_icd",
        "type": kind,
        "platform": SimpleNamespace(name=platform, version="OpenCL 3.0"),
        "max_work_group_size": 256,
        "max_compute_units": 4,
        "local_mem_size": 32768,
        "native_vector_width_float": 8,
        "opencl_c_version": "OpenCL C 1.2 V",
        "host_unified_memory": True,
    }
    return SimpleNamespace(**{**values, **more})


class FakePlatform:
    def __init__(self, name: str, found: list[Any] | Exception) -> None:
        self.name = name
        self.found = found

    def get_devices(self) -> list[Any]:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class Machine:
    """A machine of fake devices; those in `broken` fail their probe, `probed` records the order."""

    def __init__(self) -> None:
        self.platforms: list[FakePlatform] | Exception = []
        self.broken: dict[str, str] = {}
        self.probed: list[str] = []

    def add(self, *found: Any) -> None:
        assert isinstance(self.platforms, list)
        for one in found:
            self.platforms.append(FakePlatform(one.platform.name, [one]))

    def module(self) -> Any:
        return SimpleNamespace(get_platforms=self.get_platforms, device_type=TYPES)

    def get_platforms(self) -> list[FakePlatform]:
        if isinstance(self.platforms, Exception):
            raise self.platforms
        return self.platforms

    def run_probe(self, device: Device) -> probing.Probe:
        if device.backend == "numpy":
            return probing.Probe(True, "NumPy")
        self.probed.append(device.name)
        reason = self.broken.get(device.name)
        return probing.Probe(reason is None, reason or "fine")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    monkeypatch.setattr(device_table, "_pyopencl", made.module)
    monkeypatch.setattr(device_module, "opencl_module", made.module)
    monkeypatch.setattr(Device, "_run_probe", lambda device, _: made.run_probe(device))
    monkeypatch.setattr(device_table, "_table", device_table._Table())
    monkeypatch.setattr(device_table, "_choice", device_table._Choice())
    token = device_table._blocks.set(())
    yield made
    device_table._blocks.reset(token)


def names() -> list[str]:
    return [device.name for device in device_table.all_devices()]


# -- order and default -------------------------------------------------------------


def test_order(machine: Machine) -> None:
    machine.add(
        fake("sim", "Oclgrind", TYPES.GPU | TYPES.CPU),
        fake("pocl", "Portable Computing Language"),
        fake("xeon", "Intel(R) OpenCL"),
        fake("fpga", "Intel(R) FPGA", TYPES.ACCELERATOR),
        fake("igpu", "Intel(R) OpenCL Graphics", TYPES.GPU),
        fake("gpu", "NVIDIA CUDA", TYPES.GPU, host_unified_memory=False),
    )
    assert names() == ["gpu", "igpu", "fpga", "xeon", "pocl", "sim", "NumPy"]
    ids = [str(device) for device in device_table.all_devices()]
    assert ids == [*(f"opencl:{n}" for n in range(6)), "numpy"]
    assert device_table.all_devices()[5].simulator and device_table.all_devices()[5].kind == "cpu"


def test_devices_of_one_platform_keep_the_drivers_order(machine: Machine) -> None:
    machine.platforms = [FakePlatform("P", [fake("b", kind=4), fake("a", kind=4)])]
    assert names() == ["b", "a", "NumPy"]


def test_vectors(machine: Machine) -> None:
    """As the driver says; 4 bytes where it says nothing."""
    widths = {"none": 0, "one": 1, "neon": 4, "avx2": 8, "avx512": 16}
    machine.add(*(fake(name, native_vector_width_float=n) for name, n in widths.items()))
    found = {each.name: each.vector_bytes for each in device_table.all_devices()}
    assert found == {"none": 4, "one": 4, "neon": 16, "avx2": 32, "avx512": 64, "NumPy": 4}


def test_default_probes_only_what_it_needs(machine: Machine) -> None:
    machine.add(fake("a", "A"), fake("gpu", "Z", TYPES.GPU), fake("b", "B"))
    assert device_table.default_device().name == "gpu"
    assert machine.probed == ["gpu"]
    assert "GPU" in device_table.default_rule()


def test_default_passes_over_what_fails_its_probe(machine: Machine) -> None:
    machine.add(fake("gpu", "G", TYPES.GPU), fake("good", "H"))
    machine.broken["gpu"] = "unknown target"
    assert device_table.default_device().name == "good"
    assert str(device_table.default_device()) == "opencl:0"
    assert device_table.rejected() == [device_table.Rejected("gpu", "G", "unknown target")]


@pytest.mark.filterwarnings("ignore::netcl_core.errors.SlowWarning")
def test_simulator_and_accelerator_are_never_the_default(machine: Machine) -> None:
    machine.add(fake("sim", "Oclgrind", TYPES.GPU), fake("fpga", "F", TYPES.ACCELERATOR))
    assert device_table.default_device().backend == "numpy"
    assert device_table.get_device("opencl").name == "fpga"


@pytest.mark.filterwarnings("ignore::netcl_core.errors.SlowWarning")
def test_no_platform(machine: Machine) -> None:
    machine.platforms = RuntimeError("PLATFORM_NOT_FOUND_KHR")
    assert names() == ["NumPy"]
    assert "PLATFORM_NOT_FOUND_KHR" in device_table.opencl_problem()
    assert device_table.default_device() is device_table.get_device("CPU")
    with pytest.raises(DeviceError, match="PLATFORM_NOT_FOUND_KHR"):
        device_table.get_device("opencl")


def test_a_platform_that_raises_does_not_hide_the_others(machine: Machine) -> None:
    machine.platforms = [FakePlatform("Bad", OSError("boom")), FakePlatform("P", [fake("ok")])]
    assert names() == ["ok", "NumPy"]
    assert device_table.rejected() == [device_table.Rejected("?", "Bad", "OSError: boom")]


def test_a_device_is_made_once(machine: Machine) -> None:
    machine.add(fake("a"))
    seen: list[Device] = []
    threads = [
        threading.Thread(target=lambda: seen.append(device_table.default_device()))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in seen}) == 1
    assert machine.probed == ["a"]
    assert seen[0] is device_table.all_devices()[0]


def test_environment_chooses(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.add(fake("gpu", "G", TYPES.GPU))
    monkeypatch.setenv("NETCL_DEVICE", " NumPy ")
    assert device_table.default_device().backend == "numpy"
    assert "NETCL_DEVICE" in device_table.default_rule()
    assert machine.probed == []


def test_environment_that_names_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_DEVICE", "opencl:3")
    with pytest.raises(DeviceError, match=r"NETCL_DEVICE: .*opencl:3"):
        device_table.default_device()
    monkeypatch.setenv("NETCL_DEVICE", "numpy")
    assert device_table.default_device().id == "numpy"


def test_default_is_cheap(machine: Machine) -> None:
    machine.add(fake("a"))
    device_table.default_device()
    best = min(timeit.repeat(device_table.default_device, number=20_000, repeat=5)) / 20_000
    assert best < 0.9e-6  # s; three times what is promised, since the machine may be busy


# -- specs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("opencl", "Radeon Pro"),
        ("opencl:0", "Radeon Pro"),
        (" OpenCL:1 ", "Xeon"),
        ("opencl:xeon", "Xeon"),
        ("opencl:amd acc", "Radeon Pro"),
        ("numpy", "NumPy"),
    ],
)
def test_spec(machine: Machine, spec: str, name: str) -> None:
    machine.add(fake("Xeon", "Intel"), fake("Radeon Pro", "AMD Accelerated", TYPES.GPU))
    assert device_table.get_device(spec).name == name
    assert device_table.get_device(device_table.get_device(spec)).name == name


@pytest.mark.parametrize("spec", ["opencl:2", "opencl:-1", "opencl:", "gpu", "", "opencl:nvidia"])
def test_bad_spec_lists_what_there_is(machine: Machine, spec: str) -> None:
    machine.add(fake("Xeon", "Intel"), fake("Dead", "D"))
    machine.broken["Dead"] = "no compiler"
    with pytest.raises(DeviceError, match=r"opencl:0 \(Xeon\), numpy \(NumPy\).*no compiler"):
        device_table.get_device(spec)


def test_pytorchs_words(machine: Machine) -> None:
    machine.add(fake("Xeon", "Intel"), fake("One", "AMD", TYPES.GPU), fake("Two", "AMD", TYPES.GPU))
    for word in ("cuda", "cuda:0", "cpu", "mps"):
        assert device_table.get_device(word) is device_table.default_device()
    second = device_table.get_device("cuda", 1)
    assert (second.name, second.type, second.index) == ("Two", "cuda", 1)
    assert device_table.get_device("opencl:xeon").type == "cpu"
    assert device_table.get_device("numpy").index is None
    for missing in ("cuda:2", "cpu:1"):
        with pytest.raises(DeviceError, match=missing):
            device_table.get_device(missing)


def test_spec_of_a_wrong_type(machine: Machine) -> None:
    with pytest.raises(DeviceError, match="got 3"):
        device_table.get_device(3)  # type: ignore[arg-type]


# -- use_device ----------------------------------------------------------------------


@pytest.fixture
def two(machine: Machine) -> Machine:
    machine.add(fake("a", "A"), fake("b", "B"))
    return machine


def current() -> str:
    return device_table.default_device().name


def elsewhere() -> str:
    """The default as another thread sees it."""
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(current()))
    thread.start()
    thread.join()
    return seen[0]


def test_plain_call_is_for_good_and_for_all(two: Machine) -> None:
    assert current() == "a"
    device_table.use_device("opencl:1")
    assert (current(), elsewhere()) == ("b", "b")
    assert device_table.default_rule() == "use_device"
    device_table.use_device("numpy")
    assert (current(), elsewhere()) == ("NumPy", "NumPy")


def test_many_plain_calls_do_not_pile_up(two: Machine) -> None:
    for n in range(100):
        device_table.use_device(f"opencl:{n % 2}")
    assert len(device_table._choice.calls) <= 2
    assert current() == "b"


def test_block_is_for_this_thread(two: Machine) -> None:
    with device_table.use_device("opencl:1") as device:
        assert device.name == current() == "b"
        assert elsewhere() == "a"
        assert "block" in device_table.default_rule()
    assert (current(), elsewhere()) == ("a", "a")


def test_blocks_nest_and_survive_exceptions(two: Machine) -> None:
    with device_table.use_device("opencl:1"):
        with pytest.raises(ZeroDivisionError), device_table.use_device("numpy"):
            assert current() == "NumPy"
            with device_table.use_device("opencl:0"):
                assert current() == "a"
                raise ZeroDivisionError
        assert current() == "b"
        with pytest.raises(DeviceError):
            device_table.use_device("opencl:9")
        assert current() == "b"
    assert current() == "a"


def test_block_does_not_undo_an_earlier_plain_call(two: Machine) -> None:
    device_table.use_device("numpy")
    with device_table.use_device("opencl:1"):
        assert current() == "b"
    assert current() == "NumPy"


def test_plain_call_inside_a_block_acts_there_too(two: Machine) -> None:
    with device_table.use_device("opencl:1"):
        device_table.use_device("numpy")
        assert (current(), elsewhere()) == ("NumPy", "NumPy")
        with device_table.use_device("opencl:0"):
            assert current() == "a"
        assert current() == "NumPy"
    assert current() == "NumPy"


def test_a_scope_held_and_entered_later(two: Machine) -> None:
    scope = device_table.use_device("opencl:1")
    assert current() == "b"
    device_table.use_device("numpy")
    with scope:
        assert current() == "b"
        with scope:
            assert current() == "b"
        assert current() == "b"
    assert current() == "NumPy"


def test_blocks_of_many_threads_do_not_mix(two: Machine) -> None:
    wrong: list[str] = []

    def work(spec: str, name: str) -> None:
        for _ in range(300):
            with device_table.use_device(spec):
                if current() != name:
                    wrong.append(current())

    pairs = [("opencl:0", "a"), ("opencl:1", "b"), ("numpy", "NumPy")] * 2
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert (current(), device_table._choice.calls) == ("a", [])


# -- the Device ------------------------------------------------------------------------


def test_numpy_device() -> None:
    device = device_table.get_device("numpy")
    assert (device.backend, device.kind, device.platform) == ("numpy", "cpu", "NumPy")
    assert device.queue is None
    assert device.context is None
    assert device.cl_device is None
    assert device.supports_fp16 and device.supports_fp64 and device.probe.ok
    assert device.driver_version == np.__version__
    assert (str(device), repr(device)) == ("numpy", "<Device numpy: NumPy>")
    assert not hasattr(device, "__dict__")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("OpenCL C 1.2 pocl", (1, 2)),
        ("OpenCL C 3.0 ", (3, 0)),
        ("OpenCL 3.0", (1, 0)),
        ("", (1, 0)),
    ],
)
def test_version_of_the_language(said: str, version: tuple[int, int]) -> None:
    assert Device(fake("one", opencl_c_version=said)).opencl_c == version
    assert Device().opencl_c == (0, 0)


def test_identity(machine: Machine) -> None:
    machine.add(fake("a"), fake("a"))
    first, second, _ = device_table.all_devices()
    assert first != second and len({first, second, copy.copy(first)}) == 2
    assert copy.deepcopy([first])[0] is first
    assert pickle.loads(pickle.dumps(second)) is second


def test_a_queue_that_cannot_be_made_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def context(_: Any) -> Any:
        raise MemoryError("OUT_OF_HOST_MEMORY")

    module = SimpleNamespace(Context=context, device_type=TYPES)
    monkeypatch.setattr(device_module, "opencl_module", lambda: module)
    probe = Device(fake("a")).probe
    assert not probe.ok
    assert probe.reason == "no context or queue: MemoryError: OUT_OF_HOST_MEMORY"


@pytest.mark.parametrize(
    ("platform", "extensions", "builds"),
    [
        ("NVIDIA CUDA", "cl_khr_fp64", True),
        ("Portable Computing Language", "cl_khr_fp64", False),
        ("Portable Computing Language", "cl_khr_fp16", True),
    ],
)
def test_half_is_compiled_not_read(
    monkeypatch: pytest.MonkeyPatch, platform: str, extensions: str, builds: bool
) -> None:
    monkeypatch.setattr(probing, "_run", lambda *_: (np.ones(4), np.full(4, 3.0)))
    queue: Any = SimpleNamespace(device=fake("a", platform, extensions=extensions))
    assert probing.probe_arithmetic(None, queue, "half").ok is builds


def test_wrong_result_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "_run", lambda *_: (np.ones(2), np.zeros(2)))
    probe = probing.probe(None, None, "float")  # type: ignore[arg-type]
    assert probe == probing.Probe(False, "wrong result: [0.0, 0.0] instead of [3.0, 3.0]")


def test_first_line_keeps_what_tells() -> None:
    text = "clBuildProgram failed\n\nBuild on x:\n  error: unknown target CPU 'generic'\nmore"
    expected = "RuntimeError: clBuildProgram failed | error: unknown target CPU 'generic'"
    assert first_line(RuntimeError(text)) == expected
    assert first_line(KeyError()) == "KeyError"


# -- real devices, each in a process of its own ------------------------------------------


def test_real_devices_compute(python: Callable[..., str]) -> None:
    pytest.importorskip("pyopencl")
    code = """
import json, threading, warnings
import warnings
from netcl_core.hardware import device_table
from netcl_core.hardware import probing
found = device_table.all_devices()
queues = []
for device in found[:-1]:
    threads = [threading.Thread(target=lambda: queues.append(device.queue)) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert len({q.int_ptr for q in queues}) == 1 and queues[0] is device.queue, queues
    assert device.queue.context == device.context and device.probe.ok
    assert ('cl_khr_fp64' in device.extensions) <= device.supports_fp64
    device.supports_fp16
    queues.clear()
print(json.dumps([d.id for d in found]))
"""
    found = json.loads(python(code))
    assert found == [*(f"opencl:{n}" for n in range(len(found) - 1)), "numpy"]


def test_a_build_that_fails_is_a_reason(python: Callable[..., str]) -> None:
    pytest.importorskip("pyopencl")
    code = """
from netcl_core.hardware import device_table
from netcl_core.hardware import probing
import warnings
probing.core_source = lambda name: 'this is no kernel;'
assert [d.id for d in device_table.all_devices()] == ['numpy'], device_table.all_devices()
warnings.simplefilter("ignore")
assert device_table.default_device().id == 'numpy'
for one in device_table.rejected():
    assert 'clBuildProgram' in one.reason or 'BUILD' in one.reason, one
print(len(device_table.rejected()) > 0 or device_table.opencl_problem())
"""
    assert python(code)


def test_without_pyopencl(python: Callable[..., str]) -> None:
    code = """
import sys
sys.modules['pyopencl'] = None
from netcl_core.hardware import device_table
from netcl_market import doctor
import warnings
warnings.simplefilter("ignore")
assert device_table.default_device().id == 'numpy'
assert [d.id for d in device_table.all_devices()] == ['numpy']
assert 'pyopencl cannot be imported' in device_table.opencl_problem()
assert not doctor.collect()["opencl_usable"]
"""
    python(code)


def test_importing_does_not_import_pyopencl(python: Callable[..., str]) -> None:
    python(
        "import sys, netcl_core.hardware.device_table, netcl_core.cli.devices\n"
        "assert 'pyopencl' not in sys.modules"
    )


def test_a_bad_setting_is_not_swallowed(python: Callable[..., str]) -> None:
    code = """
from netcl_core.hardware import device_table
from netcl_core.errors import ConfigError
try:
    device_table.default_device()
except ConfigError as error:
    print(error)
"""
    assert "NETCL_ICD_DISCOVERY" in python(code, NETCL_ICD_DISCOVERY="perhaps")
