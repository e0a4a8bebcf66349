"""Calls that are found by the arguments as they are given: what is kept, and what is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.ops.known_calls import KnownCalls
from netcl_core.plugins.registry import registry

X, Y = (nc.zeros(2, 3, device="numpy") for _ in range(2))
NODE = X.requires_grad_() * 2.0


def kept(args: tuple[Any, ...], operands: list[Any], before: Callable[[], object]) -> KnownCalls:
    calls = KnownCalls(8)
    _, _, given = calls.find(args, {"dim": 1})
    before()
    assert given is not None
    calls.note(given, "call", operands)
    return calls


def test_operands_have_the_order_that_they_were_bound_in() -> None:
    calls = kept((X, [NODE]), [NODE, X], lambda: None)
    call, operands, _ = calls.find((Y, [X]), {"dim": 1})
    assert call == "call" and operands[0] is X and operands[1] is Y
    for args, dim in (((Y, [X]), True), ((Y, (X,)), 1), ((Y, [X, X]), 1), ((Y, [Y[0]]), 1)):
        assert calls.find(args, {"dim": dim})[0] is None
    assert calls.find((Y, [X], {}), {"dim": 1})[2] is None
    registry.renew()
    assert calls.find((Y, [X]), {"dim": 1})[0] is None


@pytest.mark.parametrize(
    ("args", "operands", "before"),
    [
        ((X, Y), [X, nc.ones(1)], lambda: None),
        ((X, X), [X, X], lambda: None),
        ((X, Y), [X, Y], X.numpy),
        ((3,), [], lambda: None),
    ],
    ids=["made", "twice", "read", "none"],
)
def test_what_follows_from_more_than_the_arguments_is_not_kept(
    args: tuple[Any, ...], operands: list[Any], before: Callable[[], object]
) -> None:
    assert kept(args, operands, before).find(args, {"dim": 1})[0] is None


def test_zero_and_minus_zero_are_two() -> None:
    found = [ag.pad(X, (1, 0), value=value).numpy()[0, 0] for value in (0.0, -0.0, 0.0, -0.0)]
    assert [math.copysign(1, value) for value in found] == [1, -1, 1, -1]
