"""Seeded faults of amp policies: a rule that breaks a promise, which the checks must notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from netcl_core import get_device
from netcl_plugin_kit.faults.mutants import MutantVerdict
from netcl_plugin_kit.testing import policies
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table, all_cases

if TYPE_CHECKING:
    from netcl_core.autograd import AmpPolicy

#: The rules that let an op compute in the storage dtype.
_BROKEN: tuple[str, ...] = ("allow", "promote")


def run_policy_mutants(table: Table) -> Iterator[MutantVerdict]:
    """Each op that a policy forbids to compute in its storage dtype gets leave to do so.

    On the NumPy path: nothing is computed, a trace shows the dtypes.
    """
    cases: dict[str, list[Case]] = {}
    for case in all_cases() if table.policies else ():
        cases.setdefault(case.op, []).append(case)
    for policy in table.policies:
        for op in policy.forbids:
            own = [case for case in cases.get(op, ()) if policy.storage in case.takes]
            for rule in _BROKEN if own else ():
                wrong = replace(policy, ops={**policy.ops, op: rule})
                if not any(_differs(policy, wrong, case) for case in own):
                    continue  # the op widens its operands by itself
                caught = "policy" if _is_caught(wrong, own) else ""
                text = f"{policy.rule(op, 'operator')} -> {rule} for {op}"
                yield MutantVerdict(policy.name, "rule", text, caught)


def _differs(policy: AmpPolicy, wrong: AmpPolicy, case: Case) -> bool:
    where = get_device("numpy")
    return policies.dtypes_in(policy, case, where) != policies.dtypes_in(wrong, case, where)


def _is_caught(policy: AmpPolicy, cases: list[Case]) -> bool:
    """Whether the check of dtypes complains of any case."""
    for case in cases:
        try:
            policies.check_dtypes(policy, case, get_device("numpy"))
        except AssertionError:
            return True
    return False
