"""Scenario: a use of a plugin that is more than a call of one op, with a known outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from netcl_core import Device, use_device


@final
@dataclass(frozen=True, eq=False)
class Scenario:
    """What somebody does with a namespace of a plugin, such as thirty steps of an optimizer.

    >>> smoke = Scenario("nn", "smoke", lambda device: print(device))
    >>> smoke.play(nc.get_device("numpy"))
    numpy

    Args:
        namespace: The name of the namespace in the registry.
        name: Tells it from the namespace's other scenarios.
        run: `(device) -> None`; the device is also the default one meanwhile. Raises
            AssertionError where the outcome is not what it has to be.
        simulated: Whether Oclgrind, a thousand times slower, runs it as well.
    """

    namespace: str
    name: str
    run: Callable[[Device], Any]
    simulated: bool = True

    def __str__(self) -> str:
        return f"{self.namespace}-{self.name}"

    def play(self, device: Device) -> None:
        """Run it."""
        with use_device(device):
            self.run(device)
