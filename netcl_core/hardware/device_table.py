"""The devices of this process: which there are, in which order, and which is the default.

Devices are found on first use, probed one after the other only as far as a
question needs, and made once per process. Importing this module does not
import pyopencl.
"""

from __future__ import annotations

import copyreg
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from netcl_core import config
from netcl_core.errors import DeviceError, NetclError, SlowWarning, first_line, message
from netcl_core.hardware import forks, probing
from netcl_core.hardware.device import Device, Kind
from netcl_core.hardware.device import opencl_module as _pyopencl

if TYPE_CHECKING:
    import pyopencl

_RANK: Final[dict[Kind, int]] = {"gpu": 0, "accelerator": 1, "cpu": 2}


# -- all devices -----------------------------------------------------------------


@dataclass(frozen=True)
class Rejected:
    """A device or platform that cannot be used, and why."""

    name: str
    platform: str
    reason: str


class _Table:
    """Every device of the process: found once, probed in order as far as is asked."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.numpy = Device()
        self.usable: list[Device] = []
        self.rejected: list[Rejected] = []
        self.opencl_problem = ""
        self._waiting: list[Device] | None = None

    def opencl(self) -> Iterator[Device]:
        """The usable OpenCL devices in order; each is probed when its turn comes."""
        index = 0
        while True:
            with self.lock:
                while index >= len(self.usable) and self._probe_next():
                    pass
                if index >= len(self.usable):
                    return
                device = self.usable[index]
            yield device
            index += 1

    def _probe_next(self) -> bool:
        """Probe the next device; False when there is none left."""
        if self._waiting is None:
            self._waiting = self._find()
        if not self._waiting:
            return False
        device = self._waiting[0]
        verdict = device.probe
        if verdict.ok:
            device.id = f"opencl:{len(self.usable)}"
            self.usable.append(device)
        else:
            self.rejected.append(Rejected(device.name, device.platform, verdict.reason))
        del self._waiting[0]
        return True

    def _find(self) -> list[Device]:
        """Every listed OpenCL device, sorted and not yet probed; keeps why there is none."""
        forks.insist()
        try:
            platforms = _pyopencl().get_platforms()
        except NetclError:  # a wrong setting is the user's to correct, not a device's failure
            raise
        except (ImportError, OSError) as error:
            self.opencl_problem = f"pyopencl cannot be imported: {error}"
            return []
        except Exception as error:  # a loader may raise anything; it becomes the reason
            self.opencl_problem = f"OpenCL finds no platform: {first_line(error)}"
            return []
        listed = [device for platform in platforms for device in self._of_platform(platform)]
        if not listed:
            self.opencl_problem = "no OpenCL platform has a device"
        return sorted(listed, key=_order)

    def _of_platform(self, platform: pyopencl.Platform) -> list[Device]:
        devices: list[Device] = []
        name = "?"
        try:
            name = platform.name.strip()
            for cl_device in platform.get_devices():
                devices.append(Device(cl_device, probing.prove))
        except Exception as error:  # a driver may raise anything; it becomes the reason
            self.rejected.append(Rejected("?", name, first_line(error)))
        return devices


def _order(device: Device) -> tuple[Any, ...]:
    """Simulators last; GPU, accelerator, CPU; own memory first; Intel's CPU runtime first.

    Devices of one platform keep their driver's order, since sorting is stable.
    """
    assert device.cl_device is not None
    cpu = device.kind == "cpu"
    shared = bool(getattr(device.cl_device, "host_unified_memory", True))
    other = cpu and not device.platform.lower().startswith("intel")
    version = device.cl_device.platform.version
    rank = _RANK[device.kind]
    return (device.simulator, rank, not cpu and shared, other, device.platform.lower(), version)


_table: _Table = _Table()


def all_devices() -> list[Device]:
    """Every usable device: OpenCL in order, each probed, and the NumPy path last.

    >>> str(nc.devices()[-1])
    'numpy'

    Order: GPU, accelerator, CPU, simulators. The first call may take seconds.
    """
    return [*_table.opencl(), _table.numpy]


def rejected() -> list[Rejected]:
    """Every device or platform that cannot be used."""
    all_devices()
    return list(_table.rejected)


def opencl_problem() -> str:
    """Why there is no OpenCL device at all (no pyopencl, no platform), or an empty text."""
    all_devices()
    return _table.opencl_problem


def get_device(spec: str | Device, index: int | None = None) -> Device:
    """The device that a spec names; a Device is returned as it is. `nc.device` does the same.

    >>> nc.device("numpy").backend
    'numpy'
    >>> nc.device("opencl", 0) is nc.device("opencl:0")
    True

    Specs, in any case: 'numpy' (the NumPy path), 'opencl' (the first OpenCL device),
    'opencl:<index>', 'opencl:<part of a name or platform>'. The words of programs that were
    written for PyTorch, 'cpu', 'cuda', 'mps' and so on, all mean the default device, so that no
    `device = ...` line of such a program leaves OpenCL; 'cuda:1' is the second GPU. Raises
    DeviceError, which lists those that there are.
    """
    if isinstance(spec, Device):
        return spec
    if index is not None:
        return get_device(f"{spec}:{index}")
    if not isinstance(spec, str):
        raise DeviceError(message("device", f"got {spec!r}", "a spec or a Device", _SPECS))
    word = spec.strip().lower()
    backend, _, part = word.partition(":")
    if backend in _PYTORCHS and part.strip() in {"", "0"}:
        return default_device()
    if word == "numpy":
        return _table.numpy
    if backend in _PYTORCHS - {"cpu"}:
        gpus = [device for device in _table.opencl() if device.kind == "gpu"]
        if part.isdecimal() and int(part) < len(gpus):
            return gpus[int(part)]
    if backend != "opencl" or (":" in word and not part.strip()):
        raise _no_device(spec)
    match = _matcher(part.strip())
    for index, device in enumerate(_table.opencl()):
        if match(index, device):
            return device
    raise _no_device(spec)


class _DeviceType(type):
    """The type of `nc.device`: a call looks a device up, and every Device is an instance."""

    def __call__(cls, type: str | Device, index: int | None = None) -> Device:
        return get_device(type, index)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Device)


class device(metaclass=_DeviceType):  # noqa: N801 - PyTorch's name
    """PyTorch's name for the type of devices: `nc.device("cuda")` is `nc.get_device("cuda")`.

    >>> isinstance(nc.default_device(), nc.device), nc.device("cpu") is nc.default_device()
    (True, True)

    Args:
        index: Its number among the devices of its kind.
    """


def _pickled(device: Device) -> tuple[Callable[[str], Device], tuple[str]]:
    """A device pickles as its id, and is looked up again where it arrives."""
    return get_device, (device.id,)


copyreg.pickle(Device, _pickled)


def _matcher(part: str) -> Callable[[int, Device], bool]:
    if part.isdecimal():
        return lambda index, _: index == int(part)
    return lambda _, device: part in device.name.lower() or part in device.platform.lower()


#: How programs that were written for PyTorch name a device: they mean the best that there is.
_PYTORCHS: Final = frozenset({"cpu", "cuda", "hip", "mps", "rocm", "xpu"})
_SPECS: Final = "Give 'opencl:<index>', 'opencl:<part of a name>', 'opencl' or 'numpy'"


def _no_device(spec: str) -> DeviceError:
    there = ", ".join(f"{device} ({device.name})" for device in all_devices())
    given = f"{spec!r} names no usable device"
    if _table.opencl_problem:
        given += f" ({_table.opencl_problem})"
    refused = "; ".join(f"{r.name} of {r.platform}: {r.reason}" for r in _table.rejected)
    remedy = _SPECS + (f". Rejected: {refused}" if refused else "")
    return DeviceError(message("device", given, f"one of {there}", remedy))


# -- the default device ------------------------------------------------------------


class _Choice:
    """The process's default: plain `use_device` calls, newest last, else the automatic one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.calls: list[tuple[weakref.ref[DeviceScope], Device]] = []
        self.automatic: tuple[Device, str] | None = None
        self.current: Device | None = None

    def push(self, scope: DeviceScope) -> None:
        """A call of `use_device`; one whose scope is gone stays, and hides those before it."""
        with self.lock:
            settled = [n for n, (ref, _) in enumerate(self.calls) if ref() is None]
            del self.calls[: settled[-1] if settled else 0]
            self.calls.append((weakref.ref(scope), scope.device))
            self._refresh()

    def withdraw(self, scope: DeviceScope) -> None:
        """The call turned out to open a block, so it does not count for the process."""
        with self.lock:
            self.calls = [call for call in self.calls if call[0]() is not scope]
            self._refresh()

    def _refresh(self) -> None:
        if self.calls:
            self.current = self.calls[-1][1]
        else:
            self.current = self.automatic[0] if self.automatic else None

    def resolve(self) -> tuple[Device, str]:
        """The process's default and the rule that chose it."""
        with self.lock:
            if self.calls:
                return self.calls[-1][1], "use_device"
            if self.automatic is None:
                self.automatic = _automatic()
                self.current = self.automatic[0]
            return self.automatic


def _automatic() -> tuple[Device, str]:
    """The setting's device, else the first GPU, else the first OpenCL CPU, else NumPy."""
    setting = config.get("device")
    if setting and setting.strip().lower() not in _PYTORCHS:  # these leave it to the order
        try:
            return get_device(setting), f"the setting NETCL_DEVICE, {setting!r}"
        except DeviceError as error:
            raise DeviceError(f"NETCL_DEVICE: {error}") from None
    for device in _table.opencl():
        if device.kind != "accelerator" and not device.simulator:
            what = "GPU" if device.kind == "gpu" else "OpenCL CPU device"
            return device, f"the first {what} that passes its probe"
    why = _table.opencl_problem or "; ".join(f"{r.name}: {r.reason}" for r in _table.rejected)
    text = f"no OpenCL device can be used ({why or 'there is none'}), so ops run on NumPy, slowly"
    remedy = "`netcl devices` tells more; NETCL_DEVICE=numpy chooses it and says nothing"
    warnings.warn(message("device", text, "", remedy), SlowWarning, stacklevel=2)
    return _table.numpy, "no usable GPU or OpenCL CPU device, so NumPy"


_choice: _Choice = _Choice()
forks.looks(_choice, _table)
_blocks: ContextVar[tuple[Device, ...]] = ContextVar("netcl_device_blocks", default=())


def default_device() -> Device:
    """The device on which new tensors are made.

    The innermost `with use_device(...)` of this thread, else the last plain
    `use_device(...)`, else NETCL_DEVICE, a GPU, an OpenCL CPU device, NumPy.
    The first call finds and probes; later ones only look up, and a change of
    NETCL_DEVICE is not noticed any more. Raises DeviceError where NETCL_DEVICE
    names no device.

    >>> nc.default_device() in [*nc.devices(), nc.get_device("numpy")]
    True
    """
    blocks = _blocks.get()
    if blocks:
        return blocks[-1]
    return _choice.current or _choice.resolve()[0]


def default_rule() -> str:
    """The rule that chose `default_device()`, in words."""
    return "a use_device block" if _blocks.get() else _choice.resolve()[1]


@final
class DeviceScope:
    """What `use_device` returns: a choice in force, which a `with` narrows to its block."""

    __slots__ = ("__weakref__", "_replaced", "_replacing", "device")

    def __init__(self, device: Device) -> None:
        self.device = device
        self._replaced: tuple[Device, ...] = _blocks.get()
        self._replacing: tuple[Device, ...] = ()
        _choice.push(self)
        if self._replaced:  # a plain call inside a block counts there as well
            self._replacing = (*self._replaced[:-1], device)
            _blocks.set(self._replacing)

    def __enter__(self) -> Device:
        _choice.withdraw(self)
        if self._replacing and _blocks.get() is self._replacing:
            _blocks.set(self._replaced)
        self._replacing = ()
        _blocks.set((*_blocks.get(), self.device))
        return self.device

    def __exit__(self, *_: object) -> None:
        _blocks.set(_blocks.get()[:-1])


def use_device(spec: str | Device) -> DeviceScope:
    """Make a device the default, for good or for a block.

    >>> with nc.use_device("numpy"):
    ...     nc.tensor([1.0]).device
    <Device numpy: NumPy>

    `use_device("numpy")` alone acts at once on the whole process: on every thread
    that is not inside a block of its own. `with use_device("numpy") as device:`
    acts on the thread (or asyncio task) that runs the block, and ends with it,
    also by an exception; threads started inside follow the process's choice.
    Between the call and the block's first line other threads may see the
    choice for an instant. Raises DeviceError as `get_device` does.

    Args:
        spec: A Device, or its name: 'opencl:0', 'numpy', a part of the name.
    """
    return DeviceScope(get_device(spec))
