"""CIFAR-10: 60,000 coloured images of 32 x 32 pixels, read from the binary version's six files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from netcl_core.errors import message
from netcl_plugin_data.datasets import TensorDataset
from netcl_plugin_data.idx import Array, DataFormatError, MissingDataError

_SHAPE: Final = (3, 32, 32)
#: A record: the class, and then the planes of red, green and blue, row by row.
_RECORD: Final = 1 + 3 * 32 * 32
_CLASSES: Final = 10


def cifar10(root: str | Path) -> tuple[TensorDataset, TensorDataset]:
    """CIFAR-10 (Krizhevsky 2009), or a data set of its form, as (train, test).

    Each sample is an image, float32 (3, 32, 32) in [0, 1], and its class, int64.
    Nothing is downloaded: `root`, or a folder `cifar-10-batches-bin` in it, holds
    `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`. The version for Python is not
    read, since that would run whatever code its files name.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
    ...     _ = (root / f"{name}.bin").write_bytes(bytes([7]) + bytes(3072))
    >>> train, test = data.cifar10(root)
    >>> train
    TensorDataset(5 samples of float32(3, 32, 32), int64())

    Raises MissingDataError that names the absent file, DataFormatError for a damaged one.
    """
    folder = _folder(Path(root))
    names = [f"data_batch_{k}.bin" for k in range(1, 6)]
    return _part(folder, names), _part(folder, ["test_batch.bin"])


def _folder(root: Path) -> Path:
    inner = root / "cifar-10-batches-bin"
    return inner if inner.is_dir() else root


def _part(folder: Path, names: list[str]) -> TensorDataset:
    records = np.concatenate([_records(folder, name) for name in names])
    images = records[:, 1:].reshape(-1, *_SHAPE).astype(np.float32)
    images /= np.float32(255)
    return TensorDataset(images, records[:, 0].astype(np.int64))


def _records(folder: Path, name: str) -> Array:
    place = folder / name
    if not place.is_file():
        raise MissingDataError(
            message(
                "cifar10", f"there is no {place}", "the binary version's six files", _remedy(folder)
            )
        )
    raw = np.fromfile(place, np.uint8)
    if not raw.size or raw.size % _RECORD:
        given = f"{place} has {raw.size} bytes"
        raise DataFormatError(message("cifar10", given, f"a multiple of {_RECORD}"))
    records = raw.reshape(-1, _RECORD)
    if records[:, 0].max() >= _CLASSES:
        given = f"{place} has the class {records[:, 0].max()}"
        raise DataFormatError(message("cifar10", given, f"classes below {_CLASSES}"))
    return records


def _remedy(folder: Path) -> str:
    others = (folder / "data_batch_1", folder / "cifar-10-batches-py")
    if any(other.exists() for other in others):
        return "That is the version for Python, which is not read; download the binary version"
    return "Download the binary version and unpack it there"
