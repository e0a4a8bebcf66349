"""Tuning: with which settings an implementation that has a space serves a request.

The user's record decides, else one that came with the plugin, else the default. What has been
recorded and cannot be used is ignored, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, final

from netcl_core.errors import PluginError, message
from netcl_core.ops import tuning_records
from netcl_core.ops.implementations import (
    NO_SETTINGS,
    Implementation,
    Request,
    Settings,
    Space,
)
from netcl_core.ops.operators import Operator
from netcl_core.ops.tuning_records import Place, Record, place_of
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec

#: Settings that are taken whatever the records say, by the implementation's name in records.
_forced: Final[dict[str, Settings]] = {}
#: In place of a name: every implementation that is not named.
_ALL: Final = "*"


@final
@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """The settings of a request, and what decided.

    Attributes:
        settings: A value for each name; empty for an implementation without a space.
        place: What a record would be for; None without a space.
        record: Whose settings these are; None: the default's.
        ignored: Why records were not used.
        forced: Whether a check has set them, so that there is nothing to tune.
    """

    settings: Settings = field(default_factory=lambda: NO_SETTINGS)
    place: Place | None = None
    record: Record | None = None
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
    wanted = _forced.get(name, _forced.get(_ALL))
    if wanted is not None:
        return ChosenSettings(_with(wanted, space, implementation, request), place, forced=True)
    own, faults = tuning_records.own(place)
    others, more = tuning_records.shipped(place, owner.rpartition(":")[2])
    ignored = [*faults, *more]
    for record in (*own, *others):
        fault = space.fault(record.settings) or misfit(space, request, record.settings)
        if not fault:
            return ChosenSettings(_ordered(space, record.settings), place, record, tuple(ignored))
        ignored.append(f"{record.source} on {record.date}: {fault}")
    return ChosenSettings(default_of(space, implementation, request), place, None, tuple(ignored))


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


# -- what requests have in common ------------------------------------------------------------


def shape_class(space: Space, request: Request) -> str:
    """Which requests share a record with this one."""
    if space.shape_class is not None:
        return space.shape_class(request)
    return ",".join(map(_rounded, request.inputs))


def _rounded(spec: Spec) -> str:
    """`float32[64x1024]`: each size rounded up to a power of two."""
    sizes = [1 << (size - 1).bit_length() if size else 0 for size in spec.shape]
    return f"{spec.dtype}[{'x'.join(map(str, sizes))}]"


# -- for checks ------------------------------------------------------------------------------


@contextmanager
def forced(implementation: str, settings: Settings) -> Iterator[None]:
    """Let an implementation take some settings wherever they fit, in the whole process.

    For checks. `settings` may be a part of the names: the others are the default's, or the first
    with which they fit.
    """
    before = _forced.get(implementation)
    _forced[implementation] = settings
    registry.renew()
    try:
        yield
    finally:
        del _forced[implementation]
        if before is not None:
            _forced[implementation] = before
        registry.renew()


def untuned() -> AbstractContextManager[None]:
    """Let every implementation take its default, in the whole process: what all machines share."""
    return forced(_ALL, NO_SETTINGS)


def _with(
    wanted: Settings, space: Space, implementation: Implementation, request: Request
) -> Settings:
    """The default with the wanted settings; by itself where these fit in no combination."""
    default = default_of(space, implementation, request)
    near: list[Settings] = [{**default, **wanted}]
    near += [each for each in space.combinations if wanted.items() <= each.items()]
    fitting = (each for each in near if not space.fault(each) and not misfit(space, request, each))
    return _ordered(space, next(fitting, default))
