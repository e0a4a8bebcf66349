"""Files of `torch.save`, read without PyTorch and without running anything of theirs.

Such a file holds a pickle, a program for a small machine, and the bytes of its tensors. The machine
here knows dicts, lists, numbers, texts and tensors, and of all names those in a list.
"""

from __future__ import annotations

import io
import math
import pickletools
import struct
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Device, Tensor
from netcl_core.errors import CheckpointError, message
from netcl_plugin_nn.safetensors import Array

_ZIP: Final = b"PK\x03\x04"
#: How files of PyTorch before 1.6 begin: with a pickle of a number.
_OLD: Final = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
#: How many times what its tensors hold a file may unfold to, by tensors that overlap.
_UNFOLDED: Final = 16
_STORAGES: Final = {
    "Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32",
    "Long": "int64", "BFloat16": "bfloat16", "Half": "float16", "Float": "float32",
    "Double": "float64",
}  # fmt: skip
_ERRORS: Final = (
    ValueError, TypeError, LookupError, AttributeError, EOFError, struct.error, OverflowError,
    NotImplementedError, zipfile.BadZipFile,
)  # fmt: skip


def begins(data: bytes) -> bool:
    """Whether a file begins as those of `torch.save` do."""
    return data.startswith((_ZIP, _OLD))


def unpacked(data: bytes, who: str, device: Device) -> Any:
    """What is in a file, with its tensors on a device; raises CheckpointError, naming `who`."""
    try:
        return (_of_zip if data.startswith(_ZIP) else _of_old)(data, device)
    except _ERRORS as error:
        given = f"it cannot be read ({error or type(error).__name__})"
        expected = "a whole file of torch.save with tensors, dicts, lists, numbers and texts"
        remedy = "Save the state_dict() alone, with PyTorch"
        raise CheckpointError(message(who, given, expected, remedy)) from None


def _of_zip(data: bytes, device: Device) -> Any:
    archive = zipfile.ZipFile(io.BytesIO(data))
    entries = {each.filename.partition("/")[2]: each for each in archive.infolist()}
    if "data.pkl" not in entries:
        raise ValueError("a zip archive without data.pkl")
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"{name} is compressed, which PyTorch never does")
    order = archive.read(entries["byteorder"]) if "byteorder" in entries else b"little"

    def storage(key: str, dtype: Any, count: int) -> Array:
        held = archive.read(entries[f"data/{key}"])
        return np.frombuffer(held, dtype.newbyteorder("<" if order == b"little" else ">"), count)

    return _Machine(storage, device, len(data)).run(archive.read(entries["data.pkl"]))


def _of_old(data: bytes, device: Device) -> Any:
    """Four pickles, the last but one of which is what was saved, and the storages in order."""
    ends = [0]
    for _ in range(5):
        file = io.BytesIO(data[ends[-1] :])
        *_, (_, _, last) = pickletools.genops(file)
        ends.append(ends[-1] + (last or 0) + 1)
    keys = _Machine(None, device, 0).run(data[ends[4] : ends[5]])
    raw: dict[str, tuple[int, int]] = {}
    place = ends[5]
    sizes = _Machine(None, device, 0)
    sizes.run(data[ends[3] : ends[4]])
    for key in keys:
        (count,) = struct.unpack_from("<q", data, place)
        raw[key] = place + 8, count
        place += 8 + count * sizes.widths[key]

    def storage(key: str, dtype: Any, count: int) -> Array:
        begin, held = raw[key]
        return np.frombuffer(data, dtype, min(count, held), begin)

    return _Machine(storage, device, len(data)).run(data[ends[3] : ends[4]])


@final
class _Name:
    """A name of a pickle that is in the list: a function to call, or what stands for a dtype."""

    __slots__ = ("call", "is_dtype", "name")

    def __init__(self, name: str, call: Callable[..., Any] | None, is_dtype: bool = False) -> None:
        self.name = name
        self.call = call
        self.is_dtype = is_dtype


@final
class _Machine:
    """Runs a pickle; `storage` gives the elements of a key, None: tensors are left out.

    `widths` are the bytes per element of the storages that it met.
    """

    def __init__(self, storage: Callable[..., Array] | None, device: Device, size: int) -> None:
        self.widths: dict[str, int] = {}
        self._storage = storage
        self._device = device
        self._room = _UNFOLDED * size
        self._arrays: dict[str, Array] = {}
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        rebuild = "torch._utils._rebuild_"
        calls: dict[str, Callable[..., Any]] = {
            f"{rebuild}tensor": self._tensor,
            f"{rebuild}tensor_v2": self._tensor,
            f"{rebuild}parameter": lambda x, grad, *_: self._leaf(x, grad),
            f"{rebuild}parameter_with_state": lambda x, grad, *_: self._leaf(x, grad),
            "torch.Size": tuple,
            "torch.device": lambda kind, index=None: kind if index is None else f"{kind}:{index}",
            "collections.OrderedDict": OrderedDict,
            "collections.Counter": Counter,
            "_codecs.encode": lambda text, _: text.encode("latin1"),
            **{f"{home}.set": set for home in ("__builtin__", "builtins")},
        }
        self._names = {name: _Name(name, call) for name, call in calls.items()}
        for kind, dtype in _STORAGES.items():
            name = f"torch.{kind}Storage"
            self._names[name] = _Name(dtype, None)
            self._names[f"torch.{dtype}"] = _Name(dtype, None, is_dtype=True)

    def run(self, data: bytes) -> Any:
        """What the pickle makes; raises one of `_ERRORS` for what is not allowed, or no pickle."""
        for op, arg, _ in pickletools.genops(data):
            if op.name in _CONSTANTS:
                self._stack.append(_CONSTANTS[op.name]())
            elif op.name in _LITERALS:
                self._stack.append(arg)
            elif op.name == "STOP":
                return self._stack.pop()
            elif op.name not in ("PROTO", "FRAME"):
                step = getattr(self, f"_op_{op.name.lower()}", None)
                if step is None:
                    raise ValueError(f"the instruction {op.name} is not allowed")
                step(arg)
        raise EOFError("it ends too early")

    # -- tensors ---------------------------------------------------------------------------

    def _tensor(self, held: Any, offset: int, shape: Any, strides: Any, grad: Any = False,
                *_: Any) -> Any:  # fmt: skip
        if self._storage is None:
            return None
        dtype, key, count = held
        if key not in self._arrays:
            self._arrays[key] = self._storage(key, DTYPES[dtype].numpy, count)
        array, ints = self._arrays[key], (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(type(n) is int and n >= 0 for n in ints):
            raise ValueError(f"a tensor of shape {shape!r} and strides {strides!r}")
        elements = math.prod(shape)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if elements and last >= array.size:
            raise ValueError(f"a tensor of shape {tuple(shape)} in {array.size} elements")
        self._room -= elements * array.itemsize
        if self._room < 0:
            raise ValueError("tensors that overlap unfold to far more than the file holds")
        steps = [step * array.itemsize for step in strides]
        view = np.lib.stride_tricks.as_strided(array[offset:], shape, steps)
        whole = view if elements else np.empty(shape, array.dtype)
        tensor = Tensor.from_host(whole.astype(DTYPES[dtype].numpy), self._device)
        return self._leaf(tensor, grad)

    @staticmethod
    def _leaf(x: Any, grad: Any) -> Any:
        return x if x is None else x.requires_grad_(bool(grad))

    # -- instructions ----------------------------------------------------------------------

    def _items(self) -> list[Any]:
        """What stands above the last mark."""
        place = self._marks.pop()
        items = self._stack[place:]
        del self._stack[place:]
        return items

    def _op_mark(self, _: Any) -> None:
        self._marks.append(len(self._stack))

    def _op_binput(self, place: Any) -> None:
        self._memo[place] = self._stack[-1]

    _op_long_binput = _op_put = _op_binput

    def _op_memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _op_binget(self, place: Any) -> None:
        self._stack.append(self._memo[place])

    _op_long_binget = _op_get = _op_binget

    def _op_tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._items()))

    def _op_tuple1(self, _: Any, count: int = 1) -> None:
        values = tuple(self._stack[-count:])
        self._stack[-count:] = [values]

    def _op_tuple2(self, _: Any) -> None:
        self._op_tuple1(_, 2)

    def _op_tuple3(self, _: Any) -> None:
        self._op_tuple1(_, 3)

    def _op_append(self, _: Any) -> None:
        value = self._stack.pop()
        self._top(list).append(value)

    def _op_appends(self, _: Any) -> None:
        items = self._items()
        self._top(list).extend(items)

    def _op_additems(self, _: Any) -> None:
        items = self._items()
        self._top(set).update(items)

    def _op_setitem(self, _: Any) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._top(dict)[key] = value

    def _op_setitems(self, _: Any) -> None:
        items = self._items()
        self._top(dict).update(zip(items[::2], items[1::2], strict=True))

    def _top(self, kind: type) -> Any:
        top = self._stack[-1]
        if not isinstance(top, kind):
            raise ValueError(f"a {type(top).__name__} in the place of a {kind.__name__}")
        return top

    def _op_build(self, _: Any) -> None:
        """The attributes of a state dict, which say versions of layers, are left out."""
        self._stack.pop()
        self._top(OrderedDict)

    def _op_global(self, text: Any) -> None:
        name = text.replace(" ", ".")
        if name not in self._names:
            raise ValueError(f"it asks for {name}, which is not allowed")
        known = self._names[name]
        self._stack.append(known.name if known.is_dtype else known)

    def _op_stack_global(self, _: Any) -> None:
        name, home = self._stack.pop(), self._stack.pop()
        self._op_global(f"{home} {name}")

    def _op_reduce(self, _: Any) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Name) or function.call is None or type(args) is not tuple:
            raise ValueError(f"a call of {function!r:.80}")
        self._stack.append(function.call(*args))

    _op_newobj = _op_reduce

    def _op_binpersid(self, _: Any) -> None:
        kind, storage, key, _, count, *view = self._stack.pop()
        if kind != "storage" or not isinstance(storage, _Name) or storage.call or any(view):
            raise ValueError(f"a {kind!r:.80} outside of the pickle")
        self.widths[key] = DTYPES[storage.name].itemsize
        self._stack.append((storage.name, key, count))


_CONSTANTS: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
}  # fmt: skip
_LITERALS: Final = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "BINFLOAT", "BINUNICODE",
     "SHORT_BINUNICODE", "BINUNICODE8", "SHORT_BINSTRING", "BINSTRING", "BINBYTES",
     "SHORT_BINBYTES"}
)  # fmt: skip
