"""DataLoader: batches of a data set as tensors on the default device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, final

import numpy as np

from netcl_core import Device, Tensor, default_device, host_generator
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_data.datasets import Array, TensorDataset

#: Batches that each worker may be ahead of the consumer.
_AHEAD = 2


@final
class DataLoader:
    """Iterates over a data set in batches; each is a tuple of Tensors.

    Args:
        dataset: A TensorDataset, or anything with `len` whose items are tuples of
            arrays or numbers (or one array); items of a batch are stacked.
        batch_size: Samples per batch; the last batch may be smaller.
        shuffle: Draw a new order for each pass.
        drop_last: Leave out the last batch if it is smaller.
        workers: Threads that prepare batches ahead; 0: each is prepared when it is due.
        seed: Makes the sequence of orders reproducible; None: orders are drawn from the
            process's generator, which `netcl_core.manual_seed` resets.
        device: Where the tensors go; default: the default device when a pass begins.

    Uploads are asynchronous: the tensor is there before its data.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        workers: int = 0,
        seed: int | None = None,
        device: Any = None,
    ) -> None:
        for name, value, least in (("batch_size", batch_size, 1), ("workers", workers, 0)):
            if value < least:
                expected = f"a whole number of at least {least}"
                raise AttributeValueError(message("DataLoader", f"{name}={value!r}", expected))
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.workers = workers
        self.device = device
        self._generator = None if seed is None else np.random.default_rng(seed)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        count = len(self.dataset)
        order = self._order(count)
        indices = [
            order[batch * self.batch_size : (batch + 1) * self.batch_size]
            for batch in range(len(self))
        ]
        device: str | Device = default_device() if self.device is None else self.device
        for arrays in self._ahead(indices) if self.workers else map(self._gather, indices):
            yield tuple([Tensor.from_host(array, device) for array in arrays])

    def _order(self, count: int) -> Array:
        if not self.shuffle:
            return np.arange(count)
        generator = host_generator() if self._generator is None else self._generator
        return generator.permutation(count)

    def _ahead(self, indices: list[Array]) -> Iterator[tuple[Array, ...]]:
        """The batches in order, prepared by threads that stop when the consumer does."""
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="netcl-data")
        waiting: deque[Future[tuple[Array, ...]]] = deque()
        try:
            for chosen in indices:
                waiting.append(pool.submit(self._gather, chosen))
                if len(waiting) > self.workers * _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _gather(self, chosen: Array) -> tuple[Array, ...]:
        if isinstance(self.dataset, TensorDataset):
            return self.dataset[chosen]
        samples = [self.dataset[int(index)] for index in chosen]
        columns = zip(*[s if isinstance(s, tuple) else (s,) for s in samples], strict=True)
        return tuple([_stack(column) for column in columns])


def _stack(values: tuple[Any, ...]) -> Array:
    """Samples as one array; raises ArgumentError if their shapes differ."""
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) != 1:
        shapes = ", ".join(sorted({str(array.shape) for array in arrays}))
        expected, remedy = "samples of one shape", "Pad or crop them in the data set"
        raise ArgumentError(message("DataLoader", f"samples of shapes {shapes}", expected, remedy))
    stacked = np.stack(arrays)
    python_floats = stacked.dtype == np.float64 and isinstance(values[0], float)
    return stacked.astype(np.float32) if python_floats else stacked
