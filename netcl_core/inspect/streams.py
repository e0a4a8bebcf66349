"""What a device is asked to do: its stream, wrappers that see or change it, recorded commands.

class Counting(StreamWrapper):
    def launch(self, launch, buffers, scalars=()):
        self.count = getattr(self, "count", 0) + 1
        self.inner.launch(launch, buffers, scalars)

with use_stream(Counting(stream_of(device))) as counting:
    ...
"""

from __future__ import annotations

from netcl_core.hardware.device import Kind as Kind
from netcl_core.hardware.device import opencl_module as opencl_module
from netcl_core.hardware.device import stand_in as stand_in
from netcl_core.hardware.programs import shared_kernel as shared_kernel
from netcl_core.runtime.host_calls import HostBound as HostBound
from netcl_core.runtime.memory import memory_of as memory_of
from netcl_core.runtime.memory import memory_of_graph as memory_of_graph
from netcl_core.runtime.numpy_stream import NumpyStream as NumpyStream
from netcl_core.runtime.opencl_stream import Asked as Asked
from netcl_core.runtime.opencl_stream import Launch as Launch
from netcl_core.runtime.opencl_stream import OpenCLStream as OpenCLStream
from netcl_core.runtime.opencl_stream import fill_pattern as fill_pattern
from netcl_core.runtime.stream import Stream as Stream
from netcl_core.runtime.stream import StreamWrapper as StreamWrapper
from netcl_core.runtime.stream import own_stream as own_stream
from netcl_core.runtime.stream import replaced as replaced
from netcl_core.runtime.stream import stream_of as stream_of
from netcl_core.runtime.stream import use_stream as use_stream
