"""digits and mnist: shapes, ranges, splits, and files that are absent or damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netcl_core import data
from netcl_core.errors import AttributeValueError

TYPES = {
    "uint8": 0x08,
    "int8": 0x09,
    "int16": 0x0B,
    "int32": 0x0C,
    "float32": 0x0D,
    "float64": 0x0E,
}


def idx(array: Any) -> bytes:
    """An array in the IDX format."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    head = bytes([0, 0, TYPES[array.dtype.name], array.ndim])
    return head + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_mnist(root: Path, packed: bool = False, dot: bool = False) -> tuple[Any, Any]:
    """Small files of MNIST's form; returns the training images and labels."""
    random, kept = np.random.default_rng(0), []
    for prefix, count in (("train", 6), ("t10k", 3)):
        images = random.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        labels = random.integers(0, 10, count).astype(np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            name = name.replace("-idx", ".idx") if dot else name
            raw = idx(array)
            path = root / (f"{prefix}-{name}-ubyte" + (".gz" if packed else ""))
            path.write_bytes(gzip.compress(raw, mtime=0) if packed else raw)
        kept += [images, labels]
    return kept[0], kept[1]


def test_digits_are_scaled_and_split_evenly() -> None:
    train, test = data.digits()
    assert (len(train), len(test)) == (1437, 360)
    for dataset in (train, test):
        images, labels = dataset.arrays
        assert images.shape[1:] == (64,) and images.dtype == np.float32
        assert images.min() == 0 and images.max() == 1
        assert labels.dtype == np.int64 and set(labels.tolist()) == set(range(10))
        shares = np.bincount(labels) / len(labels)
        assert np.abs(shares - 0.1).max() < 0.01


def test_the_split_follows_its_seed_and_fraction() -> None:
    first, same, other = data.digits(), data.digits(), data.digits(seed=1)
    np.testing.assert_array_equal(first[1].arrays[0], same[1].arrays[0])
    assert (first[1].arrays[1] != other[1].arrays[1]).any()
    assert len(data.digits(test_fraction=0.5)[1]) == 899
    with pytest.raises(AttributeValueError, match=r"test_fraction=1\.5"):
        data.digits(1.5)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dot", [False, True])
def test_mnist_is_read(tmp_path: Path, packed: bool, dot: bool) -> None:
    images, labels = write_mnist(tmp_path, packed, dot)
    train, test = data.mnist(tmp_path)
    assert (len(train), len(test)) == (6, 3)
    read, classes = train.arrays
    assert read.shape == (6, 1, 28, 28) and read.dtype == np.float32
    np.testing.assert_allclose(read[:, 0] * 255, images, rtol=1e-6)
    assert classes.dtype == np.int64 and classes.tolist() == labels.tolist()


def test_absent_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        data.MissingDataError, match=r"neither train-images-idx3-ubyte nor"
    ) as caught:
        data.mnist(tmp_path)
    assert isinstance(caught.value, FileNotFoundError) and "Download" in str(caught.value)
    with pytest.raises(data.MissingDataError, match="there is no file"):
        data.read_idx(tmp_path / "none")
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(data.MissingDataError, match="t10k-labels"):
        data.mnist(tmp_path)


@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_read(tmp_path: Path, dtype: str) -> None:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    (tmp_path / "x").write_bytes(idx(array))
    read = data.read_idx(tmp_path / "x")
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, array)


WHOLE = idx(np.arange(5, dtype=np.uint8))


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("x", b"", "of nothing"),
        ("x", b"\x89PNG data", "89 50 4e 47"),
        ("x", WHOLE[:6], "an IDX header"),
        ("x", WHOLE[:-1], "4 bytes of data; expected 5"),
        ("x", WHOLE + b"1", "6 bytes of data; expected 5"),
        ("x.gz", WHOLE, "gzip data"),
        ("x.gz", gzip.compress(WHOLE, mtime=0)[:-9], "gzip data"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, raw: bytes, text: str) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(data.DataFormatError, match=text):
        data.read_idx(tmp_path / name)


def test_images_and_labels_must_fit(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(WHOLE)
    with pytest.raises(data.DataFormatError, match=r"labels of shape \(5,\)"):
        data.mnist(tmp_path)
