"""LossScale: a scale that grows and shrinks, on the host, or on a device where steps are captured.

Steps come in rounds, of which all optimizers that share a scaler have one each: a round begins
with the first step after a loss was scaled, and all its gradients are divided by the scale from
before it. Whether anything was infinite in the whole round decides about the next scale, as it
does in PyTorch, where `update` ends a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, final

import numpy as np

from netcl_core import (
    Bound,
    Device,
    Kernel,
    Kernels,
    Tensor,
    before_replay,
    capturing,
    on_host,
    on_replay,
    uncaptured,
)
from netcl_plugin_amp.scaler_settings import HIGHEST, LOWEST, ScalerSettings

TEMPLATE: Final = "amp/scaler.cl.j2"


@final
class _Home:
    """Where the scale lies on a device: now and at the round's start, and three counts."""

    def __init__(self, device: Device) -> None:
        with uncaptured():
            self.now = Tensor.zeros((), "float32", device)
            self.start = Tensor.zeros((), "float32", device)
            self.counts = Tensor.zeros((3,), "int32", device)


@final
class LossScale:
    """The scale, and the count of clean rounds in a row (`tracker`).

    The host knows both until a captured step changes them on its device; then that one knows,
    until the host asks, which waits for it.
    """

    def __init__(self, scale: float, settings: ScalerSettings) -> None:
        self.settings = settings
        self._homes: dict[Device, _Home] = {}
        self._shown: dict[tuple[Device, float], Tensor] = {}
        self._latest: Device | None = None  # where it is known; None: here
        self._current: set[Device] = set()  # where it is written down
        self.set(scale, 0)

    def set(self, scale: float, tracker: int) -> None:
        """Begin anew."""
        self._now = self._start = float(np.float32(scale))
        self._tracker = self._start_tracker = tracker
        self._found = False
        self._latest = None
        self._current.clear()

    @property
    def now(self) -> float:
        """The scale."""
        self._ask()
        return self._now

    @property
    def tracker(self) -> int:
        """How many clean rounds there were in a row."""
        self._ask()
        return self._tracker

    def on(self, device: Device, of_round: bool) -> Tensor:
        """The scale on a device, 0-d and float32: that of now, or that of the round's start.

        In a capture its memory stays in place and is changed there; else a tensor keeps its value.
        """
        if capturing():
            home = self._captured(device)
            return home.start if of_round else home.now
        self._ask()
        key = device, (self._start if of_round else self._now)
        if key not in self._shown:
            if len(self._shown) > 8:
                self._shown.clear()
            self._shown[key] = Tensor.full((), key[1], "float32", device)
        return self._shown[key]

    # -- after a step ----------------------------------------------------------------------

    def step(self, overflow: bool, first: bool) -> None:
        """Take in whether the gradients of a step were infinite; `first`: it begins a round."""
        self._ask()
        if first:
            self._start, self._start_tracker, self._found = self._now, self._tracker, False
        self._found |= overflow
        self._now, self._tracker = _next(
            self._start, self._start_tracker, self._found, self.settings
        )
        self._current.clear()

    def step_on(self, overflow: Tensor, first: bool) -> None:
        """The same for a step that is being captured, by its flag."""
        device = overflow.device
        home = self._captured(device)
        held = [home.now, home.start, home.counts]
        if not device.has_kernels:
            on_host(partial(self._step_numpy, first), [overflow], held)
        else:
            numbers = partial(self._numbers, first)
            outputs = [tensor.buffer for tensor in held]
            _kernel(device, "scaler_update")([overflow.buffer], outputs, numbers(), numbers)
        for tensor in held:
            tensor.mark_changed()
        moved = partial(self._moved, device)
        moved()
        on_replay(moved)

    def _numbers(self, first: bool) -> list[float]:
        known = self.settings
        return [known.growth_factor, known.backoff_factor, known.growth_interval, int(first)]

    def _step_numpy(
        self, first: bool, given: Sequence[Any], now: Any, start: Any, counts: Any
    ) -> None:
        if first:
            start[...] = now
            counts[1:] = counts[0], 0
        counts[2] |= int(given[0].item() != 0)
        begun = start.item(), int(counts[1]), bool(counts[2])
        now[...], counts[0] = _next(*begun, self.settings)

    def _moved(self, device: Device) -> None:
        self._latest = device
        self._current = {device}

    # -- between the host and the devices --------------------------------------------------

    def _ask(self) -> None:
        if self._latest is None:
            return
        home = self._homes[self._latest]
        self._now, self._start = home.now.item(), home.start.item()
        tracker, start_tracker, overflow = home.counts.numpy()
        self._tracker, self._start_tracker = int(tracker), int(start_tracker)
        self._found = bool(overflow)
        self._latest = None

    def _captured(self, device: Device) -> _Home:
        """What a capture uses; each of its replays finds there what is known then."""
        if device not in self._homes:
            self._homes[device] = _Home(device)
        arrive = partial(self._arrive, device)
        arrive()
        before_replay(arrive)
        return self._homes[device]

    def _arrive(self, device: Device) -> None:
        if device in self._current:
            return
        home = self._homes[device]
        with uncaptured():
            self._ask()
            home.now.overwrite(np.float32(self._now))
            home.start.overwrite(np.float32(self._start))
            home.counts.overwrite([self._tracker, self._start_tracker, int(self._found)])
        self._current.add(device)


def joined(flags: Sequence[Tensor]) -> Tensor:
    """A flag that is set if one of several is."""
    if len(flags) == 1:
        return flags[0]
    overflow = Tensor.zeros((1,), "int32", flags[0].device)
    for flag in flags:
        if not overflow.device.has_kernels:
            on_host(_join_numpy, [flag], [overflow])
        else:
            _kernel(overflow.device, "scaler_join")([flag.buffer], [overflow.buffer])
    return overflow


def _join_numpy(given: Sequence[Any], overflow: Any) -> None:
    overflow |= given[0]


def _next(
    scale: float, tracker: int, overflow: bool, settings: ScalerSettings
) -> tuple[float, int]:
    """Scale and tracker after a round that began with these.

    The product of two float32 numbers is exact in double precision, and rounded once.
    """
    tracker = 0 if overflow else tracker + 1
    full = tracker >= settings.growth_interval
    factor = settings.backoff_factor if overflow else settings.growth_factor if full else 1.0
    product = scale * float(np.float32(factor))
    return float(np.float32(min(max(product, LOWEST), HIGHEST))), 0 if full else tracker


@lru_cache(maxsize=64)
def _kernel(device: Device, entry: str) -> Bound:
    update = entry == "scaler_update"
    outputs, scalars = (3, ("float", "float", "long", "long")) if update else (1, ())
    args = (
        ("in", 0),
        *(("out", k) for k in range(outputs)),
        *(("scalar", k) for k in range(len(scalars))),
    )
    context = {"lowest": LOWEST, "highest": HIGHEST}
    kernel = Kernel(TEMPLATE, entry, args, (1,), (1,), context)
    return Bound(device, Kernels((kernel,), scalars=scalars), (), ())
