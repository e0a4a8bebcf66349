"""DataLoader: batches of a data set as tensors on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, default_device, get_device, lenient
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_data.collate import default_collate, to_device
from netcl_plugin_data.datasets import IterableDataset
from netcl_plugin_data.samplers import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    batches_of,
    chosen_generator,
)
from netcl_plugin_data.worker import Fetching
from netcl_plugin_data.workers import DONE, WAITING, Pass, Workers

_WHO: Final = "DataLoader"


@final
class DataLoader:
    """Iterates over a data set in batches, whose arrays and numbers are tensors on a device.

    >>> import numpy as np
    >>> points = data.TensorDataset(np.arange(10.0), np.arange(10))
    >>> for x, y in data.DataLoader(points, batch_size=4):
    ...     print(x.shape, y.tolist())
    (4,) [0, 1, 2, 3]
    (4,) [4, 5, 6, 7]
    (2,) [8, 9]

    Args:
        dataset: Anything with `len` and samples by number, or an IterableDataset.
        batch_size: Samples per batch; the last batch may be smaller. None: each sample is a batch.
        shuffle: Draw a new order for each pass.
        sampler: The order: numbers of samples.
        batch_sampler: The batches: lists of numbers of samples.
        num_workers: Processes that make batches ahead; 0: each is made when it is due. The
            batches and their order are the same. Workers get a copy of the data set, and
            import the main program anew: have it start its work under
            `if __name__ == "__main__":`.
        collate_fn: Makes a batch of a list of samples; default: `default_collate`.
        drop_last: Leave out the last batch if it is smaller.
        timeout: Seconds that a worker's batch may take; 0: any.
        worker_init_fn: Called in each worker with its number, when it begins.
        multiprocessing_context: How workers begin: 'spawn' or 'forkserver'.
        generator: A numpy.random.Generator that draws the orders and the workers' seeds;
            default: the process's, which `nc.manual_seed` resets.
        seed: Or a seed for a generator of its own.
        prefetch_factor: How many batches each worker is ahead; default: 2.
        persistent_workers: Keep the workers from one pass to the next.
        device: Where the tensors go; default: the default device when a pass begins.
        workers: Another name of `num_workers`.

    With workers the next batch is uploaded while one is used, if it is there by then. Uploads are
    asynchronous: the tensor is there before its data.
    """

    @lenient
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        *,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | None = None,
        generator: np.random.Generator | None = None,
        seed: int | None = None,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        device: Any = None,
        workers: int | None = None,
    ) -> None:
        if workers is not None:
            if num_workers:
                raise ArgumentError(message(_WHO, "num_workers and workers", "one of them"))
            num_workers = workers
        _check_sizes(batch_size, num_workers, timeout, prefetch_factor)
        if not num_workers and (prefetch_factor is not None or persistent_workers):
            given = "prefetch_factor or persistent_workers without workers"
            raise ArgumentError(message(_WHO, given, "num_workers of at least 1"))
        multiprocessing_context = multiprocessing_context or "spawn"
        if multiprocessing_context not in ("spawn", "forkserver"):
            given = f"multiprocessing_context={multiprocessing_context!r}"
            expected = "'spawn' or 'forkserver': an OpenCL context does not survive a fork"
            raise AttributeValueError(message(_WHO, given, expected))
        self.dataset = dataset
        self.num_workers = num_workers
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        if generator is not None or seed is not None:
            self.generator = chosen_generator(_WHO, generator, seed)
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self.device = device
        self.collate_fn = None if collate_fn is default_collate else collate_fn
        self._workers: Workers | None = None
        self._given = 0  # batches of the pass that began last
        self._starts: list[Any] | None = None  # states of the generators when it began
        self._resumed: dict[str, Any] | None = None
        self._choose_order(batch_size, shuffle, sampler, batch_sampler, drop_last)

    def _choose_order(
        self,
        batch_size: int | None,
        shuffle: bool,
        sampler: Iterable[Any] | None,
        batch_sampler: Iterable[Any] | None,
        drop_last: bool,
    ) -> None:
        if sampler is not None and shuffle:
            raise ArgumentError(message(_WHO, "a sampler and shuffle=True", "one of them"))
        other = batch_size != 1 or shuffle or sampler is not None or drop_last
        if batch_sampler is not None and other:
            given = "a batch_sampler, and batch_size, shuffle, sampler or drop_last"
            raise ArgumentError(message(_WHO, given, "only the batch_sampler"))
        if batch_size is None and drop_last:
            given = "drop_last=True where each sample is a batch"
            raise ArgumentError(message(_WHO, given, "a batch_size"))
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        if isinstance(self.dataset, IterableDataset):
            if shuffle or sampler is not None or batch_sampler is not None:
                given = "an order for an IterableDataset"
                raise ArgumentError(message(_WHO, given, "samples by number", "Order them there"))
            return
        if batch_sampler is None and sampler is None:
            random = RandomSampler(self.dataset, generator=self.generator)
            self.sampler = random if shuffle else SequentialSampler(self.dataset)
        if batch_sampler is None and batch_size is not None and self.sampler is not None:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)

    def __len__(self) -> int:
        """How many batches a pass has; TypeError if the data set or sampler has no length."""
        order: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        if order is not None:
            return len(order)
        count = len(self.dataset)
        return (
            count if self.batch_size is None else batches_of(count, self.batch_size, self.drop_last)
        )

    def __iter__(self) -> Iterator[Any]:
        device = get_device(default_device() if self.device is None else self.device)
        generators, resumed, skipped = self._generators(), self._resumed, 0
        now = [generator.bit_generator.state for generator in generators]
        if resumed is not None:
            self._resumed, skipped = None, resumed["batches"]
            _set_states(generators, resumed["began"])
        self._given, self._starts = (
            skipped,
            [generator.bit_generator.state for generator in generators],
        )
        seed = int(generators[0].integers(2**62))  # drawn without workers, too: the same orders
        parts, make = self._parts(seed, device)
        for _ in islice(parts, skipped):
            pass
        if resumed is not None:  # what was drawn up to there was drawn before the state was saved
            if not isinstance(self.dataset, IterableDataset):
                parts = chain(list(islice(parts, 1)), parts)  # has drawn the order by now
            _set_states(generators, now)
        for part in parts:
            self._given += 1
            yield to_device(make(part), device)
        self._given, self._starts = 0, None

    def _parts(self, seed: int, device: Device) -> tuple[Iterator[Any], Callable[[Any], Any]]:
        """What the batches of a pass are made of, and how."""
        batched = self.batch_size is not None or self.batch_sampler is not None
        fetching = Fetching(
            self.dataset, self.collate_fn, batched, self.batch_size or 1, self.drop_last
        )
        if self.num_workers:  # whose random numbers follow from the batches that they made
            return self._ahead(fetching, seed, device), lambda batch: batch
        if fetching.iterable:
            return fetching.one_after_the_other(), lambda batch: batch
        return self._tasks(fetching), fetching.of

    def state_dict(self) -> dict[str, Any]:
        """Where a pass stands, for `load_state_dict` of a loader in another process.

        >>> loader = data.DataLoader(data.TensorDataset(range(6)), 2, shuffle=True, seed=3)
        >>> passing = iter(loader)
        >>> _ = next(passing)
        >>> state, rest = loader.state_dict(), [x.tolist() for x, in passing]
        >>> other = data.DataLoader(data.TensorDataset(range(6)), 2, shuffle=True, seed=3)
        >>> other.load_state_dict(state)
        >>> [x.tolist() for x, in other] == rest
        True

        It is that of the pass that began last: how many batches it has given, what the generators
        of its order were when it began, and what those of the loader's own are now.
        """
        now = [generator.bit_generator.state for generator in self._own_generators()]
        return {"batches": self._given, "began": self._starts, "generators": now}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Have the next pass go on where another loader's stood, with the batches after that.

        Call it once the random numbers are as they were (`nc.set_rng_state`). Batches that were
        given are made again where they cannot be skipped: those of workers, whose random numbers
        follow from them, and those of an IterableDataset.

        Raises ArgumentError for what is no loader's state, or that of one with other generators.
        """
        state, own = dict(state_dict), self._own_generators()
        fits = set(state) == {"batches", "began", "generators"} and len(state["generators"]) == len(
            own
        )
        if not fits or len(state["began"] or self._generators()) != len(self._generators()):
            given = f"a state of {', '.join(map(str, state)) or 'nothing'}"
            expected = f"that of a loader with as many generators of its own ({len(own)})"
            raise ArgumentError(message(f"{_WHO}.load_state_dict", given, expected))
        _set_states(own, state["generators"])
        self._resumed = None if state["began"] is None else state

    def _own_generators(self) -> list[np.random.Generator]:
        """Those of the orders' generators that are not the process's."""
        shared = chosen_generator(_WHO, None, None)
        return [generator for generator in self._generators() if generator is not shared]

    def _generators(self) -> list[np.random.Generator]:
        """What orders are drawn by, the loader's own first."""
        inner = getattr(self.batch_sampler, "sampler", None)
        own = [getattr(x, "generator", None) for x in (self.sampler, self.batch_sampler, inner)]
        generators = [chosen_generator(_WHO, self.generator, None), *own]
        return list({id(g): g for g in generators if isinstance(g, np.random.Generator)}.values())

    def _tasks(self, fetching: Fetching) -> Iterator[Any]:
        """What each batch is made of."""
        if fetching.iterable:
            return repeat(())
        order: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        return iter(order)

    def _ahead(self, fetching: Fetching, seed: int, device: Device) -> Iterator[Any]:
        """The batches that workers make; one is uploaded before the one before it is used."""
        workers = self._workers or self._begun(fetching)
        try:
            tasks = self._tasks(fetching)
            turn = Pass(workers, tasks, seed, self.prefetch_factor, self.timeout)
            kept: list[Any] = []
            while (batch := turn.next(wait_for_it=not kept)) is not DONE:
                if batch is not WAITING:
                    kept.append(to_device(batch, device))
                if batch is WAITING or len(kept) > 1:
                    yield kept.pop(0)
            yield from kept
        except BaseException as error:
            if not isinstance(error, GeneratorExit) or workers is not self._workers:
                self._end(workers)
            raise
        if workers is not self._workers:
            self._end(workers)

    def _begun(self, fetching: Fetching) -> Workers:
        workers = Workers(
            fetching, self.num_workers, self.worker_init_fn, self.multiprocessing_context
        )
        if self.persistent_workers:
            self._workers = workers
        return workers

    def _end(self, workers: Workers) -> None:
        self._workers = None if workers is self._workers else self._workers
        workers.end()

    def __del__(self) -> None:
        workers = getattr(self, "_workers", None)
        if workers is not None:
            workers.end()


def _set_states(generators: Iterable[np.random.Generator], states: Iterable[Any]) -> None:
    for generator, state in zip(generators, states, strict=True):
        generator.bit_generator.state = state


def _check_sizes(batch_size: Any, num_workers: Any, timeout: Any, prefetch_factor: Any) -> None:
    """Raise AttributeValueError for numbers that cannot be used."""
    for name, value, least in (
        ("batch_size", batch_size, 1),
        ("num_workers", num_workers, 0),
        ("prefetch_factor", prefetch_factor, 1),
    ):
        if value is None and name != "num_workers":
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            expected = f"a whole number of at least {least}"
            raise AttributeValueError(message(_WHO, f"{name}={value!r}", expected))
    if timeout < 0:
        raise AttributeValueError(message(_WHO, f"timeout={timeout!r}", "seconds, at least 0"))
