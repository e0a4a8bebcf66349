"""pytest's view of a plugin's checks: `TestConformance = conformance("my-plugin")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

import pytest

from netcl_core import Device, get_device
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table, plugins_of, table_of, table_with
from netcl_plugin_kit.testing.devices import usable_devices
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import perform
from netcl_plugin_kit.testing.steps import CheckStep, steps_of

#: The test of what belongs to none of the names that a plugin's manifest lists.
_OTHERS: Final = "others"


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
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    if failed:
        pytest.fail("\n".join(map(_text, failed)), pytrace=False)
    for state, end in (("xfailed", pytest.xfail), ("skipped", pytest.skip)):
        of_state = [outcome for outcome in outcomes if outcome.state == state]
        if of_state and (state == "xfailed" or len(of_state) == len(outcomes)):
            end(
                "; ".join(
                    dict.fromkeys(f"{outcome.check}: {outcome.reason}" for outcome in of_state)
                )
            )


def _text(outcome: Outcome) -> str:
    remedy = f"\n    {outcome.remedy}" if outcome.remedy else ""
    return f"{outcome.check}: {outcome.reason}{remedy}"


def items_of(table: Table, devices: Sequence[Device]) -> list[Item]:
    """The tests of a table: per op, per case and device, per group of fused ops and dtype."""
    by_name: dict[str, Item] = {}
    for step in steps_of(table, devices):
        name = _name(step)
        by_name.setdefault(name, Item(name)).steps.append(step)
    return list(by_name.values())


def _name(step: CheckStep) -> str:
    if step.device is None:
        return step.ops[0]
    if not step.cases:
        return f"{step.op}-{step.device}"
    names = [str(case) for case in step.cases]
    if step.check != "fused" and len(names) == 1:
        return f"{names[0]}-{step.device}"
    return f"{names[0]}...{names[-1]}-{step.device}-{step.dtype}"


# -- a class of tests --------------------------------------------------------------------------


@final
class Suite:
    """The steps of a plugin by the names that its manifest lists; made when the first test runs."""

    def __init__(
        self, provider: str, cases: Sequence[Case] | None, internal: Mapping[str, str] | None
    ) -> None:
        self.provider = provider
        self.cases = cases
        self.internal = internal
        self._steps: dict[str, list[CheckStep]] = {}

    @property
    def names(self) -> list[str]:
        """A test each. Neither the plugin nor its cases are loaded for them."""
        plugins = plugins_of(self.provider, loaded=False)
        offered = [name for plugin in plugins for _, name in plugin.offers] or [
            name for plugin in plugins for name in plugin.provides
        ]
        return [*dict.fromkeys(offered), _OTHERS]

    def table(self) -> Table:
        """The plugin's cases."""
        if self.cases is None:
            return table_of(self.provider)
        return table_with(self.provider, self.cases, self.internal)

    def steps(self, name: str, config: pytest.Config) -> list[CheckStep]:
        """What is checked of one name; of a group of fused ops it is in the first one's."""
        if not self._steps:
            chosen = config.getoption("netcl_device", None) or ()
            thorough = config.getoption("netcl_level", None) is not None
            devices = [get_device(device) for device in chosen] or usable_devices()
            if not chosen and not thorough:
                devices = [*{device.backend: device for device in reversed(devices)}.values()]
            known: dict[str, list[CheckStep]] = {each: [] for each in self.names}
            for step in steps_of(self.table(), devices, thorough=thorough):
                of = step.listed or step.ops[0]
                known[of if of in known else _OTHERS].append(step)
            self._steps = known
        return self._steps[name]


def conformance(
    provider: str,
    cases: Sequence[Case] | None = None,
    internal: Mapping[str, str] | None = None,
) -> type:
    """A test class that checks a plugin on NumPy and one OpenCL device, one test per op.

    >>> conformance("netcl-plugin-elementwise").__name__
    'TestConformance'

    With `pytest --netcl-level run` it checks everything on every device.

    Args:
        provider: The plugin's distribution, such as `"my-plugin"`.
        cases: At least one per op of the plugin; default: what its hook gives, and derived ones.
        internal: With `cases`: ops without one, with the reason.
    """
    suite = Suite(provider, cases, internal)

    class TestConformance:
        """One test per op, pattern, policy and namespace of the plugin."""

        @pytest.mark.parametrize("name", suite.names)
        def test_conformance(self, name: str, request: pytest.FixtureRequest) -> None:
            steps = suite.steps(name, request.config)
            report([outcome for step in steps for outcome in perform(step)])

    return TestConformance
