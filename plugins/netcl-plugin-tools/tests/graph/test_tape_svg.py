"""`tape_svg` and `netcl graph --recorded`: the drawing of what was recorded for the gradients."""

from __future__ import annotations

import doctest
import json
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from drawings import SVG
from netcl_plugin_tools import tape_svg
from netcl_plugin_tools.graph.recorded import recorded_graph
from netcl_plugin_tools.graph.repeated import repeated
from netcl_plugin_tools.graph.tape_graph import TapeGraph, tape_graph

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.cli import main
from netcl_core.errors import ArgumentError

FILE = """
import numpy as np
import netcl_core.autograd as ag
from netcl_core import nn

layer = nn.Linear(4, 3)


def train(x, labels):
    loss = ag.cross_entropy(layer(x), labels)
    return {"loss": loss}, loss


train.example_inputs = lambda: (ag.tensor(np.zeros((2, 4), np.float32)), np.array([0, 1]))


def chain(x, w, count=2):
    for _ in range(count):
        x = x * w
    return x


compiled = ag.jit_compile(chain)


def raises(x):
    raise KeyError("not this")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(FILE, encoding="utf-8")
    return "model.py"


def leaf(*values: float) -> Any:
    return ag.tensor(list(values) or [1.0, 2.0], requires_grad=True)


def graph_of(tape: ag.Tape) -> TapeGraph:
    return tape_graph("tape", recorded_graph(tape.nodes), {})


def boxes(svg: str) -> dict[str, tuple[str, list[str]]]:
    """The kind and the lines of each box, by its id; the drawing is well-formed."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class", "").startswith("node "):
            lines = ["".join(each.itertext()) for each in group.iter(f"{SVG}text")]
            found[group.get("id", "")] = group.get("class", "").removeprefix("node "), lines
    return found


def arrows(svg: str) -> list[tuple[str, str]]:
    found = []
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "edge":
            source, _, target = (group.findtext(f"{SVG}title") or "").partition("->")
            found.append((source, target))
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, ["graph", *arguments, "--recorded"])


# -- what is drawn -----------------------------------------------------------------------


def test_leaves_constants_ops_and_results() -> None:
    with ag.Tape() as tape:
        x = leaf()
        y = ag.tanh(x * nc.tensor([3.0, 4.0]))
    svg = tape_svg(tape, {"x": x, "y": y}, title="two ops")
    found = boxes(svg)
    assert {key: kind for key, (kind, _) in found.items()} == {
        "leaf0": "leaf", "constant0": "constant", "call1": "op", "call2": "op", "result0": "result",
    }  # fmt: skip
    assert found["leaf0"][1] == ["x", "leaf, takes a gradient"]
    title, op, line = found["call1"][1]
    assert (title, op) == ("1 · mul", "t1 = mul(x, constant 0)")
    assert line.startswith("test_tape_svg.py:")
    assert found["call2"][1][1] == "y = tanh(t1)" and found["result0"][1] == ["y", "read by no op"]
    assert sorted(arrows(svg)) == [
        ("call1", "call2"), ("call2", "result0"), ("constant0", "call1"), ("leaf0", "call1"),
    ]  # fmt: skip
    assert ElementTree.fromstring(svg).findtext(f"{SVG}title") == "two ops"
    assert "t1: float32[2]" in svg and "to 1 leaf." in svg


def test_a_loss_is_drawn_with_what_lies_behind_it() -> None:
    x = leaf()
    y = ag.exp(x)
    ag.tanh(y)
    found = boxes(tape_svg(ag.sum(y)))
    assert [lines[0] for _, lines in found.values()] == ["leaf 0", "1 · exp", "2 · sum", "t2"]


def test_an_input_given_twice_has_two_arrows() -> None:
    with ag.Tape() as tape:
        x = leaf()
        x * x
    assert arrows(tape_svg(tape)).count(("leaf0", "call1")) == 2


def test_several_results_stand_in_one_box() -> None:
    two = ag.jit_compile(lambda x: (ag.relu(x) + 1, ag.tanh(x)))
    with ag.Tape() as tape:
        low, high = two(leaf())
        low * high
    svg = tape_svg(tape)
    kind, lines = boxes(svg)["call1"]
    assert kind == "region" and [line[-3:] for line in lines[1:3]] == ["[0]", "[1]"]
    assert arrows(svg).count(("call1", "call2")) == 2 and ">t1: " in svg and ">t2: " in svg


def test_a_constant_that_an_op_made_names_it() -> None:
    with ag.Tape() as tape:
        leaf() * ag.exp(nc.tensor([3.0, 4.0]))
    kind, lines = boxes(tape_svg(tape))["constant0"]
    assert kind == "constant" and lines[1] == "constant, of exp"


def test_what_another_tape_recorded_is_told() -> None:
    y = ag.exp(leaf())
    with ag.Tape() as tape:
        ag.tanh(y)
    assert boxes(tape_svg(tape))["elsewhere0"] == (
        "elsewhere", ["exp 0", "recorded elsewhere, of exp"])  # fmt: skip


def test_a_change_in_place_is_told_where_backward_would_fail() -> None:
    with ag.Tape() as tape:
        x, w = leaf(), leaf()
        y = x * w
        ag.sum(y + w)
    w.overwrite([5.0, 5.0])
    found = boxes(tape_svg(tape, {"x": x, "w": w}))
    assert " ".join(found["call1"][1]).endswith(". Changed in place since: w")
    assert not any("Changed" in line for line in found["call2"][1])


@pytest.mark.parametrize("recorded", [ag.Tape(), leaf()], ids=["a tape", "a leaf"])
def test_nothing_recorded(recorded: Any) -> None:
    svg = tape_svg(recorded)
    assert boxes(svg) == {} and "Nothing was recorded" in svg


def test_the_example_of_its_docstring_runs() -> None:
    (example,) = doctest.DocTestFinder().find(tape_svg, globs={"ag": ag, "tape_svg": tape_svg})
    assert doctest.DocTestRunner().run(example) == (0, len(example.examples))


def test_only_tapes_and_nodes_are_drawn() -> None:
    with pytest.raises(ArgumentError, match=r"tape_svg: a list; expected a Tape or a Node"):
        tape_svg([])  # type: ignore[arg-type]  # the mistake


def test_hostile_names_stay_texts() -> None:
    name = "<script>alert(1)</script>]]>&\x00\x1b\ud800\n\"'"
    with ag.Tape() as tape:
        x = leaf()
        ag.apply_op(lambda x: x, lambda g: [g], x, op_name=name)
    svg = tape_svg(tape, {name: x}, title=name)
    svg.encode("utf-8")
    found = boxes(svg)
    assert "<script>" not in svg
    assert "<script>alert(1)</script>]]>&???" in found["call1"][1][0]
    assert list(found) == ["leaf0", "call1", "result0"]


# -- large tapes -------------------------------------------------------------------------


def shared(count: int) -> ag.Tape:
    """A weight and a computed value that all of many ops read."""
    with ag.Tape() as tape:
        x, w, scale = leaf(), leaf(), ag.exp(leaf())
        for _ in range(count):
            x = ag.tanh(x * w) * scale
    return tape


def test_five_hundred_ops_are_drawn_in_seconds_and_stay_narrow() -> None:
    with ag.Tape() as tape:
        x = leaf()
        for _ in range(500):
            x = x + 1
    for each in (tape, shared(170)):
        start = time.perf_counter()
        svg = tape_svg(each)
        assert time.perf_counter() - start < 10
        assert len(boxes(svg)) > 500
        assert float(ElementTree.fromstring(svg).get("width", "")) < 1500


def test_what_is_read_far_below_stands_there_again() -> None:
    graph = graph_of(shared(20))
    drawn = repeated(graph)
    place = {box.id: number for number, box in enumerate(drawn.boxes)}
    copies = [box for box in drawn.boxes if box.title == "leaf 2"]
    assert len(copies) == 20 and {box.kind for box in copies} == {"leaf"}
    pointers = [box for box in drawn.boxes if box.kind == "above"]
    assert len(pointers) == 19 and {box.note for box in pointers} == {"made above by 1 · exp"}
    (source,) = (box for box in drawn.boxes if box.title == "1 · exp")
    assert source.note.endswith(". Also read further down")
    assert len(place) == len(drawn.boxes)
    assert all(place[edge.source] < place[edge.target] for edge in drawn.edges)
    assert [(e.target, e.value) for e in drawn.edges] == [(e.target, e.value) for e in graph.edges]
    assert drawn.summary == graph.summary


def test_two_values_of_an_op_have_boxes_of_their_own() -> None:
    two = ag.jit_compile(lambda x: (ag.relu(x) + 1, ag.tanh(x)))
    with ag.Tape() as tape:
        low, high = two(leaf())
        total = low * high
        for _ in range(8):
            total = total * low + high * total
    drawn = repeated(graph_of(tape))
    assert len({box.id for box in drawn.boxes}) == len(drawn.boxes)
    pointed = {box.id: box.title for box in drawn.boxes if box.kind == "above"}
    assert {*pointed.values()} == {"t1", "t2"}
    assert all(pointed.get(edge.source, edge.value) == edge.value for edge in drawn.edges)


def test_a_small_graph_is_drawn_as_it_is() -> None:
    graph = graph_of(shared(4))
    assert repeated(graph) == graph


# -- the command -------------------------------------------------------------------------


def test_the_command_draws_a_call(file: str) -> None:
    result = run(f"{file}:train", "--svg", "out.svg")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("out.svg: 2 ops recorded on ")
    found = boxes(Path("out.svg").read_text(encoding="utf-8")).values()
    kinds = {lines[0]: (kind, lines[1]) for kind, lines in found}
    assert kinds["x"][0] == kinds["labels"][0] == "constant"
    assert kinds["layer.weight"][0] == "leaf"
    assert kinds["[0]['loss']"] == kinds["[1]"] == ("result", "returned")
    assert kinds["1 · linear"][1] == "t1 = linear(x, layer.weight, layer.bias)"


def test_the_command_as_text_and_as_json(file: str) -> None:
    result = run(f"{file}:chain", "--shapes", "3,3")
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.splitlines()[-2:] == [
        "  1. t1 = mul(x, w): float32[3]  (model.py:19)",
        "  2. t2 = mul(t1, w): float32[3]  (model.py:19)",
    ]
    data = json.loads(run(f"{file}:chain", "--shapes", "3,3", "--json").stdout)
    assert (data["name"], data["ops"], data["leaves"]) == ("chain", 2, 2)
    assert [node["id"] for node in data["nodes"]] == ["leaf0", "leaf1", "call1", "call2", "result0"]
    assert data["edges"][0] == {
        "source": "leaf0", "target": "call1", "value": "x", "dtype": "float32", "shape": [3],
    }  # fmt: skip


def test_a_compiled_function_is_called_as_it_is(file: str) -> None:
    text = run(f"{file}:compiled", "--shapes", "3,3").stdout
    assert "fused(mul, mul)(x, w)" in text and ".py:" not in text


def test_integers_take_no_gradient(file: str) -> None:
    assert (
        "Nothing was recorded" in run(f"{file}:chain", "--shapes", "3,3", "--dtype", "int64").stdout
    )


def test_a_function_that_raises_ends_with_its_error(file: str) -> None:
    result = run(f"{file}:raises", "--shapes", "3")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "netcl: raises: it raised KeyError: 'not this'.\n"


def test_arrays_of_an_example_take_gradients(file: str) -> None:
    with Path(file).open("a", encoding="utf-8") as more:
        more.write(
            "chain.example_inputs = lambda: [np.ones(2, np.float32), ag.tensor([1.0, 2.0])]\n"
        )
    data = json.loads(run(f"{file}:chain", "--json").stdout)
    kinds = {node["title"]: node["kind"] for node in data["nodes"]}
    assert (kinds["x"], kinds["w"]) == ("leaf", "constant")
