"""`torch.compile(model, backend="netcl")`: PyTorch's graphs as netcl's compiled regions.

AOTAutograd gives a graph of the forward and one of the backward pass, in core ATen ops that write
nothing. What of a graph has rows is cut into parts as large as can be; each is one function of
netcl tensors, which `jit_compile` fuses. The ops between run as they do without a compiler.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import torch
from torch._C._dynamo.eval_frame import set_code_exec_strategy
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.types import FrameAction, FrameExecStrategy
from torch._dynamo.variables.builder import VariableBuilder
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import NetclError, ReplayError
from netcl_plugin_torch.attention import attention
from netcl_plugin_torch.dispatch import Unfit, decompositions, name_of_op
from netcl_plugin_torch.graph_rows import row_of
from netcl_plugin_torch.layers import recording
from netcl_plugin_torch.registration import loading
from netcl_plugin_torch.replaying import Replaying
from netcl_plugin_torch.tensor import NAMES, NetclTensor, to_device, wrap, write

aten = torch.ops.aten
#: Norms: on netcl fused kernels that keep a record for their gradients, elsewhere made of others.
_NORMS: Final = (
    aten.native_layer_norm, aten.native_layer_norm_backward, aten.native_group_norm,
    aten.native_group_norm_backward, aten.native_batch_norm, aten.native_batch_norm_backward,
    aten._native_batch_norm_legit, aten._native_batch_norm_legit_functional,
)  # fmt: skip
_TAKEN_APART: Final = (
    aten.native_dropout, aten.native_dropout_backward, aten.nll_loss_forward,
    aten.nll_loss_backward, aten.addmv,
)  # fmt: skip
#: Ops that PyTorch would make of others, for which netcl has one.
_KEPT: Final = (aten.embedding_dense_backward,)
#: Ops whose result depends on no tensor.
_CONSTANTS: Final = ("full", "arange.start_step", "scalar_tensor", "arange", "arange.start")
#: Ops that copy without computing.
_COPIES: Final = ("clone", "_to_copy", "lift_fresh_copy")


def _decompositions(device: str) -> dict[Any, Any]:
    """What a graph for a device is not to have, with what to make of it."""
    table = {**core_aten_decompositions(), **get_decompositions(list(_TAKEN_APART))}
    if device != "netcl":
        return {**table, **get_decompositions(list(_NORMS))}
    kept = {*_NORMS, *_KEPT}
    return {func: way for func, way in table.items() if func.overloadpacket not in kept}


def _introduce() -> None:
    """Let Dynamo take tensors on netcl for tensors, and pass over what computes them."""
    for numpy in (True, False):
        VariableBuilder._type_dispatch_impl(numpy)[NetclTensor] = VariableBuilder.wrap_tensor
    skip = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
    dispatch = NetclTensor.__dict__["__torch_dispatch__"].__func__
    for entry in (dispatch, NetclTensor.__repr__, attention, loading("empty_strided")):
        set_code_exec_strategy(entry.__code__, skip)


# -- a part of a graph -----------------------------------------------------------------------


class GraphPart(torch.nn.Module):
    """Ops that run as one compiled function of netcl tensors.

    Attributes:
        graph: The ops, for the case that netcl refuses one.
        function: What computes them.
    """

    def __init__(self, graph: GraphModule) -> None:
        super().__init__()
        self.graph = graph
        self.function = ag.jit_compile(_function(graph))
        self.function.quiet = True
        (output,) = [node for node in graph.graph.nodes if node.op == "output"]
        outputs = output.args[0]
        self._several = isinstance(outputs, (tuple, list))
        self._copied = [_is_copy(node) for node in (outputs if self._several else [outputs])]
        self._refused = False
        self._replaying = Replaying(self._computed)

    def forward(self, *args: Any) -> Any:
        if self._refused:
            return self.graph(*args)
        host = not any(type(x) is NetclTensor for x in args)
        try:
            if host:
                given = [wrap(_raw(x)) if isinstance(x, torch.Tensor) else x for x in args]
                results = [_host(x.raw) for x in self._replaying(*given)]
                _wait()
            else:  # part of a graph that is a replay itself
                results = self._computed(*args)
        except ReplayError:  # of a capture, which goes on elsewhere
            raise
        except (NetclError, Unfit):
            self._refused = True
            return self.graph(*args)
        return tuple(results) if self._several else results[0]

    def _computed(self, *args: Any) -> list[Any]:
        """The results on the device of tensors there."""
        given = [_raw(x) for x in args]
        with ag.no_grad():
            outputs = self.function(*given)
        computed: list[Any] = []
        for x, copied in zip(outputs, self._copied, strict=True):
            raw = x.value
            if copied and (raw.is_alias or any(raw is other for other in (*given, *computed))):
                raw = raw.duplicate()
            computed.append(raw)
        return [wrap(raw) for raw in computed]


def _wait() -> None:
    """Wait for the device: PyTorch's CPU may write to the memory that kernels read."""
    queue = nc.default_device().queue
    if queue is not None:
        queue.finish()


def _raw(x: Any) -> Any:
    if type(x) is NetclTensor:
        return x.raw
    if not isinstance(x, torch.Tensor):
        return x
    if x.dtype == torch.bfloat16 or not x.is_contiguous() or not x.numel():
        return to_device(x).raw
    return nc.from_buffer(x.detach().numpy())


def _host(raw: Any) -> torch.Tensor:
    """A tensor of PyTorch's CPU on the memory of netcl's, where they share it."""
    if raw.is_alias or raw.geometry is not None or not raw.size:
        raw = raw.duplicate()
    tensor: torch.Tensor = torch.from_dlpack(raw)
    return tensor if tensor.device.type == "cpu" else tensor.cpu()


def _is_copy(node: Node) -> bool:
    """Whether a result is to have memory of its own: it comes from a copy, and of views of one."""
    while isinstance(node, Node) and node.op == "call_function":
        if node.target is not operator.getitem and name_of_op(node.target) in _COPIES:
            return True
        if node.target is not operator.getitem and not node.target.is_view:
            return False
        node = node.args[0]  # type: ignore[assignment]
    return False


def _function(graph: GraphModule) -> Callable[..., Any]:
    """A function of netcl tensors that does what a graph does."""
    nodes = list(graph.graph.nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    steps = [(node, _step(node)) for node in nodes if node.op == "call_function"]
    result = nodes[-1].args[0]
    results = list(result) if isinstance(result, (tuple, list)) else [result]

    def run(*args: Any) -> Any:
        values = dict(zip(places, args, strict=True))
        for node, step in steps:
            given = map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = step(*given[0], **given[1])
        return tuple([values[node] for node in results])

    return run


def _step(node: Node) -> Callable[..., Any]:
    """An op by its row, with results of the dtypes that PyTorch says."""
    if node.target is operator.getitem:
        return operator.getitem
    function: Any = row_of(node.target)
    expected = _dtypes(node.meta["val"])

    def step(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if isinstance(expected, str):
            return result if result.dtype == expected else result.astype(expected)
        return [x if x is None or x.dtype == dtype else x.astype(dtype)
                for x, dtype in zip(result, expected, strict=True)]  # fmt: skip

    return step


def _dtypes(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [None if x is None else NAMES[x.dtype] for x in value]
    return NAMES[value.dtype]


# -- a graph ------------------------------------------------------------------------------------


class _Fit(OperatorSupportBase):
    """Whether an op can be of a part: it has a row, and all of it is on one device."""

    def __init__(self, device: str) -> None:
        self._device = device

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target is operator.getitem:
            source = node.args[0]
            return isinstance(source, Node) and self.is_node_supported(submodules, source)
        if not isinstance(node.target, torch._ops.OpOverload) or row_of(node.target) is None:
            return False
        values = [node.meta.get("val"), *[x.meta.get("val") for x in node.all_input_nodes]]
        tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
        return len(node.all_input_nodes) > 0 and all(
            x.device.type == self._device and x.dtype in NAMES for x in tensors
        )


class _Once:
    """An op whose result is always the same, and is computed once."""

    def __init__(self, func: Any) -> None:
        self._func = func
        self.__name__ = name_of_op(func).replace(".", "_")
        self._made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is None:
            self._made = self._func(*args, **kwargs)
        return self._made


def _settle_constants(graph: GraphModule) -> None:
    """Numbers in the place of tensors of one number; other constants are computed once."""
    (output,) = [node for node in graph.graph.nodes if node.op == "output"]
    for node in list(graph.graph.nodes):
        if node.op != "call_function" or node.all_input_nodes:
            continue
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if name_of_op(node.target) not in _CONSTANTS:
            continue
        number = node.args[-1]
        if not node.meta["val"].dim() and isinstance(number, (int, float)):
            for user in list(node.users):
                if user.target is aten.where.self and sum(x is node for x in user.args) == 1:
                    others = [x for x in user.args[1:] if x is not node]
                    if isinstance(others[0], Node):
                        user.args = tuple([number if x is node else x for x in user.args])
        if not node.users:
            graph.graph.erase_node(node)
        elif output not in node.users:
            node.target = _Once(node.target)


def _writes_at_the_end(graph: GraphModule) -> tuple[int, list[int]]:
    """Let a graph give what it would write to its inputs.

    Returns how many results it has without these, and which inputs are to have them.
    """
    nodes = list(graph.graph.nodes)
    places = [node for node in nodes if node.op == "placeholder"]
    results, written = list(nodes[-1].args[0]), []
    count = len(results)
    for node in nodes:
        if node.op == "call_function" and node.target is aten.copy_.default:
            target, value = node.args[:2]
            results = [value if x is node else x for x in results]
            results.append(value)
            written.append(places.index(target))
            graph.graph.erase_node(node)
    nodes[-1].args = (tuple(results),)
    graph.recompile()
    return count, written


def compiled(graph: GraphModule, inputs: Sequence[Any], *, records: bool = False) -> Any:
    """What runs a graph; with `records` the norms keep some for their gradients."""
    kinds = {x.device.type for x in inputs if isinstance(x, torch.Tensor)}
    device = "netcl" if "netcl" in kinds else "cpu"
    _settle_constants(graph)
    count, written = _writes_at_the_end(graph)
    partitioner = CapabilityBasedPartitioner(graph, _Fit(device), allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    for name, child in list(fused.named_children()):
        if name.startswith("fused_"):
            setattr(fused, name, GraphPart(child))
    run: Any = Replaying(fused.forward) if device == "netcl" else fused.forward

    def boxed(args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        with recording(records):
            outputs = run(*given)
        for i, place in enumerate(written, start=count):
            take(given[place], outputs[i])
        return outputs[:count]

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed


def take(target: Any, value: Any) -> Any:
    """The end of an op that writes: the new elements take the place of the old."""
    if type(target) is NetclTensor and type(value) is NetclTensor and target.shape == value.shape:
        write(target, value.raw)
        return target
    return target.copy_(value)


def netcl(graph: GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """The backend that `torch.compile(..., backend="netcl")` finds."""
    tensors = [*inputs, *graph.parameters(), *graph.buffers()]
    kinds = {x.device.type for x in tensors if isinstance(x, torch.Tensor)}
    return _backend("netcl" if "netcl" in kinds else "cpu")(graph, inputs, **options)


@cache
def _backend(device: str) -> Any:
    decompositions()
    return aot_autograd(
        fw_compiler=partial(compiled, records=True), bw_compiler=compiled,
        inference_compiler=compiled, decompositions=_decompositions(device),
        keep_inference_input_mutations=True,
    )  # fmt: skip


_introduce()
