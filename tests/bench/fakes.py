"""A clock that only the calls of fake peers move, and cases of such peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness.cases import RaceCase, RaceWork
from harness.peers import Peer

from netcl_core.hardware.device import Device


class Clock:
    """Seconds, and who was called when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        self.waits: list[Any] = []

    def __call__(self) -> float:
        return self.now

    def taking(self, name: str, seconds: Sequence[float]) -> Callable[[], str]:
        """A call that takes so long, one after the other; the last time stays."""
        left = list(seconds)

        def call() -> str:
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]
            return name

        return call


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


def maker(call: Callable[[], Any], *results: Any) -> Callable[[Device], RaceWork]:
    return lambda device: RaceWork(call, lambda: [np.asarray(each) for each in results])


def peers_of(clock: Clock, **ours: bool) -> dict[str, Peer]:
    """Peers by name, and whether they are ours."""

    def waiting(device: Device) -> Callable[[Any], None]:
        return clock.waits.append

    return {name: Peer(each, lambda device: "", waiting) for name, each in ours.items()}


def case(clock: Clock, times: dict[str, float], **options: Any) -> RaceCase:
    """A case of peers that are right and take so long."""
    makers = {name: maker(clock.taking(name, [t]), [1.0, 2.0]) for name, t in times.items()}
    reference = options.pop("reference", lambda: [np.array([1.0, 2.0])])
    return RaceCase("fake", makers, reference, **options)
