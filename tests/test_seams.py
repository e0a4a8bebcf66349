"""The core's seams: what is done in one place alone, by the syntax of all our modules."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from netcl_plugin_kit.check.subject import canonical
from netcl_plugin_kit.kernels.sources import sources_of

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.errors import MissingOpError
from netcl_core.ops.operators import Operator
from netcl_core.plugins.registry import Row, registry

ROOT = Path(__file__).resolve().parent.parent
FUSION = "plugins/netcl-plugin-fusion/src/netcl_plugin_fusion/"
FOLDERS = [ROOT / "netcl_core", *sorted((ROOT / "plugins").glob("**/src"))]


@functools.cache
def modules() -> dict[str, ast.Module]:
    """The syntax of all our modules."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
    }


def users(find: Callable[[ast.AST], Iterator[ast.AST]]) -> set[str]:
    """The modules in which something is found."""
    return {name for name, tree in modules().items() if next(find(tree), None) is not None}


# -- one apply -----------------------------------------------------------------------------


def recording_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Calls of Node with a call, and assignments that give one to a node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last(node.func) == "Node":
            named = {each.arg for each in node.keywords}
            if len(node.args) > 2 or named & {"call", "inputs", "source", None}:
                yield node


def appends_to_a_tape(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = _last(node.func.value)
            to_tape = node.func.attr == "record" and owner == "tape"
            if to_tape or (node.func.attr in {"append", "extend", "insert"} and owner == "nodes"):
                yield node
        for target in _targets(node):
            of_a_tape = isinstance(target, ast.Attribute) and target.attr == "tape"
            if of_a_tape and _last(target.value) == "node":  # type: ignore[attr-defined]
                yield target


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _targets(node: ast.AST) -> list[ast.expr]:
    given: list[ast.expr] = []
    if isinstance(node, (ast.Assign, ast.Delete)):
        given = node.targets
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        given = [node.target]
    return [each for one in given for each in (one.elts if isinstance(one, ast.Tuple) else [one])]


def test_apply_alone_records() -> None:
    assert users(recording_nodes) == {"netcl_core/tape/apply.py"}
    # the walk and the traces have lists of that name, which are no tape's
    others = {"netcl_core/tape/reverse.py", "netcl_core/tape/tracing.py", FUSION + "part_tracer.py"}
    assert users(appends_to_a_tape) - others == {
        "netcl_core/tape/apply.py",
        "netcl_core/tape/tape.py",
    }


def test_the_search_finds_who_records() -> None:
    for text in ("Node(x, 'op', call)", "node.Node(x, call=call)", "Node(x, source=other)"):
        assert next(recording_nodes(ast.parse(text)), None) is not None, text
    for text in ("Node(x)", "Node(value, 'op')", "TraceNode(a, b, c, d)"):
        assert next(recording_nodes(ast.parse(text)), None) is None, text
    for text in ("state.tape.record(x)", "self.tape.nodes.append(x)", "node.tape = tape"):
        assert next(appends_to_a_tape(ast.parse(text)), None) is not None, text


# -- a trace -------------------------------------------------------------------------------

#: Who may know of a trace, besides the tracer and the room of the JIT, and why.
TRACERS = {
    "netcl_core/tape/apply.py": "it is the one place that asks",
    "netcl_core/tape/state.py": "it holds the thread's tracer",
    "netcl_core/tape/reverse.py": "a backward pass ends the trace",
    "netcl_core/tape/hooks.py": "a hook ends the trace",
    "netcl_core/tape/function_call.py": "a pair of functions by a primitive's name is that one",
    "plugins/netcl-plugin-autodiff/src/netcl_plugin_autodiff/function.py": (
        "its forward, run before the call, ends the trace"
    ),
    "netcl_core/tape/tracing.py": "the tracer",
    "plugins/netcl-plugin-capture/src/netcl_plugin_capture/capture.py": "it ends the trace",
    "netcl_core/tape/trace_node.py": "the tracer's symbols",
    "netcl_core/ops/composition.py": (
        "it finds a result's shape by a trace of its own, and tells a trace which nodes are one op"
    ),
    "netcl_core/autograd/__init__.py": "re-exports the names that the documents give",
    "netcl_core/autograd/compiler.py": "the same",
    "plugins/netcl-plugin-amp/src/netcl_plugin_amp/casting.py": (
        "casts a value once for all uses in a trace"
    ),
    "netcl_core/inspect/programs.py": "shows them to tools",
    "plugins/netcl-plugin-autodiff/src/netcl_plugin_autodiff/checkpoint.py": (
        "a trace keeps nothing anyway, and goes through it"
    ),
    "plugins/netcl-plugin-kit/src/netcl_plugin_kit/testing/policies.py": (
        "looks at the dtypes of a trace"
    ),
    "plugins/netcl-plugin-tools/src/netcl_plugin_tools/graph/graph.py": "draws traces",
    **{
        f"plugins/netcl-plugin-patterns/src/netcl_plugin_patterns/{name}.py": (
            "patterns are looked for in traces, and replace parts of them"
        )
        for name in ("matching", "pattern_nodes", "rewriting", "rows", "training")
    },
    **{
        f"{FUSION}{name}.py": "it takes down ops, and tells what of a trace is fused"
        for name in ("explanation", "neighbours", "part_tracer", "parts")
    },
    "plugins/netcl-plugin-tools/src/netcl_plugin_tools/graph/times.py": (
        "tells a program's steps from its inputs"
    ),
}
_OF_A_TRACE = re.compile(r"^(tracer|TracingContext|TraceNode|TraceBreak|is_tracing)$")


def asks_of_a_trace(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        names = [node.name] if isinstance(node, ast.alias) else [_last(node)]
        if any(_OF_A_TRACE.match(name) for name in names):
            yield node


def test_no_op_asks_whether_it_is_traced() -> None:
    found = {name for name in users(asks_of_a_trace) if not name.startswith("netcl_core/jit/")}
    assert found == set(TRACERS)


def test_the_search_finds_who_asks() -> None:
    for text in ("if thread.tracer is not None: f()", "from a.tracing import TraceNode"):
        assert next(asks_of_a_trace(ast.parse(text)), None) is not None, text


# -- one stream ----------------------------------------------------------------------------

#: Who may enqueue, and why.
ENQUEUING = {
    "netcl_core/runtime/opencl_stream.py": "the stream of a device",
    "plugins/netcl-plugin-capture/src/netcl_plugin_capture/opencl_replay.py": (
        "that stream's commands, prepared to be done again"
    ),
    "netcl_core/hardware/probing.py": "tries a device before it has one",
    "plugins/netcl-plugin-tensor/src/netcl_plugin_tensor/sharing.py": (
        "maps memory for an array that others hold as they like"
    ),
    "plugins/netcl-plugin-tools/src/netcl_plugin_tools/export/run.py": (
        "the program that `netcl export` copies, which runs without netcl"
    ),
    "plugins/netcl-plugin-kit/src/netcl_plugin_kit/testing/guards.py": (
        "marks what lies beside the buffers of a stream"
    ),
    "plugins/netcl-plugin-kit/src/netcl_plugin_kit/faults/simulated.py": (
        "the stream of a simulator, in which commands leave other traces"
    ),
}


def enqueues(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("enqueue_"):
            yield node


def test_streams_alone_enqueue() -> None:
    assert users(enqueues) == set(ENQUEUING)


# -- nothing is patched --------------------------------------------------------------------

#: Objects that hold what the program has set, as opposed to code.
STATES = {"thread", "process", "registry", "functions", "OPS", "ROWS", "FALLBACKS"}
#: Where a function of another module is replaced, and why.
PATCHES = {
    (
        "plugins/netcl-plugin-kit/src/netcl_plugin_kit/faults/simulated.py",
        "Operator.select",
    ): "in a process of its own, which tries each implementation",
    (
        "plugins/netcl-plugin-torch/src/netcl_plugin_torch/registration.py",
        "device.prepare",
    ): "loads the tables before the first tensor; the module is what PyTorch is given",
    **{
        (
            "plugins/netcl-plugin-amp/src/netcl_plugin_amp/master.py",
            f"setattr(Tensor, '{name}', _Attribute({default}))",
        ): "documented attributes of parameters, of which the core knows nothing"
        for name, default in (("_model_param", None), ("_frozen", False))
    },
}


def patches(tree: ast.AST) -> Iterator[str]:
    """Assignments to attributes of what was imported from netcl, but for states."""
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
        if "netcl_" in (getattr(node, "module", None) or alias.name)
    } - STATES
    for node in ast.walk(tree):
        for target in _targets(node):
            base = target
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if base is not target and isinstance(base, ast.Name) and base.id in imported:
                yield ast.unparse(target)
        if isinstance(node, ast.Call) and _last(node.func) in {"setattr", "delattr"}:
            holder = node.args[0]
            if isinstance(holder, ast.Name) and holder.id in imported:
                yield ast.unparse(node)


def test_no_module_replaces_functions_of_another() -> None:
    found = {(name, text) for name, tree in modules().items() for text in patches(tree)}
    assert found == set(PATCHES)


def test_the_search_finds_patches() -> None:
    for text in (
        "from netcl_core.tape import apply\napply.apply = mine",
        "import netcl_core.autograd as ag\nag.add = mine",
        "from netcl_core.ops.operators import Operator\nsetattr(Operator, 'select', mine)",
        "from netcl_plugin_nn import layers\ndel layers.Linear.forward",
    ):
        assert list(patches(ast.parse(text))), text
    assert not list(patches(ast.parse("from netcl_core.tape.state import thread\nthread.tape = 1")))


# -- parts are no ops ----------------------------------------------------------------------


def part_rows() -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.load()
    owners = [row for name in registry.op_names() for row in registry.op_rows(name)]
    names = {part.name for row in owners for part in getattr(row.record, "parts", ())}
    return [row for name in sorted(names) for row in registry.op_rows(name, parts=True)]


def test_parts_are_private() -> None:
    rows = part_rows()
    assert len(rows) > 10
    public = set(dir(ag))
    for row in rows:
        assert row.part_of, row.id
        assert row.record.name not in public
        assert not hasattr(ag, row.record.name)
        with pytest.raises(MissingOpError, match=f"exists for {row.part_of} alone"):
            getattr(ag, row.record.name)
        with pytest.raises(MissingOpError):
            nc.plugins.why(row.record.name)
        with pytest.raises(MissingOpError):
            sources_of(row.record.name)


def test_no_public_op_is_another_ones_gradient() -> None:
    assert [name for name in dir(ag) if re.search(r"_(backward|gradient)s?$", name)] == []


def test_no_manifest_and_no_page_lists_a_part() -> None:
    rows = part_rows()
    manifests = {
        canonical(row.provider): {name for each in nc.plugins.list()
                                  if each.distribution == row.provider and each.manifest
                                  for name in (item.name for item in each.manifest.provides)}
        for row in rows
    }  # fmt: skip
    listed = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "ops.md").read_text("utf-8"), re.M))
    for row in rows:
        assert row.record.name not in manifests[canonical(row.provider)]
        assert row.record.name not in listed


def test_each_op_of_a_plugin_is_used_by_its_owner_alone() -> None:
    """A part that several ops share is one record, entered once."""
    rows = part_rows()
    names = [row.record.name for row in rows]
    assert len(names) == len(set(names))
    assert all(isinstance(row.record, (Operator, AutogradPrimitive)) for row in rows)
