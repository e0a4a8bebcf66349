"""pytest's view of a table of cases: `TestConformance = conformance("my-plugin", CASES)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from netcl_core.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.testing.cases import Case
from netcl_core.testing.checks import check_case, check_gradient, check_refusal
from netcl_core.testing.fused import check_group, groups
from netcl_core.testing.reference import usable_devices
from netcl_core.testing.results import Table

#: The group that meets every dtype on every device: storing a dtype and computing in it are two
#: things, and building takes time. `make op-table` runs them all.
_OF_EACH_KIND: Final = 3


def conformance(
    provider: str, cases: Sequence[Case], internal: Mapping[str, str] | None = None
) -> type:
    """A test class that checks a plugin's cases on every device at hand.

    Args:
        provider: The plugin's distribution, such as `"my-plugin"`.
        cases: At least one per op of the plugin.
        internal: Ops without a case, with the reason.
    """
    table, fused = Table(provider, cases, internal or {}), _fused(cases)

    class TestConformance:
        """One test per case and device, and per group of fused ops, device and dtype."""

        conformance_table = table

        def test_every_op_has_a_case(self) -> None:
            assert table.missing() == [], "write a Case, or a reason in `internal`"

        def test_every_backward_is_the_derivative(self) -> None:
            wrong = table.wrong_gradients()
            assert not wrong, "\n".join(wrong)

        @pytest.mark.parametrize("case", cases, ids=str)
        def test_gradient_and_dtypes(self, case: Case) -> None:
            check_refusal(case)
            check_gradient(case)

        @pytest.mark.parametrize(("case", "device", "dtypes"), _eager(cases))
        def test_op(self, case: Case, device: Device, dtypes: Sequence[str]) -> None:
            for dtype in dtypes:
                check_case(case, device, dtype)

    class TestFusedConformance(TestConformance):
        """The same for a plugin with elementwise ops."""

        @pytest.mark.parametrize(("group", "device", "dtype"), fused)
        def test_fused(self, group: Sequence[Case], device: Device, dtype: str) -> None:
            check_group(group, device, dtype, broadcast=device is usable_devices(dtype)[0])

    return TestFusedConformance if fused else TestConformance


def _eager(cases: Sequence[Case]) -> list[Any]:
    """Each case with each device and the dtypes in which it meets it there."""
    return [
        pytest.param(case, device, dtypes, id=f"{case}-{device}")
        for case in cases
        for place, device in enumerate(usable_devices())
        if (dtypes := _dtypes(case, device, place == 0))
    ]


def _dtypes(case: Case, device: Device, first: bool) -> list[str]:
    """All dtypes on the NumPy path, where there is nothing to build, and on the first device.

    Beyond float32, elementwise ops meet devices fused, and the other devices meet
    structured ops in `make op-table`.
    """
    takes = [dtype for dtype in case.takes if dtype != "float64" or device.supports_fp64]
    if device.backend == "numpy" or (first and case.primitive is None):
        return takes
    if not first and case.primitive is not None:
        return []
    return [dtype for dtype in takes if dtype == "float32"]


def _fused(cases: Sequence[Case]) -> list[Any]:
    """All groups on the first device; elsewhere in float32, and one group in each other dtype."""
    return [
        pytest.param(group, device, dtype, id=f"{group[0]}...{group[-1]}-{device}-{dtype}")
        for dtype in DTYPES
        for place, device in enumerate(usable_devices(dtype))
        for number, group in enumerate(groups(cases, dtype))
        if place == 0 or dtype == "float32" or number == _OF_EACH_KIND
    ]
