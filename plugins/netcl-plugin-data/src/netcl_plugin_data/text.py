"""Text as bytes: blocks of a file, and the same one byte on, for models of the next byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_data.datasets import Array, Dataset
from netcl_plugin_data.idx import DataFormatError, MissingDataError


def text_bytes(path: str | Path, block: int, stride: int = 1) -> TextBytes:
    """The bytes of a file as samples `(x, y)`: a block, and the bytes that follow each of its.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "text"
    >>> _ = path.write_text("to be or not")
    >>> text = data.text_bytes(path, block=5)
    >>> x, y = text[0]
    >>> bytes(x.tolist()), bytes(y.tolist()), len(text)
    (b'to be', b'o be ', 7)

    Args:
        path: Any file.
        block: How many bytes a sample has.
        stride: How far one sample begins after the other; `block`: each byte is in one of them.

    Returns:
        Samples of two int64 arrays of shape (block,), with numbers below 256.

    Raises:
        MissingDataError: There is no such file.
        DataFormatError: It is shorter than one sample, `block + 1` bytes.
    """
    for name, value in (("block", block), ("stride", stride)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            expected = "a whole number of at least 1"
            raise AttributeValueError(message("text_bytes", f"{name}={value!r}", expected))
    place = Path(path)
    if not place.is_file():
        raise MissingDataError(message("text_bytes", f"there is no file {place}"))
    raw = np.fromfile(place, np.uint8)
    if raw.size <= block:
        given = f"{place} has {raw.size} bytes"
        raise DataFormatError(message("text_bytes", given, f"more than block={block}"))
    return TextBytes(raw, block, stride)


@final
class TextBytes(Dataset[tuple[Array, Array]]):
    """What `text_bytes` gives; `raw` has all bytes, uint8.

    >>> samples = data.TextBytes(np.frombuffer(b"hello world", np.uint8), block=4, stride=4)
    >>> x, y = samples[0]
    >>> bytes(x.tolist()), bytes(y.tolist())
    (b'hell', b'ello')
    """

    def __init__(self, raw: Array, block: int, stride: int) -> None:
        self.raw = raw
        self.block = block
        self.stride = stride

    def __len__(self) -> int:
        return (self.raw.size - self.block - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        x, y = self.collated([index % len(self)])
        return x[0], y[0]

    def collated(self, indices: Sequence[int]) -> list[Any]:
        begins = np.asarray(indices, np.int64)[:, None] * self.stride
        rows = self.raw[begins + np.arange(self.block + 1)].astype(np.int64)
        return [rows[:, :-1], rows[:, 1:]]
