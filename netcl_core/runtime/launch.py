"""One kernel launch, prepared as far as possible before its buffers are known.

A `Launch` knows its program, geometry and constant arguments. Kernel objects are
made per thread, because an OpenCL kernel object holds its arguments: shared
between threads, one thread would launch with the buffers of another.
"""

from __future__ import annotations

import math
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final, final

from netcl_core.device.device import Device, opencl_module
from netcl_core.errors import DtypeError, message
from netcl_core.runtime import programs, signatures
from netcl_core.runtime.memory import out_of_memory

#: pyopencl looks up code in a database on disk when it makes a kernel object, and threads
#: that do this together have crashed in it.
_creation: Final = threading.Lock()
_FORMATS: Final = {"float": "f", "double": "d", "int": "i", "long": "q", "ulong": "Q"}
_PACK: Final[dict[str, Callable[..., bytes]]] = {
    ctype: struct.Struct(code).pack for ctype, code in _FORMATS.items()
}
#: The largest double: an int beyond it is no number to OpenCL.
_LARGEST: Final = sys.float_info.max


def pack(value: Any, ctype: str, who: str) -> bytes:
    """A Python number as the bytes of a kernel argument; raises DtypeError if it does not fit."""
    try:
        return _PACK[ctype](value)
    except OverflowError:
        if ctype == "float" and abs(value) <= _LARGEST:
            return _PACK[ctype](math.copysign(math.inf, value))  # as in NumPy
    except struct.error:
        pass
    raise DtypeError(message(who, f"the scalar {value!r} as {ctype}", f"a value that fits {ctype}"))


@final
class Launch:
    """A kernel with its geometry: call it with buffers, then with packed scalars.

    Kernel arguments stand in the order: buffers, scalars, then the constants that
    are given here as packed bytes.
    """

    __slots__ = (
        "_enqueue",
        "_kernels",
        "_misused",
        "_no_memory",
        "_queue",
        "constants",
        "device",
        "entry",
        "global_size",
        "local_size",
        "source",
        "who",
    )

    def __init__(
        self,
        device: Device,
        source: str,
        entry: str,
        global_size: Sequence[int],
        local_size: Sequence[int] | None = None,
        constants: Sequence[bytes] = (),
        who: str = "",
    ) -> None:
        self.device = device
        self.source = source
        self.entry = entry
        self.global_size = tuple(global_size)
        self.local_size = None if local_size is None else tuple(local_size)
        self.constants = tuple(constants)
        self.who = who or entry
        self._kernels: dict[int, tuple[Any, Any]] = {}
        self._queue = device.queue
        self._enqueue = opencl_module().enqueue_nd_range_kernel
        self._no_memory = opencl_module().MemoryError
        self._misused = opencl_module().LogicError

    def __call__(self, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        """Enqueue the kernel on the device's queue; returns at once."""
        kernel, set_arg = self._kernels.get(get_ident()) or self._make(len(buffers) + len(scalars))
        index = 0
        try:
            for buffer in buffers:
                set_arg(index, buffer)
                index += 1
            for scalar in scalars:
                kernel._set_arg_buf(index, scalar)
                index += 1
            self._enqueue(self._queue, kernel, self.global_size, self.local_size)
        except self._no_memory as error:  # of buffers that are only made now
            raise out_of_memory(self.device, None, error) from error
        except self._misused as error:
            raise signatures.misfit(self.who, self.source, self.entry, error) from error

    def _make(self, first: int) -> tuple[Any, Any]:
        """This thread's kernel object with its constants set, and its `set_arg`."""
        cl = opencl_module()
        program = programs.build(self.device, self.source, self.who)
        try:
            with _creation:
                kernel = cl.Kernel(program, self.entry)
            given = first + len(self.constants)
            if kernel.num_args != given:
                text = f"{given} arguments are given"
                raise signatures.misfit(self.who, self.source, self.entry, text)
            for index, constant in enumerate(self.constants, start=first):
                kernel._set_arg_buf(index, constant)
        except cl.Error as error:
            raise signatures.misfit(self.who, self.source, self.entry, error) from error
        if len(self._kernels) > 64:  # threads come and go; their identifiers do not return
            self._kernels.clear()
        made = self._kernels[get_ident()] = (kernel, kernel.set_arg)
        return made
