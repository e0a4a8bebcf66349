"""Gate: steps that a flag on the device may skip, counted there until the host asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from netcl_core import Bound, Device, Kernel, Kernels, Tensor, on_host, uncaptured


class Counted(Protocol):
    """Somebody's count of steps; those that a gate skipped are still in it."""

    steps: int
    gate: Gate | None


@final
class Gate:
    """Of parameters that step together: how many of their steps were skipped.

    The host does not know it, so `Counted.steps` counts all steps that were asked for, and the
    scalars that depend on the number of a step are computed on the device, in double precision
    and by the same operations as on the host, which gives the same bits. A device without it
    computes them in single precision, with an error of some units in the last place.

    Attributes:
        skipped: The number of skipped steps since the host asked, int32.
        now: These scalars, for the step to be done.
    """

    __slots__ = ("_device", "_slots", "now", "skipped")

    def __init__(self, device: Device, slots: Sequence[Counted], scalars: int, dtype: str) -> None:
        self._device = device
        self._slots = tuple(slots)
        with uncaptured():
            self.skipped = Tensor.zeros((1,), "int32", device)
            self.now = Tensor.zeros((max(1, scalars),), dtype, device)

    def enter(self) -> None:
        """Note that a step of the parameters was asked for."""
        for slot in self._slots:
            slot.steps += 1
            slot.gate = self

    def settle(self) -> None:
        """Take what was skipped out of the counts; waits for the device."""
        with uncaptured():
            skipped = self.skipped.item()
            self.skipped.overwrite([0])
        for slot in self._slots:
            slot.steps -= skipped
            slot.gate = None


@final
@dataclass(frozen=True, slots=True)
class Stepwise:
    """The scalars of a rule that depend on the number of a step.

    Attributes:
        names: Their names, in the order in which the rule's template computes them.
        settings: What it computes them from.
    """

    names: tuple[str, ...] = ()
    settings: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, slots=True)
class Skip:
    """What may skip a step: a flag, not 0, on the device.

    Attributes:
        found_inf: The flag.
        gate: Where it is counted.
        stepwise: Gives, rule by rule, the scalars to be computed on the device, with the settings
            of now.
    """

    found_inf: Tensor
    gate: Gate
    stepwise: Callable[[], Sequence[Stepwise]]

    def count(self, launch: Bound | None, asked: Callable[[], int]) -> None:
        """Count the step that is number `asked` of all, and compute the scalars if it is done."""
        gate = self.gate
        if launch is None:
            on_host(_count_on_host, [self.found_inf], [gate.skipped])
            return

        def numbers() -> list[float]:
            rows = self.stepwise()
            return [asked(), *(value for row in rows for value in row.settings.values())]

        outputs = [gate.skipped.buffer, gate.now.buffer]
        launch([self.found_inf.buffer], outputs, numbers(), numbers)


def _count_on_host(given: Sequence[Any], skipped: Any) -> None:
    skipped += given[0].reshape(1) != 0


def settle(slots: Sequence[Counted], own: Gate | None = None) -> None:
    """Let the host know the counts of some parameters, but those that only `own` changed."""
    for slot in slots:
        if slot.gate is not None and slot.gate is not own:
            slot.gate.settle()


def counting(device: Device, template: str, entry: str, context: dict[str, Any]) -> Bound:
    """The kernel that counts: its scalars are the number of the step and the settings."""
    real = "double" if device.supports_fp64 else "float"
    args = (("in", 0), ("out", 0), ("out", 1))
    scalars = ("ulong", *(real,) * (context["rows"] * len(context["settings"])))
    numbers = tuple(("scalar", k) for k in range(len(scalars)))
    kernel = Kernel(template, entry, (*args, *numbers), (1,), (1,), {**context, "real": real})
    return Bound(device, Kernels((kernel,), scalars=scalars), (), ())
