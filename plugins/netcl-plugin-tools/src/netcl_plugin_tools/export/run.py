"""Runs this folder's model by NumPy and pyopencl alone.

`python run.py` runs the example; `from run import Model; Model()(x)` takes arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

HERE = Path(__file__).parent


class Model:
    """The buffers and kernels of plan.txt; call it with an array for each input."""

    def __init__(self) -> None:
        lines = [line.split() for line in (HERE / "plan.txt").read_text().splitlines()]
        weights = (HERE / "weights.safetensors").read_bytes()
        devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
        wanted = [d for d in devices if d.name.split() == lines[0][1:]]
        self.context = cl.Context((wanted or devices)[:1])
        self.queue = cl.CommandQueue(self.context)
        self.buffers: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.steps: list[Callable[[], Any]] = []
        programs: list[Any] = []
        for word, *rest in lines[1:]:
            if word == "program":
                source = (HERE / rest[0]).read_text()
                programs.append(cl.Program(self.context, source).build(rest[1:]))
            elif word == "buffer":
                size, begin = map(int, rest)
                buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size)
                if begin >= 0:
                    cl.enqueue_copy(self.queue, buffer, weights[begin : begin + size])
                self.buffers.append(buffer)
            elif word in ("input", "output"):
                shape = tuple(map(int, rest[3:]))
                place = (self.buffers[int(rest[0])], np.dtype(rest[2]), shape)
                (self.inputs if word == "input" else self.outputs).append(place)
            else:
                self.steps.append(getattr(self, word)(programs, rest))

    def launch(self, programs: list[Any], rest: list[str]) -> Callable[[], Any]:
        """program, kernel, dimensions, global sizes, local sizes or 0, buffers, numbers."""
        kernel, dims = cl.Kernel(programs[int(rest[0])], rest[1]), int(rest[2])
        sizes, rest = list(map(int, rest[3 : 3 + 2 * dims])), rest[3 + 2 * dims :]
        count = int(rest[0])
        for i, number in enumerate(map(int, rest[1 : 1 + count])):
            kernel.set_arg(i, None if number < 0 else self.buffers[number])
        for i, packed in enumerate(rest[2 + count :], start=count):
            kernel.set_arg(i, np.frombuffer(bytes.fromhex(packed), np.uint8))
        local = tuple(sizes[dims:]) if all(sizes[dims:]) else None
        whole = tuple(sizes[:dims])
        return lambda: cl.enqueue_nd_range_kernel(self.queue, kernel, whole, local)

    def copy(self, programs: list[Any], rest: list[str]) -> Callable[[], Any]:
        """target, source, bytes."""
        target, source, size = map(int, rest)
        pair = self.buffers[target], self.buffers[source]
        return lambda: cl.enqueue_copy(self.queue, *pair, byte_count=size)

    def fill(self, programs: list[Any], rest: list[str]) -> Callable[[], Any]:
        """buffer, bytes, pattern."""
        buffer, pattern = self.buffers[int(rest[0])], bytes.fromhex(rest[2])
        array = np.frombuffer(pattern, np.uint8)
        return lambda: cl.enqueue_fill_buffer(self.queue, buffer, array, 0, int(rest[1]))

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs, a list of arrays."""
        for (buffer, dtype, shape), array in zip(self.inputs, arrays, strict=True):
            given = np.ascontiguousarray(array, dtype)
            if given.shape != shape:
                raise ValueError(f"an input of shape {given.shape}; expected {shape}")
            cl.enqueue_copy(self.queue, buffer, given)
        for step in self.steps:
            step()
        outputs = [np.empty(shape, dtype) for _, dtype, shape in self.outputs]
        for (buffer, _, _), output in zip(self.outputs, outputs, strict=True):
            cl.enqueue_copy(self.queue, output, buffer)
        return outputs


if __name__ == "__main__":
    model = Model()
    rows = [np.fromfile(HERE / f"example/input{i}.bin", place[1]).reshape(place[2])
            for i, place in enumerate(model.inputs)]  # fmt: skip
    for i, output in enumerate(model(*rows)):
        expected = np.fromfile(HERE / f"example/output{i}.bin", output.dtype).reshape(output.shape)
        apart = np.abs(output.astype(float) - expected.astype(float)).max(initial=0)
        print(f"output {i}: {output.dtype}{output.shape}, largest difference {apart:.3g}")
