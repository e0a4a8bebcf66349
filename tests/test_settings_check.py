"""The conformance kit tries each value of each name of a space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import netcl_plugin_tunable
import pytest
from netcl_plugin_kit.testing import Case, Table, normal, run_level
from netcl_plugin_tunable import operator, space

import netcl_core as nc
import netcl_core.autograd as ag

CASE = Case(
    "scaled",
    [normal()],
    reference=lambda x, factor: x * factor,
    attrs={"factor": 3.0},
    shapes=[[(7,)], [(2, 50)]],
    dtypes=["float32"],
)


def outcome(give: Callable[..., None], given: ag.Space, device: nc.Device, **fields: Any) -> Any:
    """The outcome of the check for an operator with a space."""
    nc.plugins.register(netcl_plugin_tunable.Plugin(operator(given, **fields)), "tunable")
    try:
        (found,) = run_level(Table("tunable", [CASE]), [device], only=["settings"]).outcomes
        return found
    finally:
        nc.plugins.unregister("tunable")


def test_each_value_that_fits_is_tried(give: Callable[..., None], fast: nc.Device) -> None:
    seen: set[tuple[int, int, tuple[int, ...]]] = set()

    def plan(request: ag.Request) -> Any:
        seen.add((*request.settings.values(), request.output.shape))
        return netcl_plugin_tunable.plan(request)

    def fits(request: ag.Request, settings: Any) -> str | None:
        return "no" if settings == {"span": 64, "waste": 400} else None

    found = outcome(give, space(fits=fits), fast, plan=plan)
    assert found.state == "passed", found
    shapes = ((7,), (2, 50))
    assert seen == {(s, w, x) for s, w in ((16, 400), (16, 0), (64, 0)) for x in shapes}


def test_a_wrong_value_is_named(give: Callable[..., None], fast: nc.Device) -> None:
    choices = {"span": (16,), "waste": (0,), "off": (0, 1)}
    wrong = ag.Space(choices, lambda request: {"span": 16, "waste": 0, "off": 0})
    found = outcome(give, wrong, fast)
    assert found.state == "failed"
    assert "with off=1 of tunable:scaled:by spans: scaled" in found.reason
    assert "fits=" in found.remedy


def test_a_value_that_raises_is_named(give: Callable[..., None], fast: nc.Device) -> None:
    def plan(request: ag.Request) -> Any:
        if request.settings["span"] == 64:
            raise ZeroDivisionError("none")
        return netcl_plugin_tunable.plan(request)

    found = outcome(give, space(), fast, plan=plan)
    assert found.state == "failed"
    assert "with span=64 of tunable:scaled:by spans: ZeroDivisionError: none" in found.reason


def test_on_numpy_there_is_nothing_to_try(give: Callable[..., None]) -> None:
    nc.plugins.register(netcl_plugin_tunable.Plugin(), "tunable")
    try:
        device = nc.get_device("numpy")
        assert not run_level(Table("tunable", [CASE]), [device], only=["settings"]).outcomes
    finally:
        nc.plugins.unregister("tunable")


@pytest.mark.parametrize("op", ["permute", "expand", "flip"])
def test_first_party_spaces_pass(op: str, fast: nc.Device) -> None:
    table = nc_table("netcl-plugin-tensor", op)
    found = run_level(table, [fast], only=["settings"]).outcomes
    assert found and {each.state for each in found} == {"passed"}, found


def nc_table(distribution: str, op: str) -> Table:
    """A plugin's table with the cases of one op."""
    from netcl_plugin_kit.testing import table_of

    return Table(distribution, table_of(distribution).cases_of(op))
