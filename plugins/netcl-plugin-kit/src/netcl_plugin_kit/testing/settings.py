"""The check of settings: whatever may be tuned computes the same, with each value of each name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from netcl_core import Device
from netcl_core.autograd import Settings, Space
from netcl_core.errors import KernelFindingError
from netcl_core.inspect.choices import ChosenSettings, Offered, Tuner, told, tuning_by
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.checks import check_main, check_variants
from netcl_plugin_kit.testing.forcing import forced


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
    noter = _Noter()
    with tuning_by(noter):
        check_main(case, device, dtype)
    return noter.spaces


@final
class _Noter(Tuner):
    """A tuner that notes spaces and measures nothing."""

    def __init__(self) -> None:
        self.spaces: dict[str, Space] = {}

    def wants(self, decision: ChosenSettings) -> bool:
        return True

    def __call__(self, offered: Offered) -> bool:
        space: Any = offered.call.implementation.space
        self.spaces[offered.place.implementation] = space
        return True
