"""Forces settings on implementations: a value that is to be checked, or everybody's default."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import final

from netcl_core.autograd import Implementation, Request, Settings
from netcl_core.inspect.choices import Place, Tuner, default_of, misfit, tuning_by


@final
class _Forced(Tuner):
    """Sets settings where they fit, of one implementation or (None) of all."""

    def __init__(self, name: str | None, wanted: Settings) -> None:
        self._name = name
        self._wanted = wanted

    def settings(
        self, place: Place, implementation: Implementation, request: Request
    ) -> Settings | None:
        """The default with the wanted settings; by itself where these fit in no combination."""
        if self._name not in {None, place.implementation}:
            return None
        space = implementation.space
        assert space is not None  # else nobody asks
        default = default_of(space, implementation, request)
        near: list[Settings] = [{**default, **self._wanted}]
        near += [
            combination
            for combination in space.combinations
            if self._wanted.items() <= combination.items()
        ]
        fitting = (x for x in near if not space.fault(x) and not misfit(space, request, x))
        return next(fitting, default)


def forced(implementation: str, settings: Settings) -> AbstractContextManager[None]:
    """Let an implementation take some settings wherever they fit, in the whole process.

    `settings` may be a part of the names: the others are the default's, or the first with which
    they fit.
    """
    return tuning_by(_Forced(implementation, settings))


def untuned() -> AbstractContextManager[None]:
    """Let every implementation take its default, in the whole process: what all machines share."""
    return tuning_by(_Forced(None, {}))
