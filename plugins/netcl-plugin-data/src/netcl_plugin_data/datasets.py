"""TensorDataset: arrays on the host whose rows belong together."""

from __future__ import annotations

from typing import Any, TypeAlias, final

import numpy as np

from netcl_core import host_array
from netcl_core.errors import ArgumentError, ShapeError, message

Array: TypeAlias = np.ndarray[Any, Any]


@final
class TensorDataset:
    """Arrays of one length, kept on the host: sample `i` is the tuple of their rows `i`.

    Takes NumPy arrays, tensors (which are copied to the host) and nested lists; an
    index may be an int, a slice or an array of ints. Raises ShapeError if the
    lengths differ.
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ArgumentError(message("TensorDataset", "no arrays", "at least one"))
        self.arrays: tuple[Array, ...] = tuple(host_array(array, None) for array in arrays)
        shapes = [array.shape for array in self.arrays]
        if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            given = f"arrays of shapes {', '.join(map(str, shapes))}"
            raise ShapeError(message("TensorDataset", given, "equal first dimensions"))

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def __getitem__(self, index: Any) -> tuple[Array, ...]:
        return tuple(array[index] for array in self.arrays)

    def __repr__(self) -> str:
        parts = ", ".join(f"{array.dtype}{array.shape[1:]}" for array in self.arrays)
        return f"TensorDataset({len(self)} samples of {parts})"
