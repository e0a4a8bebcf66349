"""Tape.to_dot: the recorded graph as text."""

from __future__ import annotations

import re
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.tape.recorded import nodes_behind, recorded_graph


def parts(tape: ag.Tape) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The label of each value, and the labels of each edge's ends."""
    text = tape.to_dot()
    labels = dict(re.findall(r'^  (\w+) \[label="((?:[^"\\]|\\.)*)"', text, re.MULTILINE))
    edges = re.findall(r"^  (\w+) -> (\w+);$", text, re.MULTILINE)
    assert text.startswith("digraph tape {") and text.endswith("}\n")
    return labels, [(labels[a], labels[b]) for a, b in edges]


def test_values_and_edges() -> None:
    with ag.Tape() as tape:
        x = ag.tensor([[1.0, 2.0]], requires_grad=True)
        y = x * nc.tensor([3.0])
        ag.sum(y * y)
    labels, edges = parts(tape)
    assert sorted(labels.values()) == [
        r"constant\n(1,) float32",
        r"leaf\n(1, 2) float32",
        r"mul\n(1, 2) float32",
        r"mul\n(1, 2) float32",
        r"sum\n() float32",
    ]
    assert len(edges) == 5 and edges.count((r"mul\n(1, 2) float32", r"mul\n(1, 2) float32")) == 2
    assert tape.to_dot() == tape.to_dot()
    assert "test_dot.py" in tape.to_dot()


def test_a_result_that_is_used_is_joined_to_its_call() -> None:
    with ag.Tape() as tape:
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        values, indices = ag.topk(x, 1)
        ag.exp(values)
    labels, edges = parts(tape)
    assert indices.dtype == "int64" and len(labels) == 3
    assert [tuple(label.split("\\n")[0] for label in edge) for edge in edges] == [
        ("leaf", "topk"),
        ("topk", "exp"),
    ]


def test_hostile_names_stay_in_their_label() -> None:
    name = 'a"];\\ evil\n} -> \r x'
    with ag.Tape() as tape:
        ag.apply_op(lambda x: x, lambda g: [g], leaf(), op_name=name)
    labels, edges = parts(tape)
    assert len(labels) == 2 and len(edges) == 1
    assert all(line.endswith((";", "{", "}", "")) for line in tape.to_dot().splitlines())


def test_nothing_recorded() -> None:
    assert parts(ag.Tape()) == ({}, [])


TWO = ag.jit_compile(lambda x: (x * 0.5, x * 2.0))


def leaf() -> Any:
    return ag.tensor([1.0], requires_grad=True)


def test_all_results_of_a_call_are_its_own() -> None:
    with ag.Tape() as tape:
        x = ag.tensor([1.0, 2.0], requires_grad=True)
        low, high = TWO(x)
        low * high
    (two, product) = recorded_graph(reversed(tape.nodes)).calls
    assert [two.record.op_name, product.record.op_name] == ["fused(mul, mul)", "mul"]
    assert len(two.inputs) == 1 and product.inputs == two.results
    labels, edges = parts(tape)
    assert len(labels) == 4 and len(edges) == 4


def test_what_lies_behind_a_value_is_what_made_it() -> None:
    x = leaf()
    y = ag.exp(x)
    ag.tanh(y)
    z = y * y
    assert nodes_behind(z) == [y, z] and nodes_behind(x) == []
