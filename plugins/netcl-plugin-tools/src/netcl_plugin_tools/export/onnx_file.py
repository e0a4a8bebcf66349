"""A traced function as an ONNX file: its ops by their counterparts, its weights as initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Tensor, nn, no_grad
from netcl_core import autograd as ag
from netcl_core.errors import FusionError, MissingExtraError, message
from netcl_core.inspect.programs import CONSTANT, RANDOM, traced
from netcl_core.inspect.recorded import RegionCall, describe_frame
from netcl_plugin_tools.export.onnx_elementwise import region
from netcl_plugin_tools.export.onnx_ops import OPS, RefusalError

_WHO: Final = "serving.export_onnx"
_OPSET: Final = 18


def export_onnx(function: Callable[..., Any], *examples: Any, path: str | Path) -> Path:
    """Write a function as an ONNX file, which other runtimes run.

        model.eval()
        serving.export_onnx(model, x, path="model.onnx")

    Elementwise ops are written by their expressions, so those of any plugin can go; of the others
    the table `onnx_ops.OPS` has those of usual networks. Inputs are called `input0`, `input1`,
    ..., outputs `output0`, ...; all shapes are those of the examples.

    Args:
        function: A Module or a function of tensors; it is traced, without gradients.
        examples: Its arguments, tensors or host data.
        path: The file; it needs the package onnx (`pip install 'netcl-plugin-tools[onnx]'`).

    Returns the path. Raises FusionError, with the line of the program, for an op without a
    counterpart, and where the function cannot be traced; MissingExtraError without onnx.
    """
    onnx = _library()
    inputs = [
        example if isinstance(example, Tensor) else ag.tensor(example) for example in examples
    ]
    with no_grad():
        program, _ = traced(ag.jit_compile(function), inputs, {})
    graph = OnnxGraph(onnx)
    names = function.state_dict() if isinstance(function, nn.Module) else {}
    known = {id(x.value): name for name, x in names.items()}
    for i, (number, x) in enumerate(zip(program.inputs, inputs, strict=True)):
        graph.values[number] = graph.argument(f"input{i}", x)
    for number, x in program.constants.items():
        graph.values[number] = graph.constant(x.numpy(), known.get(id(x.value), ""))
    for node in program.nodes:
        _add(graph, node)
    for i, number in enumerate(program.results):
        if number not in graph.values:
            given = f"result {i}, of {program.nodes[number].op_name}"
            raise FusionError(message(_WHO, given, "results that ONNX has"))
        graph.result(f"output{i}", program.nodes[number])
    model = graph.model(_OPSET)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))
    return Path(path)


def _library() -> Any:
    try:
        return import_module("onnx")
    except ImportError as error:
        remedy = "pip install 'netcl-plugin-tools[onnx]'"
        given = "the package onnx is not installed"
        raise MissingExtraError(message(_WHO, given, "that package", remedy)) from error


def _add(graph: OnnxGraph, node: Any) -> None:
    """A value of the trace, computed."""
    if node.number in graph.values or node.op_name in (CONSTANT, RANDOM):
        return  # who reads what has no value is refused
    if node.pick is not None:
        results = graph.several[node.inputs[0].number]
        if node.pick < len(results):
            graph.values[node.number] = results[node.pick]
        return
    inputs = [graph.values[x.number] for x in node.inputs if x.number in graph.values]
    try:
        if len(inputs) < len(node.inputs):
            raise RefusalError("random numbers, or a result that ONNX has not")
        if isinstance(node.call, RegionCall):
            graph.values[node.number] = region(graph, node, inputs)
            return
        writer = OPS.get(node.op_name)
        if writer is None:
            raise RefusalError("no counterpart in ONNX")
        outputs = writer(graph, node, inputs)
    except RefusalError as error:
        given = f"{node.op_name} at {describe_frame(node.frame)}: {error}"
        remedy = "Write the function without it, or use serving.export"
        raise FusionError(message(_WHO, given, "ops that ONNX has", remedy)) from None
    if isinstance(outputs, list):
        graph.several[node.number] = outputs
        outputs = outputs[0]
    graph.values[node.number] = outputs


@final
class OnnxGraph:
    """An ONNX graph while it is written.

    Attributes:
        values: ONNX' names of the trace's values, by number.
        several: Those of all results of an op that has several.
    """

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._weights: list[Any] = []
        self._known: dict[Any, str] = {}
        self.values: dict[int, str] = {}
        self.several: dict[int, list[str]] = {}

    def kind(self, dtype: Any) -> int:
        """ONNX' number of a dtype."""
        kept = DTYPES[dtype].numpy if isinstance(dtype, str) else np.dtype(dtype)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(kept))

    def argument(self, name: str, x: Any) -> str:
        """An input of the graph."""
        info = self._onnx.helper.make_tensor_value_info(name, self.kind(x.dtype), x.shape)
        self._inputs.append(info)
        return name

    def result(self, name: str, node: Any) -> None:
        """An output of the graph."""
        self.op("Identity", [self.values[node.number]], name=name)
        info = self._onnx.helper.make_tensor_value_info(name, self.kind(node.dtype), node.shape)
        self._outputs.append(info)

    def constant(self, value: Any, name: str = "") -> str:
        """An array that is part of the file; equal small ones are one."""
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        key = (array.tobytes(), array.shape, array.dtype) if array.size < 64 and not name else name
        if key not in self._known or not key:
            label = name or f"constant.{len(self._weights)}"
            self._weights.append(self._onnx.numpy_helper.from_array(array, label))
            self._known[key] = label
        return self._known[key]

    def op(self, kind: str, inputs: Sequence[str], name: str = "", **attrs: Any) -> str:
        """A node; gives the name of its (first) result."""
        label = name or f"v{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [label], **attrs))
        return label

    def ints(self, *numbers: int) -> str:
        """A list of numbers as an input: a shape, or axes."""
        return self.constant(np.array(numbers, np.int64))

    def cast(self, name: str, dtype: Any) -> str:
        """A conversion."""
        return self.op("Cast", [name], to=self.kind(dtype))

    def model(self, opset: int) -> Any:
        """All of it."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes, "netcl", self._inputs, self._outputs, initializer=self._weights
        )
        opsets: Sequence[Any] = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="netcl")
