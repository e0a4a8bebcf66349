"""`netcl graph`: the structure of its drawings, its JSON and text, and how errors end."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from drawings import (
    SVG,
    check,
    check_edges,
    ends,
    groups,
    head,
    texts,
    tooltip,
)
from netcl_plugin_tools.graph.dot import COLOURS, cells, shorten, to_svg
from netcl_plugin_tools.graph.drawing import KINDS, DrawnOp, Edge
from netcl_plugin_tools.graph.graph import Box, DrawnGraph

from netcl_core.cli import main
from netcl_core.hardware.device_table import all_devices

OPENCL = any(device.backend == "opencl" for device in all_devices())
needs_opencl = pytest.mark.skipif(not OPENCL, reason="no OpenCL device")

FILE = '''
import sys
import numpy as np
import netcl_core.autograd as ag
from netcl_core import nn

print("the file's own words")
SCALE = ag.tensor(np.full(10, 0.5, np.float32))
layer = nn.Linear(4, 3)


@ag.jit_compile
def mlp(x, w1, b1, w2, b2):
    h = ag.relu(ag.add(ag.matmul(x, w1), b1))
    return ag.softmax((ag.add(ag.matmul(h, w2), b2)) * SCALE, dim=-1)


def split(x, k):
    """Three results, one of them twice."""
    mean = ag.mean(x, axis=0)
    centred = (x - mean) * k
    return {"mean": mean, "<centred & 'more'>": (centred, ag.exp(centred))}, mean


split.example_inputs = lambda: {"k": 2.5, "x": np.zeros((6, 5), np.float32)}


def chain(x):
    for _ in range(20):
        x = ag.tanh(x * 1.01 + 0.1)
    return x


def flat(x, unused):
    ag.exp(x)
    return ag.reshape(x, (-1,))


def same(x):
    return x


def layered(x):
    return ag.relu(layer(x))


def many(*xs):
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total, ag.sum(total)


def skips(x, w):
    a = ag.matmul(x, w)
    b = ag.matmul(ag.softmax(a, -1), w)
    return ag.layer_norm(b + a, (32,)) * ag.sum(ag.cumsum(b, 0) + x)


def reads(x):
    return x * 2 if ag.sum(x).item() > 0 else x


def raises(x):
    raise KeyError("not this", "second")


def example_inputs():
    return [np.zeros((32, 32), np.float32)] * 2


def listed():
    return 1


one_input = lambda x: x + 1
one_input.example_inputs = lambda: 5
broken = lambda x: x + 1
broken.example_inputs = lambda: 1 / 0
'''
CASES = {
    "mlp": ("--shapes", "32x784,784x512,512,512x10,10"),
    "split": (),
    "chain": ("--shapes", "64x32"),
    "flat": ("--shapes", "2x3,4"),
    "same": ("--shapes", "2x3"),
    "layered": ("--shapes", "2x4"),
    "many": ("--shapes", ",".join(["8"] * 30)),
    "skips": (),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(FILE, encoding="utf-8")
    return "model.py"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, ["graph", *arguments])


def data(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def draw(*arguments: str) -> ElementTree.Element:
    result = run(*arguments, "--svg", "out.svg")
    assert result.exit_code == 0, result.output
    return ElementTree.fromstring(Path("out.svg").read_text(encoding="utf-8"))


# -- drawings ----------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["numpy", pytest.param("opencl", marks=needs_opencl)])
@pytest.mark.parametrize("name", CASES)
def test_nothing_overlaps_and_every_text_is_in_its_box(file: str, name: str, device: str) -> None:
    svg = draw(f"{file}:{name}", *CASES[name], "--device", device)
    check(svg)
    check_edges(svg)


@pytest.mark.parametrize("name", CASES)
def test_every_op_is_drawn_once(file: str, name: str) -> None:
    graph = data(f"{file}:{name}", *CASES[name])
    svg = draw(f"{file}:{name}", *CASES[name])
    wanted = sorted(
        f"{op['value']} = {op['text']}" for node in graph["nodes"] for op in node["ops"]
    )
    assert len(wanted) == graph["ops"] - graph["unread"]
    boxes = groups(svg, "node")
    drawn = [line for box in boxes for line in texts(box) if " = " in line]
    assert sorted(drawn) == sorted(shorten(line, 48) for line in wanted)
    told = "\n".join(map(tooltip, boxes))
    assert all(f"{line}: " in told for line in wanted)
    assert sorted(box.get("id", "") for box in boxes) == sorted(n["id"] for n in graph["nodes"])
    edges = [(each["source"], each["target"]) for each in graph["edges"]]
    assert sorted(map(ends, groups(svg, "edge"))) == sorted(edges)
    assert all(len(texts(each)) == 1 for each in groups(svg, "edge"))


def test_the_same_function_gives_the_same_drawing(file: str) -> None:
    first = ElementTree.tostring(draw(f"{file}:skips"))
    assert ElementTree.tostring(draw(f"{file}:skips")) == first


def test_a_drawing_says_what_it_shows(file: str) -> None:
    svg = draw(f"{file}:split")
    assert svg.get("role") == "img"
    assert svg.get("aria-labelledby") == "heading description"
    assert svg.findtext(f"{SVG}title") == "split"
    assert "4 ops in 2 groups on " in (svg.findtext(f"{SVG}desc") or "")
    for box in groups(svg, "node"):
        assert tooltip(box)
    dark = (svg.findtext(f"{SVG}style") or "").partition("@media (prefers-color-scheme: dark)")[2]
    colours = {each.get(key, "none") for each in svg.iter() for key in ("fill", "stroke")}
    assert all(f'="{colour}"] {{' in dark for colour in colours - {"none"})
    for kind in KINDS:
        fill, line, dark_fill, dark_line = COLOURS[kind]
        assert f'[fill="{fill}"] {{ fill: {dark_fill}; }}' in dark
        assert f'[stroke="{line}"] {{ stroke: {dark_line}; }}' in dark


@needs_opencl
def test_the_legend_counts_launches_and_names_the_kinds(file: str) -> None:
    svg = draw(f"{file}:mlp", *CASES["mlp"], "--device", "opencl")
    lines = ["".join(line.itertext()) for line in head(svg)]
    assert lines[0] == "mlp"
    assert re.fullmatch(r"7 ops in 3 groups on opencl:\d+\.", lines[1])
    assert lines[2] == "3 launches, with each op by itself 7."
    assert lines[3:] == ["fused operator", "single op", "argument", "constant", "result"]


def test_long_texts_are_shortened_with_the_whole_beside() -> None:
    long = "an_argument_of_a_name_" * 9
    op = DrawnOp("t1", "exp", f"exp({long})", "float32", (2, 3), "a.py:1, in f: exp(x)")
    wide = Box("step1", "op", "1 · single op", (op,), 1, note="because " * 30)
    boxes = (Box("argument0", "argument", long), wide, Box("result0", "result", "数" * 60))
    edges = (Edge("argument0", "step1", long, "float32", (2, 3)),
             Edge("step1", "result0", "t1", "float32", (2, 3)))  # fmt: skip
    graph = DrawnGraph("f\x00<g>&" * 40, "numpy", "NumPy call", 1, 1, 1, 0, boxes, edges)
    svg = ElementTree.fromstring(to_svg(graph))
    check(svg)
    lines = [line for box in groups(svg, "node") for line in texts(box)]
    assert all(cells(line) <= 48 for line in lines)
    told = "\n".join(map(tooltip, groups(svg, "node")))
    assert f"t1 = exp({long})" in told and long in told and "数" * 60 in told


# -- what a graph holds ------------------------------------------------------------------


@needs_opencl
def test_nodes_and_edges(file: str) -> None:
    graph = data(f"{file}:mlp", *CASES["mlp"], "--device", "opencl")
    assert (graph["launches"], graph["unfused"], graph["ops"]) == (3, 7, 7)
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert [node["title"] for node in graph["nodes"] if node["kind"] == "argument"] == [
        "x", "w1", "b1", "w2", "b2"]  # fmt: skip
    assert [node["kind"] for key, node in nodes.items() if key.startswith("step")] == [
        "operator", "op", "operator"]  # fmt: skip
    assert [op["text"] for op in nodes["step3"]["ops"]] == [
        "add(t4, b2)", "mul(t5, SCALE)", "softmax(t6, dim=1)"]  # fmt: skip
    assert "model.py:" in nodes["step2"]["ops"][0]["source"]
    assert {"source": "step1", "target": "step2", "value": "t3", "dtype": "float32",
            "shape": [32, 512]} in graph["edges"]  # fmt: skip
    assert nodes["constant0"]["title"] == "SCALE"
    assert "do not fit its slots" in nodes["step2"]["note"] and not nodes["step3"]["note"]


def test_results_and_numbers_have_their_names(file: str) -> None:
    graph = data(f"{file}:split")
    results = [node["title"] for node in graph["nodes"] if node["kind"] == "result"]
    assert results == ["[0]['mean']", "[0][\"<centred & 'more'>\"][0]",
                       "[0][\"<centred & 'more'>\"][1]", "[1]"]  # fmt: skip
    assert "mul(t2, k)" in [op["text"] for node in graph["nodes"] for op in node["ops"]]


def test_views_unused_arguments_and_unread_ops(file: str) -> None:
    graph = data(f"{file}:flat", *CASES["flat"])
    kinds = {node["title"]: (node["kind"], node["launches"], node["note"])
             for node in graph["nodes"]}  # fmt: skip
    assert kinds["1 · view"] == ("view", 0, "")
    assert kinds["unused"] == ("argument", 0, "not used")
    assert (graph["ops"], graph["unread"], graph["unfused"]) == (2, 1, 1)
    (only,) = data(f"{file}:same", "--shapes", "3")["edges"]
    assert (only["source"], only["target"]) == ("argument0", "result0")


def test_parameters_of_modules_are_called_as_there(file: str) -> None:
    titles = [node["title"] for node in data(f"{file}:layered", "--shapes", "2x4")["nodes"]]
    assert {"layer.weight", "layer.bias"} <= set(titles)
    titles = [node["title"] for node in data(f"{file}:layer", "--shapes", "2x4")["nodes"]]
    assert {"weight", "bias"} <= set(titles)


def test_without_svg_it_explains(file: str) -> None:
    result = run(f"{file}:chain", "--shapes", "64x32")
    assert result.stdout.startswith("chain: 60 ops in 1 forward launches\n  1. one kernel: mul ->")
    assert "the file's own words" in result.stderr
    shape = {edge["dtype"] for edge in data(f"{file}:chain", "--shapes", "4:float64")["edges"]}
    assert shape == {"float64"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["mlp", "skips", "split"])
def test_times_of_every_kernel(file: str, name: str) -> None:
    found = data(f"{file}:{name}", "--times", *CASES[name])
    boxes = [box for box in data(f"{file}:{name}", *CASES[name])["nodes"] if box["ops"]]
    assert [each["ops"].split(" -> ") for each in found] == [
        [op["op"] for op in box["ops"]] for box in boxes if box["kind"] != "view"
    ]
    assert all(each["forward"] > 0 and each["apart"] > 0 for each in found)
    assert any(each["gradients"] > 0 for each in found)  # split's input is an array


def test_times_as_a_table_end_with_their_sum(file: str) -> None:
    lines = run(f"{file}:mlp", "--times", *CASES["mlp"]).stdout.splitlines()
    assert lines[0].split("  ")[0] == "part" and lines[1].split()[0].endswith("%")
    assert "model.py:" in lines[1] and lines[-1].split()[-1] == "all"


def test_svg_and_json_together(file: str) -> None:
    graph = data(f"{file}:chain", "--shapes", "3", "--svg", "both.svg")
    assert graph["function"] == "chain" and Path("both.svg").is_file()
    line = run(f"{file}:chain", "--shapes", "3", "--svg", "both.svg").stdout
    assert line.startswith("both.svg: 60 ops in 1 group on ") and line.count("\n") == 1


def test_the_text_in_graphviz_language_needs_nothing_to_draw_it(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    for more in ((), ("--recorded",)):
        first = run(f"{file}:skips", "--dot", *more)
        assert first.exit_code == 0 and run(f"{file}:skips", "--dot", *more).stdout == first.stdout
        assert first.stdout.startswith("digraph {\n") and first.stdout.endswith("\n}\n")
    result = run(f"{file}:skips", "--svg", "out.svg")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Run `pip install 'netcl-plugin-tools[graph]'`; --dot needs nothing" in result.stderr
    assert not Path("out.svg").exists()


# -- errors ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("model.py",), 2, "graph: 'model.py'; expected FILE:FUNC"),
        (("model.py:",), 2, "expected FILE:FUNC"),
        (("nowhere.py:f",), 2, "there is no file 'nowhere.py'"),
        (("model.py:mpl",), 2, "model.py has no 'mpl'; expected a function of the file. "
                               "Did you mean mlp"),
        (("model.py:SCALE",), 2, "SCALE is of type Node; expected a function"),
        (("wrong.py:f",), 2, "importing wrong.py raised ZeroDivisionError: division by zero"),
        (("leaves.py:f",), 2, "importing leaves.py raised SystemExit"),
        (("alone.py:f",), 2, "f has no inputs; expected --shapes, or a function example_inputs()"),
        (("model.py:chain",), 2, "2 inputs for chain(x): too many positional arguments"),
        (("model.py:one_input",), 2, "example_inputs() returned int; expected a list or tuple"),
        (("model.py:broken",), 2, "example_inputs() raised ZeroDivisionError"),
        (("model.py:chain", "--shapes", "4x"), 2, "graph: the shape '4x'; expected sizes such as"),
        (("model.py:chain", "--shapes", "4:halff"), 2, "the dtype 'halff' is not supported"),
        (("model.py:chain", "--dtype", "float8"), 2, "--dtype: the dtype 'float8' is not"),
        (("model.py:skips", "--shapes", "4x3,4x3"), 2, "matmul: shapes (4, 3) and (4, 3)"),
        (("model.py:chain", "--shapes", "4", "--svg", "no/where.svg"), 2, "--svg no/where.svg: "),
        (("model.py:chain", "--shapes", "4", "--device", "opencl:77"), 3, "names no usable device"),
        (("model.py:reads", "--shapes", "4"), 1, "reads: no single program is it; .explain(...)"),
        (("model.py:raises", "--shapes", "4"), 1, "raises: it raised KeyError: ('not this', "),
    ],
)  # fmt: skip
def test_an_error_is_one_line(file: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    Path("wrong.py").write_text("1 / 0\n")
    Path("leaves.py").write_text("raise SystemExit\n")
    Path("alone.py").write_text("def f(x):\n    return x\n")
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    lines = [line for line in result.stderr.splitlines() if "own words" not in line]
    assert len(lines) == 1 and lines[0].startswith("netcl: ") and said in lines[0]
    assert isinstance(result.exception, SystemExit)


def test_one_thing_goes_to_stdout(file: str) -> None:
    result = run(f"{file}:chain", "--dot", "--json")
    assert result.exit_code == 2 and "--dot and --json" in result.stderr


def test_the_command_is_in_the_help() -> None:
    assert "graph" in CliRunner().invoke(main.netcl, ["--help"]).stdout
    for option in ("FILE:FUNC", "--shapes", "--dtype", "--device", "--svg", "--dot", "--json"):
        assert option in run("--help").stdout
