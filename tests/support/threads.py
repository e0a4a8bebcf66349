"""Work in several threads at once that take turns often."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import netcl_core as nc


@contextmanager
def turns(seconds: float = 1e-5) -> Iterator[None]:
    """Threads take turns after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    """Run `work(seed)` in threads of the same device; raises what any of them raised."""
    device, errors = nc.default_device(), []

    def run(seed: int) -> None:
        try:
            with nc.use_device(device):
                work(seed)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)
