"""A captured step as a folder: kernels, weights, a plan, and host programs in Python and C."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import get_ident
from typing import Any, Final, final

import numpy as np
from netcl_plugin_capture.commands import (
    CallCommand,
    CopyCommand,
    FillCommand,
    LaunchCommand,
    WriteCommand,
    identity,
)

from netcl_core import DTYPES, Device, Tensor, get_device, nn, no_grad, save
from netcl_core import autograd as ag
from netcl_core.errors import ReplayError, message
from netcl_core.inspect.captures import captures
from netcl_core.inspect.sources import read_only
from netcl_core.inspect.streams import Asked, fill_pattern, stream_of

_BYTE: Final = DTYPES["uint8"]
_HOSTS: Final = ("run.py", "run.c")
_WHO: Final = "serving.export"


def export(
    function: Callable[..., Any],
    *examples: Any,
    folder: str | Path,
    device: str | Device | None = None,
) -> Path:
    """Write what a function does on a device as a folder that runs without netcl.

        model.eval()
        serving.export(model, x, folder="served")

    Then `python served/run.py` runs the example by pyopencl, and `cc run.c -lOpenCL -lm -o run`
    makes the same in C. The shapes are those of the examples, and the kernels are those that
    netcl chose for the device.

    Args:
        function: A Module or a function of tensors; it runs once, without gradients.
        examples: Its arguments, tensors or host data; all of them are inputs.
        folder: Where to; what is there of an earlier export is replaced.
        device: As of `ag.capture`: default the first tensor's, else the default device.

    Returns the folder. Raises ReplayError for what another process could not do: reading values,
    drawing random numbers, host functions, and kernels that are changed after compiling.
    """
    held: list[Any] = []

    def step(*inputs: Any) -> Any:
        held.extend((captures[get_ident()], inputs))
        held.append([_whole(output) for output in _flat(function(*inputs))])
        return held[2]

    where = None if device is None else get_device(device)
    with no_grad():
        graph = ag.capture(step, *examples, device=where)
    recording, inputs, outputs = held
    if not graph.device.has_kernels:
        given, remedy = f"the device {graph.device}", "Pass device='opencl:0'"
        raise ReplayError(message(_WHO, given, "an OpenCL device", remedy))
    place = Path(folder)
    if (place / "kernels").is_dir():
        shutil.rmtree(place / "kernels")
    for each in (place, place / "kernels", place / "example"):
        each.mkdir(parents=True, exist_ok=True)
    names = function.state_dict() if isinstance(function, nn.Module) else {}
    plan = _ExportPlan(graph.device, recording, names)
    plan.add_places("input", inputs)
    for command in recording.commands:
        plan.add(command)
    plan.add_places("output", outputs)
    plan.write(place)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for i, tensor in enumerate(tensors):
            tensor.numpy().tofile(place / "example" / f"{kind}{i}.bin")
    for name in _HOSTS:
        shutil.copyfile(Path(__file__).with_name(name), place / name)
    return place


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from _flat(item)
    elif isinstance(result, Tensor):
        yield result
    else:
        given = f"a result of type {type(result).__name__}"
        raise ReplayError(message(_WHO, given, "tensors, in tuples, lists and dicts"))


def _whole(tensor: Any) -> Any:
    return tensor if tensor.value.geometry is None else tensor.contiguous()


@final
class _ExportPlan:
    """The lines of plan.txt, and the contents of its buffers."""

    def __init__(self, device: Device, recording: Any, names: Mapping[str, Any]) -> None:
        self._device = device
        self._recording = recording
        whole = {n: x.value for n, x in names.items() if x.value.geometry is None and x.size}
        self._names = {identity(x.memory): (name, x) for name, x in whole.items()}
        self._buffers: dict[int, int] = {}
        self._sizes: list[int] = []
        self._weights: dict[int, str] = {}
        self._arrays: dict[str, Any] = {}
        self._programs: dict[tuple[str, str], int] = {}
        self._places: list[str] = []
        self._steps: list[str] = []

    def add_places(self, kind: str, tensors: Sequence[Any]) -> None:
        """Inputs or outputs."""
        for tensor in tensors:
            x = tensor.value
            if not x.size:
                raise _refused(f"an {kind} of shape {x.shape}", "Export larger shapes")
            number = self._buffer(x.memory, x.size * DTYPES[x.dtype].itemsize)
            kept = {"bool": "uint8", "bfloat16": "uint16"}.get(x.dtype, x.dtype)
            shape = " ".join(map(str, x.shape))
            nbytes = x.size * DTYPES[x.dtype].itemsize
            self._places.append(f"{kind} {number} {nbytes} {kept} {shape}".rstrip())

    def add(self, command: Any) -> None:
        """A command; raises ReplayError for one that only netcl can do."""
        if isinstance(command, LaunchCommand):
            self._launch(command)
        elif isinstance(command, CopyCommand):
            source = self._buffer(command.buffers[1])
            self._copy(command.buffers[0], source, command.size * command.dtype.itemsize)
        elif isinstance(command, FillCommand):
            pattern = fill_pattern(command.value, command.dtype).tobytes().hex()
            target = self._written(self._buffer(command.buffers[0]), "fill")
            nbytes = command.size * command.dtype.itemsize
            self._steps.append(f"fill {target} {nbytes} {pattern}")
        elif isinstance(command, WriteCommand):
            source = self._constant(command.array.nbytes, command.array)
            self._copy(command.buffers[0], source, command.array.nbytes)
        elif isinstance(command, CallCommand):
            given = "something that goes on with each run, such as random numbers"
            raise _refused(given, "Call eval() before")
        else:
            raise _refused("a function of the host", "Choose a kernel: netcl plugins prefer")

    def _copy(self, target: Any, source: int, nbytes: int) -> None:
        number = self._written(self._buffer(target), "copy")
        self._steps.append(f"copy {number} {source} {nbytes}")

    def _written(self, number: int, who: str) -> int:
        """A buffer that a command writes; zeros of before the step may be, a tensor may not."""
        name = self._weights.get(number)
        if name is not None and self._arrays[name].any():
            raise _refused(f"{who}: it changes the tensor {name}", "Call eval() before")
        return number

    def _launch(self, command: Any) -> None:
        launch, scalars = command.launch, command.scalars
        if isinstance(scalars, Asked):
            raise _refused(f"{launch.who}: fresh numbers in each run", "Leave out what draws them")
        recipe = launch.kernel.recipe
        if recipe.rewrite is not None:
            raise _refused(
                f"{launch.who}: {recipe.rewrite}", "Choose another kernel: netcl plugins prefer"
            )
        program = (launch.source, f"-cl-std={recipe.standard}")
        number = self._programs.setdefault(program, len(self._programs))
        buffers = [self._buffer(buffer) for buffer in command.buffers]
        reads = read_only(launch.source, launch.entry)
        for buffer, read in zip(buffers, reads, strict=False):
            if not read:
                self._written(buffer, launch.who)
        sizes = [*launch.global_size, *(launch.local_size or [0] * len(launch.global_size))]
        packed = [each.hex() for each in (*scalars, *launch.constants)]
        words = [number, launch.entry, len(launch.global_size), *sizes, len(buffers), *buffers]
        self._steps.append(" ".join(map(str, ["launch", *words, len(packed), *packed])))

    def _buffer(self, buffer: Any, nbytes: int | None = None) -> int:
        """The number of a buffer; -1 for none."""
        if buffer is None:
            return -1
        key = identity(buffer)
        if key not in self._buffers:
            if nbytes is not None or self._recording.made(buffer):
                self._buffers[key] = self._scratch(buffer.size if nbytes is None else nbytes)
            else:
                self._buffers[key] = self._weight(key, buffer)
        return self._buffers[key]

    def _scratch(self, nbytes: int) -> int:
        self._sizes.append(nbytes)
        return len(self._sizes) - 1

    def _weight(self, key: int, buffer: Any) -> int:
        """What was there before the step, by the name that the module has for it."""
        stream = stream_of(self._device)
        if key in self._names:
            name, x = self._names[key]
            return self._constant(x.size * DTYPES[x.dtype].itemsize, x.to_host(), name)
        return self._constant(buffer.size, stream.download(buffer, buffer.size, _BYTE))

    def _constant(self, nbytes: int, array: Any, name: str = "") -> int:
        number = self._scratch(nbytes)
        self._weights[number] = name or f"constant.{number}"
        self._arrays[self._weights[number]] = np.asarray(array)
        return number

    def write(self, folder: Path) -> None:
        """The plan, the kernels and the weights."""
        path = folder / "weights.safetensors"
        save(self._arrays, path)
        begins = _begins(path)
        lines = [f"device {self._device.name}"]
        for i, (source, options) in enumerate(self._programs):
            (folder / "kernels" / f"{i}.cl").write_text(source, encoding="utf-8")
            lines.append(f"program kernels/{i}.cl {options}")
        for number, nbytes in enumerate(self._sizes):
            begin = begins[self._weights[number]] if number in self._weights else -1
            lines.append(f"buffer {nbytes} {begin}")
        text = "\n".join([*lines, *self._places, *self._steps, ""])
        (folder / "plan.txt").write_text(text, encoding="utf-8")


def _begins(path: Path) -> dict[str, int]:
    """Where the arrays of a file of safetensors begin in it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {name: 8 + length + row["data_offsets"][0] for name, row in header.items()}


def _refused(given: str, remedy: str) -> ReplayError:
    return ReplayError(message(_WHO, given, "kernels, copies and fills", remedy))
