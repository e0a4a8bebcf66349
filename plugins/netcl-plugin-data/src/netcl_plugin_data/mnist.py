"""MNIST: 70,000 grey images of 28 x 28 pixels, read from the four IDX files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netcl_core.errors import message
from netcl_plugin_data.datasets import TensorDataset
from netcl_plugin_data.idx import Array, DataFormatError, MissingDataError, read_idx


def mnist(root: str | Path) -> tuple[TensorDataset, TensorDataset]:
    """MNIST, or a data set of its form, as (train, test).

    Each sample is an image, float32 (1, 28, 28) in [0, 1], and its class, int64.
    Nothing is downloaded: `root` holds `train-images-idx3-ubyte`,
    `train-labels-idx1-ubyte` and the same with `t10k`, packed (`.gz`) or not.

    >>> import pathlib, tempfile
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> size, labels = [0, 0, 0, 28], bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 3])
    >>> for part in ("train", "t10k"):
    ...     images = bytes([0, 0, 8, 3, 0, 0, 0, 2, *size, *size]) + bytes(2 * 28 * 28)
    ...     _ = (root / f"{part}-images-idx3-ubyte").write_bytes(images)
    ...     _ = (root / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    >>> train, test = data.mnist(root)
    >>> train
    TensorDataset(2 samples of float32(1, 28, 28), int64())

    Raises MissingDataError that names the absent file, DataFormatError for a damaged one.
    """
    return _part(Path(root), "train"), _part(Path(root), "t10k")


def _part(root: Path, prefix: str) -> TensorDataset:
    images = read_idx(_find(root, f"{prefix}-images-idx3-ubyte"))
    labels = read_idx(_find(root, f"{prefix}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        given = f"images of shape {images.shape} and labels of shape {labels.shape}"
        raise DataFormatError(message("mnist", given, "(N, height, width) and (N,)"))
    return TensorDataset(_scaled(images), labels.astype(np.int64))


def _scaled(images: Array) -> Array:
    return images[:, None].astype(np.float32) / np.float32(255)


def _find(root: Path, name: str) -> Path:
    """The file, packed or not, with a hyphen or a dot before `idx`."""
    names = [name, f"{name}.gz", name.replace("-idx", ".idx"), name.replace("-idx", ".idx") + ".gz"]
    for each in names:
        if (root / each).is_file():
            return root / each
    given = f"{root} holds neither {names[0]} nor {names[1]}"
    remedy = "Download the four files of MNIST, or of a data set in its format, into that folder"
    raise MissingDataError(message("mnist", given, "the four IDX files", remedy))
