"""The namespace `random`: the seed and the state of the process's random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netcl_core import Generator, Tensor, default_generator, manual_seed

__all__ = [
    "Generator", "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed",
    "seed", "set_rng_state",
]  # fmt: skip


def seed() -> int:
    """Start them anew from a seed that nobody knows, and return it.

    >>> nc.seed() == nc.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that they began from.

    >>> generator = nc.manual_seed(5)
    >>> nc.initial_seed()
    5
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """All that the next random numbers of this process depend on, for `set_rng_state`.

    >>> state = nc.get_rng_state()
    >>> first = nc.host_generator().integers(1000)
    >>> nc.set_rng_state(state)
    >>> bool(nc.host_generator().integers(1000) == first)
    True

    A uint8 tensor, as PyTorch's. `nc.save` writes it.
    """
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go on with the random numbers from where `get_rng_state` was called.

    >>> state = nc.get_rng_state()
    >>> first = nc.rand(2).tolist()
    >>> nc.set_rng_state(state)
    >>> nc.rand(2).tolist() == first
    True

    Raises AttributeValueError for anything else than what it returned.

    Args:
        new_state: What `get_rng_state` gave.
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, **names: Any) -> Iterator[None]:
    """A block, or a decorated function, after which the random numbers go on as if it had not been.

    >>> generator = nc.manual_seed(1)
    >>> with nc.random.fork_rng():
    ...     first = nc.rand(1).item()
    >>> nc.rand(1).item() == first
    True

    PyTorch's further arguments name devices; here one generator serves all.
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
