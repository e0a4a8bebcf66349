"""The kit and amp policies: honest ones pass, and each kind of lie is found, with what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import op_table
import pytest
from netcl_plugin_kit.testing import policies
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import all_cases, table_of
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import run_level
from netcl_plugin_kit.testing.samples import normal

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.protocol import registry

HONEST = ag.AmpPolicy(
    "honest",
    "float16",
    {"matmul": "allow", "linear": "allow", "exp": "keep", "softmax": "keep", "layer_norm": "keep"},
    default="promote",
    forbids=("exp", "softmax", "layer_norm"),
)
#: Those ops that the lies are about, so that not everything is tried.
OPS = ("matmul", "exp", "softmax", "layer_norm", "add", "argmax", "reshape")


@pytest.fixture(autouse=True)
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [case for case in all_cases() if case.op in OPS]
    assert {case.op for case in found} == set(OPS)
    monkeypatch.setattr("netcl_plugin_kit.testing.steps.all_cases", lambda: found)


@pytest.fixture
def checked(give: Callable[..., None]) -> Callable[[Any], list[Outcome]]:
    """What the level `run` says of a plugin with one policy, on NumPy's path and one device."""

    def check(policy: Any) -> list[Outcome]:
        give("policies", policy)
        table = table_of("policies")
        assert [each.name for each in table.policies] == [policy.name]
        devices = list(dict.fromkeys([nc.get_device("numpy"), nc.default_device()]))
        outcomes = run_level(table, devices, only=["policy"]).outcomes
        assert {each.op for each in outcomes} == {policy.name}
        return outcomes

    return check


def complaint(outcomes: list[Outcome]) -> Outcome:
    """The first failure; it says what to do."""
    failed = [each for each in outcomes if each.state == "failed"]
    assert failed and all(each.remedy for each in failed)
    return failed[0]


def test_an_honest_one_passes(checked: Callable[[Any], list[Outcome]]) -> None:
    outcomes = checked(HONEST)
    assert {each.state for each in outcomes} == {"passed"}
    assert len(outcomes) == 1 + len({nc.get_device("numpy"), nc.default_device()})


@pytest.mark.parametrize("op", HONEST.forbids)
@pytest.mark.parametrize("rule", ["allow", "promote"])
def test_a_forbidden_dtype(checked: Callable[[Any], list[Outcome]], op: str, rule: str) -> None:
    found = complaint(checked(replace(HONEST, ops={**HONEST.ops, op: rule})))
    assert f"{op} " in found.reason.replace("-", " ") and "which the policy forbids" in found.reason
    assert "Give it the rule 'keep'" in found.reason


def test_a_tolerance_that_does_not_hold(checked: Callable[[Any], list[Outcome]]) -> None:
    found = complaint(checked(replace(HONEST, tolerance=1e-5)))
    assert "is off by" in found.reason and "promises a share of 1e-05" in found.reason
    assert "tolerance=" in found.remedy


@pytest.mark.parametrize(
    "fields", [{"ops": {**HONEST.ops, "softmx": "keep"}}, {"forbids": ("layernorm",)}]
)
def test_a_misspelt_op(checked: Callable[[Any], list[Outcome]], fields: Any) -> None:
    found = complaint(checked(replace(HONEST, **fields)))
    assert "did you mean" in found.reason


def test_ops_that_nobody_has_yet_are_no_slips() -> None:
    policies.check_names(replace(HONEST, ops={"conv2d": "allow", "some_unheard_of_op": "keep"}))


def test_an_op_that_leaves_the_range_is_found() -> None:
    large = Case("square", [lambda random, shape: 300 + normal()(random, shape)], "square")
    careless = replace(HONEST, ops={"square": "allow"}, forbids=())
    with pytest.raises(AssertionError, match=r"square of float32 .* value is off by inf"):
        policies.check_tolerance(careless, large, nc.get_device("numpy"))
    policies.check_tolerance(
        replace(careless, ops={"square": "keep"}), large, nc.get_device("numpy")
    )


def test_a_gradient_that_vanishes_is_found(give: Callable[..., None]) -> None:
    def faint(x: Any) -> Any:
        return ag.mul(ag.mul(x, 1e-6), 1e6)

    give("faint", ag.composite(faint, ("x",)))
    case = Case("faint", [normal()], reference=lambda x: x, shapes=[[(64,)]], provider="faint")
    policy = ag.AmpPolicy("halves", "float16", {"faint": "allow"})
    with pytest.raises(AssertionError, match=r"faint of float32 .* is off by"):
        policies.check_tolerance(policy, case, nc.get_device("numpy"))


def test_a_device_without_half_arithmetic_is_skipped(
    checked: Callable[[Any], list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nc.Device, "supports_fp16", property(lambda self: False))
    outcomes = checked(replace(HONEST, needs_fp16=True))
    skipped = [each for each in outcomes if each.device]
    assert {each.state for each in skipped} == {"skipped"}
    assert all("has no half arithmetic" in each.reason for each in skipped)


def test_without_ops_nothing_is_claimed(
    checked: Callable[[Any], list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netcl_plugin_kit.testing.steps.all_cases", list)
    outcomes = [each for each in checked(HONEST) if each.device]
    assert {(each.state, each.reason) for each in outcomes} == {
        ("skipped", "no op is installed to try it with")
    }


def test_every_public_op_has_cases_that_a_policy_is_tried_with() -> None:
    """So "every op under autocast" is every op."""
    tried = {case.op for case in all_cases()}
    tried |= {op for table in op_table.tables() for op in table.internal}  # with a reason
    nc.plugins.list()  # which loads them all
    ops = {name for name in registry.op_names() if callable(getattr(ag, name, None))}
    assert ops and ops <= tried
    assert np.isin(OPS, list(tried)).all()
