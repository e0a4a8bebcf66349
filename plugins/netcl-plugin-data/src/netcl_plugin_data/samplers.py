"""Samplers: in which order the samples of a data set are visited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, final

import numpy as np

from netcl_core import host_array, host_generator
from netcl_core.errors import ArgumentError, AttributeValueError, message

#: How many numbers are drawn at once.
_CHUNK: Final = 1024

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co], ABC):
    """An order of samples: a subclass has `__iter__`, and `__len__` if a loader's is wanted.

    >>> class Backwards(data.Sampler):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return iter(range(len(self.source) - 1, -1, -1))
    >>> rows = data.TensorDataset([[10], [20], [30]])
    >>> [batch[0].tolist() for batch in data.DataLoader(rows, 2, sampler=Backwards(rows))]
    [[[30], [20]], [[10]]]
    """

    @abstractmethod
    def __iter__(self) -> Iterator[T_co]:
        """The numbers of the samples (of a batch sampler: lists of them) of one pass."""


@final
class SequentialSampler(Sampler[int]):
    """The samples from the first to the last.

    >>> list(data.SequentialSampler("abc"))
    [0, 1, 2]

    Args:
        data_source: What is gone through, by its length.
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


@final
class RandomSampler(Sampler[int]):
    """The samples in an order that each pass draws anew.

    >>> order = list(data.RandomSampler("abcd"))
    >>> sorted(order)
    [0, 1, 2, 3]

    Args:
        data_source: The data set; its length counts.
        replacement: Draw each sample from all, so that one may come twice; they are drawn as they
            are asked for.
        num_samples: How many; default: as many as there are. Of more, without replacement, come
            several whole orders.
        generator: Draws; default: the process's, which `nc.manual_seed` resets.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        if num_samples is not None:
            _count("RandomSampler", num_samples)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many samples a pass has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        generator = chosen_generator("RandomSampler", self.generator, None)
        count, wanted = len(self.data_source), self.num_samples
        if not count and wanted:
            raise ArgumentError(
                message("RandomSampler", f"{wanted} samples of an empty data set", "some to draw")
            )
        if self.replacement:
            yield from _drawn(generator, count, wanted)
            return
        if wanted > count:  # several orders: see `_own`
            generator = _own(generator)
        while wanted > 0:
            yield from generator.permutation(count)[:wanted].tolist()
            wanted -= count


def _drawn(generator: np.random.Generator, count: int, wanted: int) -> Iterator[int]:
    """Numbers below `count`, drawn as they are asked for."""
    own = _own(generator)
    for first in range(0, wanted, _CHUNK):
        yield from own.integers(count, size=min(_CHUNK, wanted - first)).tolist()


def _own(generator: np.random.Generator) -> np.random.Generator:
    """A generator for one pass that goes on drawing while it is under way.

    Workers are ahead, and what else is drawn meanwhile must not change the order.
    """
    return np.random.default_rng(int(generator.integers(2**62)))


@final
class SubsetRandomSampler(Sampler[int]):
    """Some samples in an order that each pass draws anew.

    >>> sorted(data.SubsetRandomSampler([2, 5, 7]))
    [2, 5, 7]

    Args:
        indices: The numbers to draw from; kept as they are, not copied.
        generator: Draws; default: the process's, which `nc.manual_seed` resets.
    """

    def __init__(
        self, indices: Sequence[int], generator: np.random.Generator | None = None
    ) -> None:
        self.indices = indices
        self.generator = generator

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        generator = chosen_generator("SubsetRandomSampler", self.generator, None)
        for k in generator.permutation(len(self.indices)):
            yield int(self.indices[k])


@final
class WeightedRandomSampler(Sampler[int]):
    """Samples drawn by weights, which need not be 1 together.

    >>> list(data.WeightedRandomSampler([0.0, 2.0, 0.0], 4))
    [1, 1, 1, 1]

    Args:
        weights: One per sample.
        num_samples: How many are drawn; with replacement as they are asked for.
        replacement: Whether a sample may come twice.
        generator: Draws; default: the process's, which `nc.manual_seed` resets.
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: np.random.Generator | None = None,
    ) -> None:
        who = "WeightedRandomSampler"
        _count(who, num_samples)
        self.weights = host_array(weights, None).astype(np.float64)
        if self.weights.ndim != 1 or not (self.weights >= 0).all() or not self.weights.sum() > 0:
            given = f"weights of shape {self.weights.shape}"
            expected = "one number >= 0 per sample, and not only zeros"
            raise AttributeValueError(message(who, given, expected))
        there = int((self.weights > 0).sum())
        if not replacement and num_samples > there:
            given = f"num_samples={num_samples} without replacement"
            raise AttributeValueError(message(who, given, f"at most {there}, the weights above 0"))
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[int]:
        generator = chosen_generator("WeightedRandomSampler", self.generator, None)
        if not self.replacement:
            shares = self.weights / self.weights.sum()
            yield from generator.choice(len(shares), self.num_samples, False, shares).tolist()
            return
        own, ends = _own(generator), np.cumsum(self.weights)
        for first in range(0, self.num_samples, _CHUNK):
            places = own.random(min(_CHUNK, self.num_samples - first)) * ends[-1]
            yield from np.searchsorted(ends, places, side="right").tolist()


@final
class BatchSampler(Sampler[list[int]]):
    """Lists of what another sampler gives.

    >>> list(data.BatchSampler(data.SequentialSampler(range(5)), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _count("BatchSampler", batch_size, "batch_size")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        return batches_of(len(self.sampler), self.batch_size, self.drop_last)  # type: ignore[arg-type]


def batches_of(count: int, batch_size: int, drop_last: bool) -> int:
    """How many batches some samples make."""
    whole, rest = divmod(count, batch_size)
    return whole + (1 if rest and not drop_last else 0)


def chosen_generator(who: str, generator: Any, seed: int | None) -> np.random.Generator:
    """A generator that is given, one of a seed, or the process's."""
    if generator is None:
        return host_generator() if seed is None else np.random.default_rng(seed)
    if seed is not None:
        raise ArgumentError(message(who, "a generator and a seed", "one of them"))
    if not isinstance(generator, np.random.Generator):
        given, expected = f"a {type(generator).__name__} as generator", "numpy.random.Generator"
        raise ArgumentError(message(who, given, expected, "numpy.random.default_rng(seed) is one"))
    return generator


def _count(who: str, value: Any, name: str = "num_samples") -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        expected = "a whole number of at least 1"
        raise AttributeValueError(message(who, f"{name}={value!r}", expected))
