"""`nc.save` and `nc.load`: nests of dicts, lists, numbers, texts and tensors in one file.

The tensors are those of a safetensors file; how they are put together, and all else, stands in its
metadata as JSON. Reading such a file runs nothing of it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, Tensor, default_device, get_device
from netcl_core.errors import ArgumentError, CheckpointError, message
from netcl_core.files import write_whole
from netcl_plugin_nn import safetensors, torch_files
from netcl_plugin_nn.safetensors import Array

__all__ = ["load", "save"]

#: Where the structure stands in the metadata; without it the file is a dict of its tensors.
_STRUCTURE: Final = "netcl.structure"
_PLAIN: Final = (bool, int, float, str)
_SEQUENCES: Final[dict[str, Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
#: How many containers may stand in each other, and how many keys of them an error shows.
_DEEPEST: Final = 100
_SHOWN: Final = 6


def save(obj: Any, f: Any, *, about: Mapping[str, str] | None = None) -> None:
    """Write a nest of dicts, lists, tuples, sets, numbers, texts, None, arrays and tensors.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "checkpoint")
    >>> nc.save({"epoch": 3, "model": {"w": nc.tensor([1.0, 2.0])}, "rate": (0.1, None)}, path)
    >>> nc.load(path)
    {'epoch': 3, 'model': {'w': Tensor([1., 2.], ...)}, 'rate': (0.1, None)}

    The file is safetensors, which others read as well; docs/checkpoints.md tells how a training
    that was ended goes on from one.

    Args:
        obj: What to write. A tensor that stands in several places is written once.
        f: A path, or a file open for binary writing. What is at the path is replaced as a whole,
            with the permissions that it has, or, after an error, not at all.
        about: Texts that go with it, the file's metadata.

    Raises ArgumentError, which says where it stands, for anything else, such as a module.
    """
    nest = _Nest()
    structure = nest.packed(obj, ())
    texts = dict(about or {})
    if structure != {"dict": [[name, {"tensor": name}] for name in nest.arrays]}:
        texts[_STRUCTURE] = json.dumps(structure)
    parts = safetensors.packed(nest.arrays, texts)
    if hasattr(f, "write"):
        for part in parts:
            f.write(part)
    else:
        write_whole(Path(f), *parts, lasting=True)


def load(f: Any, map_location: Any = None, weights_only: bool = True, mmap: Any = None) -> Any:
    """Read what `nc.save` wrote, any other file of safetensors, or what `torch.save` wrote.

    >>> import io
    >>> file = io.BytesIO()
    >>> nc.save([nc.ones(2), "text"], file)
    >>> _ = file.seek(0)
    >>> nc.load(file)
    [Tensor([1., 1.], ...), 'text']

    No code of a file is run. Of PyTorch's files, old and new, that leaves tensors, dicts, lists,
    numbers and texts: what `torch.load(..., weights_only=True)` reads.

    Args:
        f: A path, or a file open for binary reading.
        map_location: The device of the tensors: a Device or its name. None, and PyTorch's
            functions and dicts: the default device.
        weights_only, mmap: PyTorch's; without effect.

    Raises CheckpointError, which names the file, if it is cut or damaged or would run code.
    """
    named = isinstance(map_location, (str, Device))
    device = get_device(map_location) if named else default_device()
    if hasattr(f, "read"):
        data, name = f.read(), str(getattr(f, "name", "a file object"))
    else:
        data, name = Path(f).read_bytes(), str(f)
    who = f"nc.load({name!r})"
    if torch_files.begins(data):
        return torch_files.unpacked(data, who, device)
    arrays, about = safetensors.unpacked(memoryview(data), who)
    if _STRUCTURE not in about:
        return {name: Tensor.from_host(array, device) for name, array in arrays.items()}
    try:
        return _Arrays(arrays, device).nest(json.loads(about[_STRUCTURE]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        given = f"its structure cannot be read ({error or type(error).__name__})"
        raise CheckpointError(message(who, given, "a file of nc.save")) from None


@final
class _Nest:
    """A nest on its way into a file: its arrays by name, and the rest as JSON.

    A list stands for itself, as do None, bools, texts and numbers; anything else is an object of
    one key that says what it is.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # so that no other object gets its identity

    def packed(self, x: Any, path: tuple[Any, ...]) -> Any:
        """The JSON of a value, whose tensors it adds."""
        if isinstance(x, np.generic):
            return {"scalar": self._array(np.asarray(x), x, path)}
        if x is None or isinstance(x, _PLAIN):
            return x
        if isinstance(x, Tensor):
            kind = "leaf" if x.requires_grad and x.is_leaf else "tensor"
            return {kind: self._array(None, x, path)}
        if isinstance(x, np.ndarray):
            return {"array": self._array(x, x, path)}
        if isinstance(x, bytes):
            return {"bytes": x.hex()}
        return self._container(x, path)

    def _container(self, x: Any, path: tuple[Any, ...]) -> Any:
        if len(path) > _DEEPEST:
            remedy = f"Nest no deeper than {_DEEPEST}, and no value in itself"
            raise self._refused(x, path, remedy)
        if isinstance(x, Mapping):
            kind = "ordered" if isinstance(x, OrderedDict) else "dict"
            rows = [[self.packed(k, (*path, k)), self.packed(v, (*path, k))] for k, v in x.items()]
            return {kind: rows}
        for kind, sequence in _SEQUENCES.items():
            if isinstance(x, sequence):
                rows = [self.packed(item, (*path, i)) for i, item in enumerate(x)]
                return rows if kind == "list" else {kind: rows}
        remedy = "Give its parts, or its text"
        if hasattr(x, "state_dict"):
            remedy = "Give its state_dict()"
        raise self._refused(x, path, remedy)

    def _array(self, array: Any, x: Any, path: tuple[Any, ...]) -> str:
        """The name of an array or tensor in the file."""
        data = x.value if isinstance(x, Tensor) else x
        known = self._names.get(id(data))
        if known is not None:
            return known
        array = data.to_host() if array is None else array
        if not safetensors.holds(array.dtype):
            raise self._refused(x, path, "Convert it to a dtype of numbers or bools")
        name = first = ".".join(map(str, path)) or "value"
        for number in count(2):
            if name not in self.arrays and name != "__metadata__":
                break
            name = f"{first}-{number}"
        self._kept.append(data)
        self.arrays[name] = array
        self._names[id(data)] = name
        return name

    @staticmethod
    def _refused(x: Any, path: tuple[Any, ...], remedy: str) -> ArgumentError:
        where = "".join(f"[{key!r}]" for key in path[:_SHOWN]) + "..." * (len(path) > _SHOWN)
        given = f"a {type(x).__module__}.{type(x).__name__}" + (f" at {where}" if where else "")
        if isinstance(x, np.ndarray):
            given += f" of dtype {x.dtype}"
        expected = "dicts, lists, tuples, sets, numbers, texts, bytes, None, arrays and tensors"
        return ArgumentError(message("nc.save", given, expected, remedy))


@final
class _Arrays:
    """The arrays of a file, and the tensors that were made of them."""

    def __init__(self, arrays: Mapping[str, Array], device: Device) -> None:
        self._arrays = arrays
        self._device = device
        self._made: dict[str, Any] = {}

    def nest(self, x: Any) -> Any:
        """What `_Nest.packed` was given."""
        if isinstance(x, list):
            return [self.nest(item) for item in x]
        if not isinstance(x, dict):
            return x
        ((kind, held),) = x.items()
        if kind in ("tensor", "leaf"):
            tensor = self._once(held, lambda array: Tensor.from_host(array, self._device))
            return tensor.requires_grad_() if kind == "leaf" else tensor
        if kind == "array":
            return self._once(held, np.copy)
        if kind == "scalar":
            return self._arrays[held][()]
        if kind == "bytes":
            return bytes.fromhex(held)
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](map(self.nest, held))
        mapping = {"dict": dict, "ordered": OrderedDict}[kind]
        return mapping([(self.nest(key), self.nest(value)) for key, value in held])

    def _once(self, name: str, make: Callable[[Array], Any]) -> Any:
        if name not in self._made:
            self._made[name] = make(self._arrays[name])
        return self._made[name]
