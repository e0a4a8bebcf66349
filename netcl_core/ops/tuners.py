"""Tuners: who may try other settings when a call runs; what measures lies in a plugin.

A call of an implementation with a space asks once, when that is chosen, whether there is one
(`tuner_for`), and offers itself with its inputs when it runs. So whoever tunes sees real data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

from netcl_core import config, plugins
from netcl_core.errors import MissingNamespaceError
from netcl_core.hardware.device import Device
from netcl_core.ops.implementations import Implementation, Request
from netcl_core.ops.tuning import ChosenSettings
from netcl_core.ops.tuning_records import Place
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec

#: The namespace whose `first_use` is the tuner of the setting `tuning`.
NAMESPACE: Final = "tuning"


class Tunable(Protocol):
    """A call of an implementation with a space: what a tuner needs of an OperatorCall."""

    @property
    def device(self) -> Device: ...

    @property
    def results(self) -> tuple[Spec, ...]: ...

    @property
    def request(self) -> Request: ...

    @property
    def implementation(self) -> Implementation: ...

    @property
    def decided(self) -> ChosenSettings: ...

    def bound_for(self, request: Request, keep: bool) -> Any: ...


class Offered(NamedTuple):
    """A call that is about to run; with `keep` it writes what is kept for the gradients, too."""

    call: Tunable
    inputs: Sequence[Any]
    keep: bool

    @property
    def place(self) -> Place:
        """What a record would be for."""
        assert self.call.decided.place is not None  # there is a space
        return self.call.decided.place


class Tuner(Protocol):
    """What a call is offered to."""

    def __call__(self, offered: Offered) -> bool:
        """Try what the call's space has, or note it; whether it need not be offered again."""


class ChoosingTuner(Tuner, Protocol):
    """One that says beforehand what it is to be offered."""

    def wants(self, decision: ChosenSettings) -> bool:
        """Whether calls for which this was decided are to be offered."""


class OfferedCall(Tunable, Protocol):
    """A call with its tuner."""

    tuner: Tuner | None


def tuner_for(decision: ChosenSettings) -> Tuner | None:
    """Who is to be offered a call for which this was decided; None: nobody.

    Raises MissingNamespaceError where the setting `tuning` asks for what is not installed.
    """
    if decision.place is None:
        return None
    for each in _in_force:
        if each.wants(decision):
            return each
    untuned = decision.record is None and not decision.forced
    return _first_use() if untuned and config.get("tuning") == "first-use" else None


def _first_use() -> Tuner:
    try:
        found: Tuner = plugins.namespace(NAMESPACE).first_use
    except MissingNamespaceError as error:
        error.add_note("The setting `tuning` is `first-use`: without the plugin set it to `off`")
        raise
    return found


def offer(call: OfferedCall, inputs: Sequence[Any], keep: bool) -> None:
    """Offer a call that is about to run to its tuner."""
    assert call.tuner is not None  # else nobody offers it
    if call.tuner(Offered(call, inputs, keep)):
        call.tuner = None


_in_force: Final[list[ChoosingTuner]] = []


@contextmanager
def tuning_by(tuner: ChoosingTuner) -> Iterator[None]:
    """Offer all calls of implementations with a space to a tuner, in the whole process."""
    _in_force.insert(0, tuner)
    registry.renew()
    try:
        yield
    finally:
        _in_force.remove(tuner)
        registry.renew()
