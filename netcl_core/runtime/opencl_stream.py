"""One kernel launch, prepared as far as possible before its buffers are known.

A `Launch` is a kernel, a geometry and constant arguments; a stream runs it. Launches of equal
source and entry point share the `SharedKernel`, so that another shape is only other numbers.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.dtypes import Dtype
from netcl_core.errors import ArgumentError, DeviceError, DtypeError, message
from netcl_core.hardware import forks
from netcl_core.hardware.device import Device, opencl_module
from netcl_core.hardware.programs import KernelObject, SharedKernel
from netcl_core.runtime import signatures
from netcl_core.runtime.geometry import Forms
from netcl_core.runtime.memory import DeviceMemory, memory_of
from netcl_core.runtime.uploads import Uploads
from netcl_core.runtime.waiting import Waiting

Packer: TypeAlias = Callable[..., bytes]
_FORMATS: Final = {
    "float": "f", "double": "d", "int": "i", "uint": "I", "long": "q", "ulong": "Q"
}  # fmt: skip
#: Of vectors a tuple is packed: a few of these cost less in a launch than as many numbers.
_VECTORS: Final = {"int16": "16i", "long8": "8q"}


def _packed_vector(layout: struct.Struct, numbers: Sequence[int]) -> bytes:
    return layout.pack(*numbers)


_PACK: Final[dict[str, Packer]] = {
    **{ctype: struct.Struct(code).pack for ctype, code in _FORMATS.items()},
    **{ctype: partial(_packed_vector, struct.Struct(code)) for ctype, code in _VECTORS.items()},
}
#: The largest double: an int beyond it is no number to OpenCL.
_LARGEST: Final = sys.float_info.max


def pack(value: Any, ctype: str, who: str) -> bytes:
    """A Python number as the bytes of a kernel argument; raises DtypeError if it does not fit."""
    packer = _packer(ctype, who)
    try:
        return packer(value)
    except OverflowError:
        if ctype == "float" and abs(value) <= _LARGEST:
            return _PACK[ctype](math.copysign(math.inf, value))  # as in NumPy
    except struct.error:
        pass
    raise DtypeError(message(who, f"the scalar {value!r} as {ctype}", f"a value that fits {ctype}"))


def pack_all(
    numbers: Sequence[tuple[str, Any]], packers: Sequence[Packer], who: str
) -> list[bytes]:
    """Several numbers, each with its type, as `pack` does; `packers` are those of the types."""
    try:
        return [to_bytes(number) for to_bytes, (_, number) in zip(packers, numbers, strict=True)]
    except (OverflowError, struct.error):
        return [pack(number, ctype, who) for ctype, number in numbers]


def packers_of(ctypes: Sequence[str], who: str) -> list[Packer]:
    """What makes bytes of numbers of these types; raises ArgumentError for another type."""
    return [_packer(ctype, who) for ctype in ctypes]


def _packer(ctype: str, who: str) -> Packer:
    packer = _PACK.get(ctype)
    if packer is None:
        given, expected = f"a number of the type {ctype!r}", f"one of {', '.join(_PACK)}"
        remedy = "Give the kernel's parameter one of these types, and name it in the arguments"
        raise ArgumentError(message(who, given, expected, remedy))
    return packer


#: So often others may change the constants of a launch before it gets a kernel object of its own:
#: then it has lost on them what making one takes (pyopencl: 120 us). So many launches of one
#: kernel have one.
_CROSSED: Final = 64
_APART: Final = 512


@final
class Asked(list[bytes]):
    """Packed scalars of a launch; a replay asks `again` for those of then."""

    __slots__ = ("again",)

    def __init__(self, packed: Sequence[bytes], again: Callable[[], Sequence[bytes]]) -> None:
        super().__init__(packed)
        self.again = again


@final
class Launch:
    """A kernel with its geometry and constants: a stream runs it with buffers and packed scalars.

    Kernel arguments stand in the order: buffers, scalars, then the constants that
    are given here as packed bytes. `in_place` is that of the `Kernel`.
    """

    __slots__ = (
        "_crossed", "constants", "global_size", "in_place", "kernel", "local_size", "of_thread",
        "who",
    )  # fmt: skip

    def __init__(
        self,
        kernel: SharedKernel,
        global_size: tuple[int, ...],
        local_size: tuple[int, ...] | None = None,
        constants: Sequence[bytes] = (),
        who: str = "",
    ) -> None:
        self.kernel = kernel
        self.of_thread = kernel.of_thread
        self.global_size = global_size
        self.local_size = local_size
        self.constants = constants
        self.who = who or kernel.entry
        self.in_place: tuple[tuple[int, int], ...] = ()
        self._crossed = 0

    def __del__(self) -> None:
        if self.of_thread is not self.kernel.of_thread:
            self.kernel.apart -= len(self.of_thread)

    @property
    def entry(self) -> str:
        """The name of the kernel."""
        return self.kernel.entry

    @property
    def source(self) -> str:
        """The rendered OpenCL C."""
        return self.kernel.source

    def prepared(self, first: int) -> KernelObject:
        """This thread's kernel object with the constants set, after `first` other arguments."""
        cl = opencl_module()
        try:
            shared = self.kernel.of_thread
            number = get_ident()
            own_kernel = self.of_thread.get(number) or shared.get(number)
            if own_kernel is None:
                own_kernel = self.kernel.make(self.who)
            elif own_kernel.last is not None and own_kernel.last is not self:
                own_kernel = self._apart(own_kernel)
            own_kernel.last = None  # in case that setting fails half-way
            given = first + len(self.constants)
            if own_kernel.args != given:
                raise self.misfit(f"{given} arguments are given")
            for index, constant in enumerate(self.constants, start=first):
                own_kernel.kernel._set_arg_buf(index, constant)
        except cl.Error as error:
            raise self.misfit(error) from error
        own_kernel.last = self
        return own_kernel

    def _apart(self, shared: KernelObject) -> KernelObject:
        """A kernel object of this launch's own, once others have often changed the shared one.

        To set constants anew takes as long as all else of a launch.
        """
        self._crossed += 1
        if self._crossed < _CROSSED or self.kernel.apart >= _APART:
            return shared
        self.kernel.apart += 1
        if self.of_thread is self.kernel.of_thread:
            self.of_thread = {}
        own_kernel = self.of_thread[get_ident()] = KernelObject(self.kernel.new(self.who))
        return own_kernel

    def alone(self, buffers: Sequence[Any], scalars: Sequence[bytes]) -> Any:
        """A kernel object for this launch alone, with all arguments set."""
        kernel = self.kernel.new(self.who)
        for index, buffer in enumerate(buffers):
            kernel.set_arg(index, buffer)
        for index, packed in enumerate([*scalars, *self.constants], start=len(buffers)):
            kernel._set_arg_buf(index, packed)
        return kernel

    def misfit(self, problem: object) -> DeviceError:
        """The error that says why the kernel cannot be used so."""
        if "WORK_GROUP_SIZE" in str(problem) or "WORK_ITEM_SIZE" in str(problem):
            return self._oversized(problem)
        return signatures.misfit(self.who, self.kernel.source, self.kernel.entry, problem)

    def _oversized(self, problem: object) -> DeviceError:
        most = self.kernel.device.max_work_group_size
        sizes = f"the global size {self.global_size} and the local size {self.local_size}"
        given = f"the kernel {self.entry!r} cannot be launched with {sizes}: {problem}"
        expected = f"a local size that divides the global size, of at most {most} items"
        remedy = "Change global_size or local_size in the plan; the kernel itself may allow less"
        return DeviceError(message(self.who, given, expected, remedy))


Array: TypeAlias = np.ndarray[Any, Any]
#: Of buffers among a kernel's arguments.
_PLACES: Final = range(1 << 16)
#: So many commands are enqueued before the host waits for those that are as many back: a
#: host that runs ahead without end fills the driver's memory with commands.
_AHEAD: Final = 1024


def fill_pattern(value: Any, dtype: Dtype) -> Array:
    """What a buffer is filled with; ml_dtypes takes no long ints, so that all go by float64."""
    given = np.float64 if dtype.floating else dtype.numpy
    with np.errstate(all="ignore"):
        return np.asarray(value, given).astype(dtype.numpy)


@final
class OpenCLStream:
    """Memory and commands of one OpenCL device; see `stream.Stream`.

    With `told` it has a queue of its own, whose events keep their times, and tells each event.
    """

    def __init__(
        self,
        device: Device,
        memory: DeviceMemory | None = None,
        told: Callable[[Any], None] | None = None,
    ) -> None:
        cl = opencl_module()
        self.device = device
        self.queue: Any = device.queue
        if told is not None:
            timing = cl.command_queue_properties.PROFILING_ENABLE
            self.queue = cl.CommandQueue(device.context, device.cl_device, timing)
        self._told = told
        self._uploads = Uploads()
        self._memory = memory_of(device) if memory is None else memory
        self._take = self._memory.pool.allocate
        self._enqueue = self._telling(cl.enqueue_nd_range_kernel)
        self._no_memory, self._misused = cl.MemoryError, cl.LogicError
        self._refusals = (cl.Error, MemoryError)  # that of a runtime that allocates in this process
        self._count = 0
        self._mark: Any = None
        self._waiting = Waiting(device, self._memory)
        self.catch_up = self._waiting.catch_up

    def allocate(self, size: int, dtype: Dtype) -> Any:
        if not size:
            return None
        memory = self._memory
        try:
            buffer = self._take(size * dtype.itemsize)
        except self._refusals:
            buffer = memory.again(size * dtype.itemsize)
        active = memory.pool.active_bytes
        if active > memory.peak:
            memory.peak = active
        return buffer

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        prepared = launch.of_thread.get(get_ident())
        late = self._waiting.late or (prepared is None and launch.kernel.ahead(launch.who))
        if late and self._waiting.takes(
            partial(self.launch, launch, [*buffers], scalars), launch.kernel, launch.who
        ):
            return
        if prepared is None or prepared.last is not launch:
            prepared = launch.prepared(len(buffers) + len(scalars))
        kernel = prepared.kernel
        try:
            for _ in map(prepared.set_arg, _PLACES, buffers):
                pass
            if scalars:
                for index, scalar in enumerate(scalars, start=len(buffers)):
                    kernel._set_arg_buf(index, scalar)
            event = self._enqueue(self.queue, kernel, launch.global_size, launch.local_size)
        except self._no_memory:  # of buffers that are only made now
            sizes = launch.global_size, launch.local_size
            event = self.again(self._enqueue, None, self.queue, kernel, *sizes)
        except self._misused as error:
            raise launch.misfit(error) from error
        self._count += 1
        if self._count >= _AHEAD:
            self._hold_back(event)

    def _waits(self, command: Callable[..., None], *args: Any) -> bool:
        return self._waiting.late and self._waiting.takes(partial(command, *args))

    def upload(self, array: Array, dtype: Dtype) -> Any:
        """Copy without waiting."""
        buffer = self.allocate(array.size, dtype)
        self.write(buffer, array, dtype)
        return buffer

    def write(self, buffer: Any, array: Array, dtype: Dtype) -> None:
        """Copy without waiting."""
        if array.size:
            self._send(buffer, np.array(array, dtype.numpy, copy=True, order="C"))

    def _send(self, buffer: Any, staging: Array) -> None:
        if self._waits(self._send, buffer, staging):
            return
        copy = opencl_module().enqueue_copy
        event = self._command(copy, staging.nbytes, buffer, staging, is_blocking=False)
        self._uploads.add(event, staging.nbytes)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> Array:
        array = np.empty(size, dtype.numpy)
        if size:
            self.catch_up()
            copy = self._telling(opencl_module().enqueue_copy)
            copy(self.queue, array, buffer, is_blocking=True)
            self._uploads.drop_finished()
        return array

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        if size and not self._waits(self.copy, target, source, size, dtype):
            nbytes = size * dtype.itemsize
            self._command(opencl_module().enqueue_copy, nbytes, target, source, byte_count=nbytes)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        if size and not self._waits(self.fill, buffer, size, dtype, value):
            nbytes = size * dtype.itemsize
            fill = opencl_module().enqueue_fill_buffer
            self._command(fill, nbytes, buffer, fill_pattern(value, dtype), 0, nbytes)

    def host_call(
        self, run: Callable[..., None], inputs: Sequence[Any], outputs: Sequence[Any], forms: Forms
    ) -> None:
        """Map, run and unmap; returns when the work is done."""
        self.catch_up()
        flags = opencl_module().map_flags
        modes = [flags.READ] * len(inputs) + [flags.WRITE_INVALIDATE_REGION] * len(outputs)
        arrays: list[Any] = []
        try:
            for buffer, mode, form in zip((*inputs, *outputs), modes, forms, strict=True):
                arrays.append(self._map(buffer, mode, *form))
            with np.errstate(all="ignore"):
                run(arrays[: len(inputs)], *arrays[len(inputs) :])
        finally:
            for array in arrays:
                if array.size:
                    array.base.release(self.queue)

    def finish(self) -> None:
        self.catch_up()
        self.queue.finish()
        self._count, self._mark = 0, None  # nothing is ahead now
        self._uploads.drop_finished()

    def _map(self, buffer: Any, mode: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        if 0 in shape:
            return np.empty(shape, dtype)
        enqueue = opencl_module().enqueue_map_buffer
        array, _ = enqueue(self.queue, buffer, mode, 0, shape, dtype, is_blocking=True)
        return array

    def _command(self, command: Callable[..., Any], nbytes: int, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a command; some drivers make a buffer only when the first one uses it."""
        command = self._telling(command)
        try:
            event = command(self.queue, *args, **kwargs)
        except self._no_memory:
            event = self.again(command, nbytes, self.queue, *args, **kwargs)
        self.note(1, event)
        return event

    def _telling(self, command: Callable[..., Any]) -> Callable[..., Any]:
        """A command that tells its event, if somebody wants to know."""
        told = self._told
        if told is None:
            return command

        def run(*args: Any, **kwargs: Any) -> Any:
            event = command(*args, **kwargs)
            told(event)
            return event

        return run

    def note(self, count: int, event: Any) -> None:
        """Count commands that were enqueued, the last with this event."""
        self._count += count
        if self._count >= _AHEAD:
            self._hold_back(event)

    def again(
        self, command: Callable[..., Any], nbytes: int | None, *args: Any, **kwargs: Any
    ) -> Any:
        """A command for which there was no memory, after all that can be freed has been freed."""
        self._memory.make_room()
        try:
            return command(*args, **kwargs)
        except self._no_memory as error:
            raise self._memory.shortage(nbytes, error) from error

    def _hold_back(self, event: Any) -> None:
        """Wait for the command at which the count began."""
        self._count = 0
        earlier, self._mark = self._mark, event
        if earlier is not None:
            earlier.wait()


forks.guard(
    OpenCLStream, "allocate", "launch", "upload", "write", "download", "copy", "fill", "finish"
)
