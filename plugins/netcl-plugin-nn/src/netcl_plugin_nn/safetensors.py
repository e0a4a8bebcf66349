"""The safetensors format: arrays by name, and texts, in one file that runs nothing when it is read.

A header in JSON, of which the first 8 bytes say the length, then the arrays' bytes without gaps
(https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core import DTYPES
from netcl_core.errors import CheckpointError, message

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_HEADER_BYTES: Final = 100 << 20  # as the reference implementation bounds it
_NUMPY: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype(np.bool_),
    "BF16": DTYPES["bfloat16"].numpy,
    **{
        f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}")
        for kind, sizes in (("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)), ("f", (2, 4, 8)))
        for size in sizes
    },
}
_NAMES: Final = {dtype: name for name, dtype in _NUMPY.items()}


def holds(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a dtype can be written."""
    return dtype in _NAMES


def packed(arrays: Mapping[str, Array], about: Mapping[str, str]) -> list[Any]:
    """The parts of a file, to be written one after the other.

    The widest dtypes come first, so that whoever maps the file finds every array aligned.
    """
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    ends = dict(zip(order, accumulate(arrays[name].nbytes for name in order), strict=True))
    header: dict[str, Any] = {"__metadata__": dict(about)} if about else {}
    for name, array in arrays.items():
        end = ends[name]
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [end - array.nbytes, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    parts: list[Any] = [len(text).to_bytes(8, "little"), text]
    return parts + [np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8) for name in order]


def unpacked(data: memoryview, who: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays, which lie in `data`, and the texts; raises CheckpointError for anything else."""
    try:
        length = int.from_bytes(data[:8], "little")
        if len(data) < 8 or length > min(_HEADER_BYTES, len(data) - 8):
            raise ValueError(f"a header of {length} bytes in a file of {len(data)}")
        header = json.loads(bytes(data[8 : 8 + length]))
        about = header.pop("__metadata__", {})
        body = data[8 + length :]
        rows = {name: _row(name, **row) for name, row in header.items()}
        spans = sorted(span for *_, span in rows.values())
        if [begin for begin, _ in spans] != [0, *(end for _, end in spans)][: len(spans)]:
            raise ValueError("tensors that overlap, or a gap between them")
        if max((end for _, end in spans), default=0) != len(body):
            raise ValueError(f"{len(body)} bytes of data, which are not those of the tensors")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        given = f"it cannot be read ({error or type(error).__name__})"
        expected = "a whole file of nc.save, of safetensors or of torch.save"
        raise CheckpointError(message(who, given, expected)) from None
    arrays = {
        name: np.frombuffer(body[begin:end], dtype).reshape(shape)
        for name, (dtype, shape, (begin, end)) in rows.items()
    }
    return arrays, about


def _row(
    name: str, dtype: str, shape: list[int], data_offsets: list[int]
) -> tuple[np.dtype[Any], tuple[int, ...], tuple[int, int]]:
    """The dtype, shape and place of one tensor; raises ValueError for what is none."""
    begin, end = data_offsets
    if not all(type(n) is int and n >= 0 for n in (*shape, begin, end)) or dtype not in _NUMPY:
        raise ValueError(f"{name!r} of dtype {dtype!r} and shape {shape!r}")
    kind = _NUMPY[dtype]
    if end - begin != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{name!r} of shape {shape!r} in {end - begin} bytes")
    return kind, tuple(shape), (begin, end)
