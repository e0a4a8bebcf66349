"""Settings: forced on implementations, noted, and checked: each value gives the same results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, final

from netcl_core import Device
from netcl_core.autograd import Implementation, Request, Settings, Space
from netcl_core.errors import KernelFindingError
from netcl_core.inspect.choices import (
    ChosenSettings,
    Offered,
    Place,
    Tuner,
    default_of,
    misfit,
    told,
    tuning_by,
)
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.checks import check_main, check_variants


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


def check_settings(case: Case, device: Device, dtype: str) -> None:
    """`check_variants` with each value of each name of the spaces that the case comes across.

    The other names have the default's values, or those with which that one fits.
    """
    for implementation, space in _spaces(case, device, dtype).items():
        for settings in _each(space):
            with forced(implementation, settings):
                _check(case, device, dtype, f"with {told(settings)} of {implementation}")


def _check(case: Case, device: Device, dtype: str, where: str) -> None:
    try:
        check_variants(case, device, dtype)
    except KernelFindingError as finding:
        raise KernelFindingError(finding.code, f"{where}: {finding.text}") from finding
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error
    except Exception as error:  # an implementation may raise anything
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error


def _each(space: Space) -> Iterator[Settings]:
    for name, values in space.choices.items():
        for value in values:
            yield {name: value}


def _spaces(case: Case, device: Device, dtype: str) -> dict[str, Space]:
    """The spaces of the implementations that serve a case and its gradients."""
    with noted_calls() as calls:
        check_main(case, device, dtype)
    return {call.decided.place.implementation: call.implementation.space for call in calls}


@contextmanager
def noted_calls() -> Iterator[list[Any]]:
    """Note the OperatorCalls that a block makes by implementations with a space."""
    noter = _Noter()
    with tuning_by(noter):
        yield noter.calls


@final
class _Noter(Tuner):
    """A tuner that measures nothing."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def wants(self, decision: ChosenSettings) -> bool:
        return True

    def __call__(self, offered: Offered) -> bool:
        self.calls.append(offered.call)
        return True
