"""Tuning: with which settings an implementation that has a space serves a request.

A tuner in force is asked first (`tuning_by`), then the records of what was measured, which a plugin
keeps (the namespace `tuning`); else the default counts. What measures settings and reads and writes
records is no part of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, final

from netcl_core import config, plugins
from netcl_core.errors import MissingNamespaceError, PluginError, message
from netcl_core.hardware.device import Device
from netcl_core.ops.implementations import (
    NO_SETTINGS,
    Implementation,
    Request,
    Settings,
    Space,
)
from netcl_core.ops.operators import Operator
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec

#: The namespace with `recorded(place, prefix, fault_of)`, which gives a record with its `settings`,
#: or None, and why others were ignored; its `first_use` is called by the setting `tuning`.
NAMESPACE: Final = "tuning"


@final
@dataclass(frozen=True, slots=True)
class Place:
    """What settings are for.

    Attributes:
        platform, device, driver: The OpenCL platform, the device's name and its driver's version.
        implementation: `<distribution>:<op>:<label>`.
        shape_class: Which requests share them.
    """

    platform: str
    device: str
    driver: str
    implementation: str
    shape_class: str

    def __str__(self) -> str:
        return f"{self.implementation} for {self.shape_class} on {self.device} {self.driver}"


def place_of(device: Device, implementation: str, shape_class: str) -> Place:
    """The place of what a device would run."""
    return Place(device.platform, device.name, device.driver_version, implementation, shape_class)


@final
@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """The settings of a request, and what decided.

    Attributes:
        settings: A value for each name; empty for an implementation without a space.
        place: What a record would be for; None without a space.
        record: Whose settings these are, by the namespace `tuning`; None: the default's.
        ignored: Why records were not used.
        forced: Whether a tuner has set them, so that there is nothing to tune.
    """

    settings: Settings = field(default_factory=lambda: NO_SETTINGS)
    place: Place | None = None
    record: Any = None
    ignored: tuple[str, ...] = ()
    forced: bool = False

    def __str__(self) -> str:
        assert self.place is not None  # nobody asks without a space
        rule = f"the default; no record for {self.place.shape_class}"
        if self.forced or self.record is not None:
            rule = "as they are tried" if self.forced else str(self.record)
        return f"{told(self.settings)} ({rule})"


#: What holds without a space, and until an implementation is chosen.
UNDECIDED: Final = ChosenSettings()


# -- the seam for tools ----------------------------------------------------------------------


class Offered(NamedTuple):
    """A call that is about to run; with `keep` it writes what is kept for the gradients, too."""

    call: Any  # an OperatorCall, whose implementation has a space
    inputs: Sequence[Any]
    keep: bool

    @property
    def place(self) -> Place:
        """What a record would be for."""
        place: Place | None = self.call.decided.place
        assert place is not None  # there is a space
        return place


#: Tries what an offered call's space has, or notes it; returns whether once was enough.
FirstUse: TypeAlias = Callable[[Offered], bool]


class Tuner:
    """Takes part in the choice of settings while `tuning_by` has it in force."""

    def settings(
        self, place: Place, implementation: Implementation, request: Request
    ) -> Settings | None:
        """The settings of a request, which must fit; None: what records say, or the default."""

    def wants(self, decision: ChosenSettings) -> bool:
        """Whether calls for which this was decided are to be offered."""
        return False

    def __call__(self, offered: Offered) -> bool:
        """Meet an offered call with its inputs; returns whether once was enough."""
        return True


_in_force: Final[list[Tuner]] = []


@contextmanager
def tuning_by(tuner: Tuner) -> Iterator[None]:
    """Ask a tuner for settings, and offer it calls, in the whole process; the innermost first."""
    _in_force.insert(0, tuner)
    registry.renew()
    try:
        yield
    finally:
        _in_force.remove(tuner)
        registry.renew()


def tuner_for(decision: ChosenSettings) -> FirstUse | None:
    """Who is to be offered a call for which this was decided; None: nobody.

    Raises MissingNamespaceError where the setting `tuning` asks for what is not installed.
    """
    if decision.place is None:
        return None
    for tuner in _in_force:
        if tuner.wants(decision):
            return tuner
    untuned = decision.record is None and not decision.forced
    return _first_use() if untuned and config.get("tuning") == "first-use" else None


def _first_use() -> FirstUse:
    try:
        first_use: FirstUse = plugins.namespace(NAMESPACE).first_use
    except MissingNamespaceError as error:
        error.add_note("The setting `tuning` is `first-use`: without the plugin set it to `off`")
        raise
    return first_use


# -- the decision ----------------------------------------------------------------------------


def decide_settings(
    operator: Operator, implementation: Implementation, request: Request
) -> ChosenSettings:
    """The settings of an implementation for a request.

    Raises PluginError for a default that cannot be used.
    """
    space = implementation.space
    if space is None:
        return UNDECIDED
    provider, owner = operator.owner_of(implementation)
    name = f"{provider}:{implementation.operator}:{implementation.label}"
    place = place_of(request.device, name, shape_class(space, request))
    for tuner in _in_force:
        wanted = tuner.settings(place, implementation, request)
        if wanted is not None:
            return ChosenSettings(_ordered(space, wanted), place, forced=True)
    record, ignored = None, ()
    if (space_of_records := registry.space(NAMESPACE)) is not None:
        record, ignored = space_of_records.recorded(
            place,
            owner.rpartition(":")[2],
            lambda settings: space.fault(settings) or misfit(space, request, settings),
        )
    if record is not None:
        return ChosenSettings(_ordered(space, record.settings), place, record, ignored)
    return ChosenSettings(default_of(space, implementation, request), place, None, ignored)


def default_of(space: Space, implementation: Implementation, request: Request) -> Settings:
    """The default, which must be among the choices and fit; raises PluginError."""
    given = space.default(request)
    fault = space.fault(given) or misfit(space, request, given)
    if fault:
        who = f"{implementation.operator}: the space of {implementation.label!r}"
        raise PluginError(
            message(who, f"its default: {fault}", "settings of its choices that fit the request")
        )
    return _ordered(space, given)


def misfit(space: Space, request: Request, settings: Settings) -> str | None:
    """Why settings cannot run for a request, or None."""
    return None if space.fits is None else space.fits(request, settings)


def told(settings: Settings) -> str:
    """Settings for readers: `span=64, waste=0`."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def _ordered(space: Space, settings: Settings) -> Settings:
    """Settings in the order of the choices, for nobody to change."""
    return MappingProxyType({name: settings[name] for name in space.choices})


def shape_class(space: Space, request: Request) -> str:
    """Which requests share a record with this one."""
    if space.shape_class is not None:
        return space.shape_class(request)
    return ",".join(map(_rounded, request.inputs))


def _rounded(spec: Spec) -> str:
    """`float32[64x1024]`: each size rounded up to a power of two."""
    sizes = [1 << (size - 1).bit_length() if size else 0 for size in spec.shape]
    return f"{spec.dtype}[{'x'.join(map(str, sizes))}]"
