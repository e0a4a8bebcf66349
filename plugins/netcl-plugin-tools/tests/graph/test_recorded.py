"""What a tape recorded as a graph, and `Tape.to_dot`."""

from __future__ import annotations

import re
from typing import Any

from netcl_plugin_tools.graph.recorded import nodes_behind, recorded_graph

import netcl_core.autograd as ag

TWO = ag.jit_compile(lambda x: (x * 0.5, x * 2.0))


def leaf() -> Any:
    return ag.tensor([1.0], requires_grad=True)


def test_all_results_of_a_call_are_its_own() -> None:
    with ag.Tape() as tape:
        low, high = TWO(leaf())
        low * high
    (two, product) = recorded_graph(reversed(tape.nodes)).calls
    assert [two.record.op_name, product.record.op_name] == ["fused(mul, mul)", "mul"]
    assert len(two.inputs) == 1 and product.inputs == two.results


def test_what_lies_behind_a_value_is_what_made_it() -> None:
    x = leaf()
    y = ag.exp(x)
    ag.tanh(y)
    z = y * y
    assert nodes_behind(z) == [y, z] and nodes_behind(x) == []


def test_a_tape_as_text_for_graphviz() -> None:
    with ag.Tape() as tape:
        values, _ = ag.topk(leaf(), 1)
        ag.exp(values)
    text = tape.to_dot()
    assert text == tape.to_dot() and "test_recorded.py" in text
    assert len(re.findall(r"^\S+ -> \S+", text, re.MULTILINE)) >= 2
    assert ag.Tape().to_dot().startswith("digraph {")
