"""pytest's view of a plugin's checks: `TestConformance = conformance("my-plugin")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import pytest

from netcl_core.hardware.device import Device
from netcl_core.testing.cases import Case
from netcl_core.testing.devices import usable_devices
from netcl_plugin_workbench.testing.collection import Table, table_of, table_with
from netcl_plugin_workbench.testing.records import Outcome
from netcl_plugin_workbench.testing.running import perform
from netcl_plugin_workbench.testing.steps import CheckStep, steps_of


@final
@dataclass(frozen=True)
class Item:
    """Steps that make one test, such as all of a case on a device."""

    name: str
    steps: list[CheckStep] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name

    def check(self) -> None:
        """Run the steps, and tell pytest."""
        report([outcome for step in self.steps for outcome in perform(step)])


def report(outcomes: Sequence[Outcome]) -> None:
    """End a test as its outcomes ask for: a failure with all reasons, xfail, skip, or nothing."""
    failed = [each for each in outcomes if each.state == "failed"]
    if failed:
        pytest.fail("\n".join(map(_text, failed)), pytrace=False)
    for state, end in (("xfailed", pytest.xfail), ("skipped", pytest.skip)):
        found = [each for each in outcomes if each.state == state]
        if found and (state == "xfailed" or len(found) == len(outcomes)):
            end("; ".join(dict.fromkeys(f"{each.check}: {each.reason}" for each in found)))


def _text(outcome: Outcome) -> str:
    remedy = f"\n    {outcome.remedy}" if outcome.remedy else ""
    return f"{outcome.check}: {outcome.reason}{remedy}"


def items_of(table: Table, devices: Sequence[Device], *, thorough: bool) -> list[Item]:
    """The tests of a table: per op, per case and device, per group of fused ops and dtype."""
    found: dict[str, Item] = {}
    for step in steps_of(table, devices, thorough=thorough):
        name = _name(step)
        found.setdefault(name, Item(name)).steps.append(step)
    return list(found.values())


def _name(step: CheckStep) -> str:
    if step.device is None:
        return step.ops[0]
    if not step.cases:
        return f"{step.op}-{step.device}"
    names = [str(case) for case in step.cases]
    if step.check != "fused" and len(names) == 1:
        return f"{names[0]}-{step.device}"
    return f"{names[0]}...{names[-1]}-{step.device}-{step.dtype}"


def conformance(
    provider: str,
    cases: Sequence[Case] | None = None,
    internal: Mapping[str, str] | None = None,
) -> type:
    """See `netcl_core.testing.suite.conformance`, which calls this."""
    table = table_of(provider) if cases is None else table_with(provider, cases, internal)
    items = items_of(table, usable_devices(), thorough=False)

    class TestConformance:
        """One test per op, per case and device, and per group of fused ops, device and dtype."""

        conformance_table = table

        @pytest.mark.parametrize("item", items, ids=str)
        def test_conformance(self, item: Item) -> None:
            item.check()

    return TestConformance
