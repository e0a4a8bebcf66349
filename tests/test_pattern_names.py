"""Ops with several names: to a training pattern they are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import run_level, table_of

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Captured, MatchedOp, TrainingGraphCompiler, TrainingPattern

pytest.importorskip("netcl_plugin_elementwise")

OP = MatchedOp

X, Y = (nc.tensor(np.full((3, 4), each, np.float32), device="numpy") for each in (0.5, 2.0))


@pytest.fixture(autouse=True)
def _on_numpy() -> Iterator[None]:
    """What matches does not depend on the device."""
    with nc.use_device("numpy"):
        yield


def matched(matcher: Any, function: Callable[..., Any], *args: Any) -> dict[str, Any] | None:
    """What a pattern captures in a function; None: it does not match."""
    found: list[dict[str, Any]] = []
    compiler = TrainingGraphCompiler.private()
    compiler.register(TrainingPattern("probe", matcher, lambda **captured: found.append(captured)))
    compiler.match(function, *args)
    return found[0] if found else None


def test_two_names_of_an_op_are_one() -> None:
    """Whichever the pattern and the function use; readers are told what stands there."""
    for name in ("silu", "swish"):
        graph = OP("mul", (OP(name, ("x",)), "y"))
        for op in (ag.silu, ag.swish):
            assert matched(graph, lambda x, y, op=op: op(x) * y, X, Y) is not None
        assert matched(graph, lambda x, y: ag.sigmoid(x) * y, X, Y) is None
    compiler = TrainingGraphCompiler.private()
    graph = OP("mul", (OP("swish", ("x",)), "y"))
    compiler.register(TrainingPattern("p", graph, lambda x, y: ag.mul(y, ag.swish(x))))
    said = ag.jit_compile(lambda x, y: ag.silu(x) * y, patterns=compiler).explain(X, Y)
    assert "pattern p (user) in place of silu -> mul" in said
    clipped = OP("clip", ("x",), (("min", 0.0), ("max", Captured("top"))))
    found = matched(clipped, lambda x: ag.clamp(x, 0.0, 3.0), X)
    assert found is not None and found["top"] == 3.0
    seen: list[Any] = []
    matched(seen.append, lambda x: ag.silu(x), X)
    assert seen[-1].op == "swish"
    assert seen[-1].as_op("silu") == seen[-1].as_op("swish") == seen[-1]


def test_an_op_of_somebody_elses_is_no_other_name(give: Callable[..., None]) -> None:
    """Where another plugin's silu serves, it is an op of its own."""
    other = ag.AutogradPrimitive("silu", lambda x, attrs: f"{x[0]} * 2", None, arity=1)
    give("elsewhere", other, priority=5)
    graph = OP("swish", ("x",))
    assert matched(graph, ag.silu, X) is None
    assert matched(graph, ag.swish, X) is not None


@pytest.mark.parametrize(("expression", "fine"), [("sin({0})", True), ("cos({0})", False)])
def test_a_name_that_lies_is_noticed(
    give: Callable[..., None], expression: str, fine: bool
) -> None:
    record = ag.AutogradPrimitive(
        "sine", lambda x, attrs: expression.format(*x), None, arity=1, alias_of="sin"
    )
    give("lab", record)
    (found,) = run_level(table_of("lab"), [nc.get_device("numpy")], only=["alias"]).outcomes
    assert (found.state == "passed") is fine
    if not fine:
        assert "sine beside sin" in found.reason and "alias_of=" in found.remedy
