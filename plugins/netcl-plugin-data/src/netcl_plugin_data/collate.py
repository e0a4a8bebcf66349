"""Collating: samples as one batch, on the host, and from there to a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, default_device
from netcl_core.errors import ArgumentError, message

_WHO: Final = "default_collate"
#: What becomes a tensor: arrays of these.
_KINDS: Final = {dtype.numpy for dtype in DTYPES.values()}


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as one batch: tensors, arrays and numbers are stacked to tensors.

    So are arrays of other libraries: whatever has `__array__` or `__dlpack__`, PyTorch's tensors
    for one. Tuples and lists of them become lists; named tuples and dicts stay what they are, as
    do texts and bytes. Python floats are float32, ints int64.

    >>> batch = data.default_collate([{"x": [1.0, 2.0], "y": 3}, {"x": [4.0, 5.0], "y": 6}])
    >>> [x.tolist() for x in batch["x"]], batch["y"].tolist()
    ([[1.0, 4.0], [2.0, 5.0]], [3, 6])
    >>> import numpy as np
    >>> images, labels = data.default_collate([(np.zeros((3, 8, 8)), 1), (np.ones((3, 8, 8)), 0)])
    >>> images.shape, labels.dtype
    ((2, 3, 8, 8), 'int64')

    Raises ArgumentError for samples that do not fit each other.
    """
    return to_device(host_collate(batch), default_device())


def host_collate(batch: Sequence[Any]) -> Any:
    """`default_collate` with NumPy arrays."""
    first = batch[0]
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        columns = {key: host_collate([sample[key] for sample in batch]) for key in first}
        return type(first)(columns) if type(first) is not dict else columns  # type: ignore[call-arg]
    if isinstance(first, (tuple, list)):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            given = f"samples of {' and '.join(map(str, sorted(lengths)))} parts"
            raise ArgumentError(message(_WHO, given, "as many parts in each"))
        parts = [host_collate(column) for column in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    return _stacked(batch)


def _stacked(values: Sequence[Any]) -> Any:
    """Samples as one array; raises ArgumentError if their shapes differ."""
    for value in values:
        if not isinstance(value, (bool, int, float)) and not _is_array(value):
            expected = "tensors, arrays, numbers, texts, and dicts, tuples and lists of them"
            remedy = "Give the loader a collate_fn"
            given = f"a sample with a {type(value).__name__}"
            raise ArgumentError(message(_WHO, given, expected, remedy))
    arrays = [_host(value) for value in values]
    if len({array.shape for array in arrays}) != 1:
        shapes = ", ".join(sorted({str(array.shape) for array in arrays}))
        expected, remedy = "samples of one shape", "Pad or crop them, or give a collate_fn"
        raise ArgumentError(message(_WHO, f"samples of shapes {shapes}", expected, remedy))
    stacked = np.stack(arrays)
    return stacked.astype(np.float32) if type(values[0]) is float else stacked


def _is_array(value: Any) -> bool:
    """Whether a value is an array of some other library."""
    return hasattr(type(value), "__array__") or hasattr(type(value), "__dlpack__")


def _host(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to_host()
    return _read(value) if _is_array(value) else np.asarray(value)


def _read(value: Any) -> Any:
    """An array of another library as NumPy's; raises ArgumentError if NumPy cannot read it."""
    try:
        plain = value.detach() if hasattr(value, "detach") else value  # a batch has no gradient
        return np.asarray(plain) if hasattr(plain, "__array__") else np.from_dlpack(plain)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        given = f"a {type(value).__name__} that is no array for NumPy ({error})"
        remedy = "In the data set, copy it to the host in a dtype that NumPy has"
        raise ArgumentError(message(_WHO, given, "data that NumPy can read", remedy)) from error


def host_convert(sample: Any) -> Any:
    """A sample that is a batch already, with NumPy arrays in place of tensors."""
    return _each(sample, lambda leaf: _host(leaf) if _is_tensor(leaf) else leaf)


def _is_tensor(leaf: Any) -> bool:
    """Whether a value is a tensor, ours or another library's.

    Tables and the like, which NumPy reads as well, stay what they are where nothing is stacked.
    """
    known = isinstance(leaf, (np.ndarray, np.generic))
    return not known and (isinstance(leaf, Tensor) or hasattr(type(leaf), "__dlpack__"))


def to_device(batch: Any, device: Device) -> Any:
    """A batch with tensors on a device in place of arrays; does not wait for it."""

    def moved(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf.to(device)
        if _is_tensor(leaf):
            leaf = _read(leaf)
        if isinstance(leaf, np.generic):
            leaf = np.asarray(leaf)
        if isinstance(leaf, np.ndarray) and leaf.dtype in _KINDS:
            return Tensor.from_host(leaf, device)
        return leaf

    return _each(batch, moved)


def _each(value: Any, change: Any) -> Any:
    """A nest of dicts, lists and tuples with its leaves changed."""
    if isinstance(value, Mapping):
        changed = {key: _each(leaf, change) for key, leaf in value.items()}
        return type(value)(changed) if type(value) is not dict else changed  # type: ignore[call-arg]
    if isinstance(value, (list, tuple)):
        parts = [_each(leaf, change) for leaf in value]
        if hasattr(value, "_fields"):
            return type(value)(*parts)
        return tuple(parts) if isinstance(value, tuple) else parts
    return change(value)
