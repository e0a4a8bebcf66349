"""DistributedSampler: each process of a job gets its own part of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np

import netcl_core
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_data.samplers import Sampler


@final
class DistributedSampler(Sampler[int]):
    """Every n-th sample, of an order that all processes draw alike.

    >>> parts = [data.DistributedSampler(range(5), 2, rank, shuffle=False) for rank in (0, 1)]
    >>> [list(part) for part in parts]
    [[0, 2, 4], [1, 3, 0]]

    Call `set_epoch` before each epoch: without it every epoch has the same order.

    Args:
        dataset: Its length counts.
        num_replicas: How many processes there are; default: the job's, once
            `distributed.init()` was called, and 1 without a job.
        rank: Which of them this is; default likewise.
        shuffle: Whether each epoch has an order of its own.
        seed: The same in all processes.
        drop_last: Leave out what does not go round; else the first samples of the order come
            again, so that all processes have as many.

    Raises AttributeValueError for a rank that is none of the processes.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        job = getattr(netcl_core, "distributed", None)
        if num_replicas is None:
            num_replicas = job.get_world_size() if job is not None else 1
        if rank is None:
            rank = job.get_rank() if job is not None else 0
        if not 0 <= rank < num_replicas:
            given = f"rank={rank} of num_replicas={num_replicas}"
            raise AttributeValueError(message("DistributedSampler", given, "a rank from 0 on"))
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of this epoch from now on."""
        self.epoch = epoch

    def __len__(self) -> int:
        count = len(self.dataset)
        return count // self.num_replicas if self.drop_last else -(-count // self.num_replicas)

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = np.arange(count)
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(count)
        order = np.resize(order, len(self) * self.num_replicas)  # cuts, or begins again
        yield from order[self.rank :: self.num_replicas].tolist()
