"""The cases of these ops: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence

from netcl_plugin_kit.testing import Case

from netcl_plugin_conv import conv_cases, place_cases, pool_cases

CASES: Sequence[Case] = [*conv_cases.CASES, *pool_cases.CASES, *place_cases.PLACED]


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
