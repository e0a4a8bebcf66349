"""IDX files, the format in which MNIST comes: a header with type and shape, then the numbers."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core.errors import NetclError, message

Array: TypeAlias = np.ndarray[Any, Any]

#: The type byte of the header and the dtype of the data, big-endian (LeCun, the MNIST page).
_TYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class MissingDataError(NetclError, FileNotFoundError):
    """A file of a data set is not where it was looked for.

    >>> try:
    ...     data.mnist("/nowhere")
    ... except data.MissingDataError as error:
    ...     print("not there")
    not there
    """


class DataFormatError(NetclError, ValueError):
    """A file is not in the format that its data set has.

    >>> issubclass(data.DataFormatError, ValueError)
    True
    """


def read_idx(path: str | Path) -> Array:
    """The array in an IDX file; a name that ends with `.gz` is unpacked.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7]))
    >>> data.read_idx(path)
    array([5, 6, 7], dtype=uint8)

    Raises MissingDataError if there is no such file, DataFormatError if it is no IDX
    file or is cut off.
    """
    place = Path(path)
    try:
        raw = place.read_bytes()
    except FileNotFoundError:
        raise MissingDataError(message("read_idx", f"there is no file {place}")) from None
    if place.suffix == ".gz":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise DataFormatError(message("read_idx", f"{place}: {error}", "gzip data")) from error
    return _parse(raw, place)


def _parse(raw: bytes, place: Path) -> Array:
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES or len(raw) < 4 + 4 * raw[3]:
        given = f"{place} begins with the bytes {raw[:4].hex(' ') or 'of nothing'}"
        raise DataFormatError(message("read_idx", given, "an IDX header"))
    shape = struct.unpack_from(f">{raw[3]}I", raw, 4)
    dtype = np.dtype(_TYPES[raw[2]])
    begin = 4 + 4 * len(shape)
    wanted = math.prod(shape) * dtype.itemsize
    if len(raw) - begin != wanted:
        given = f"{place} has {len(raw) - begin} bytes of data"
        raise DataFormatError(message("read_idx", given, f"{wanted} for shape {shape}"))
    data = np.frombuffer(raw, dtype, offset=begin).reshape(shape)
    return data.astype(dtype.newbyteorder("="))
