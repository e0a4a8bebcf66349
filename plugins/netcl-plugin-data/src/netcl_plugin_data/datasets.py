"""Data sets: what has samples by number or one after the other, and what is made of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar, final

import numpy as np

from netcl_core import host_array
from netcl_core.errors import ArgumentError, ShapeError, message

Array: TypeAlias = np.ndarray[Any, Any]
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by number: a subclass has `__getitem__`, and `__len__` for samplers and loaders.

    >>> class Squares(data.Dataset):
    ...     def __len__(self):
    ...         return 5
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> [(x.tolist(), y.tolist()) for x, y in data.DataLoader(Squares(), 3)]
    [([0, 1, 2], [0, 1, 4]), ([3, 4], [9, 16])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])

    def collated(self, indices: Sequence[int]) -> Any:
        """The samples as `default_collate` would give them, if there is a faster way; else None."""
        return None


class IterableDataset(Dataset[T_co], ABC):
    """Samples one after the other: a subclass has `__iter__`.

    Each worker process iterates over a copy of its own; `get_worker_info` says which share is its.

    >>> class Countdown(data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5, 0, -1))
    >>> [batch.tolist() for batch in data.DataLoader(Countdown(), 2)]
    [[5, 4], [3, 2], [1]]
    """

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]:
        """The samples from the first on."""

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


@final
class TensorDataset(Dataset[tuple[Array, ...]]):
    """Arrays of one length, kept on the host: sample `i` is the tuple of their rows `i`.

    Takes NumPy arrays, tensors (which are copied to the host) and nested lists; an
    index may be an int, a slice or an array of ints. Raises ShapeError if the
    lengths differ.

    >>> points = data.TensorDataset([[0.0, 1.0], [2.0, 3.0]], [0, 1])
    >>> points
    TensorDataset(2 samples of float32(2,), int64())
    >>> points[1][0].tolist()
    [2.0, 3.0]
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

    def collated(self, indices: Sequence[int]) -> list[Array]:
        chosen = np.asarray(indices, np.int64)
        return [array[chosen] for array in self.arrays]

    def __repr__(self) -> str:
        parts = ", ".join(f"{array.dtype}{array.shape[1:]}" for array in self.arrays)
        return f"TensorDataset({len(self)} samples of {parts})"


@final
class Subset(Dataset[Any]):
    """The samples of a data set with some numbers, in their order.

    >>> odd = data.Subset(range(10), [1, 3, 5])
    >>> len(odd), odd[2]
    (3, 5)

    Args:
        dataset: The data set.
        indices: Which elements, in order.
    """

    def __init__(self, dataset: Any, indices: Iterable[int]) -> None:
        self.dataset = dataset
        self.indices: Sequence[int] = [int(index) for index in indices]

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[self.indices[index]]

    def collated(self, indices: Sequence[int]) -> Any:
        return collated(self.dataset, [self.indices[index] for index in indices])


@final
class ConcatDataset(Dataset[Any]):
    """The samples of several data sets, one after the other; `a + b` makes one as well.

    >>> both = data.ConcatDataset([range(3), range(10, 12)])
    >>> len(both), both[3], both[-1], both.cumulative_sizes
    (5, 10, 11, [3, 5])

    Args:
        datasets: The data sets, in order.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ArgumentError(message("ConcatDataset", "no data sets", "at least one"))
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            remedy = "Use ChainDataset"
            raise ArgumentError(
                message("ConcatDataset", "an IterableDataset", "samples by number", remedy)
            )
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        whole = index + len(self) if index < 0 else index
        if not 0 <= whole < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        part = bisect_right(self.cumulative_sizes, whole)
        before = self.cumulative_sizes[part - 1] if part else 0
        return self.datasets[part][whole - before]


@final
class ChainDataset(IterableDataset[Any]):
    """The samples of several iterable data sets, one after the other.

    >>> list(data.ChainDataset([range(2), range(5, 7)]))
    [0, 1, 5, 6]

    Args:
        datasets: The data sets, in order.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


def collated(dataset: Any, indices: Sequence[int]) -> Any:
    """What a data set has of a faster way than sample by sample; else None."""
    return dataset.collated(indices) if isinstance(dataset, Dataset) else None
