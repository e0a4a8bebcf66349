"""Apply: the one place through which every op goes.

Whether a call is traced, runs, and is recorded is decided here and nowhere else. A call is
anything with the methods of `Call`: a region of elementwise steps, a structured op, one with its
neighbours in its kernel, or a pair of Python functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.gradients import no_second_derivative
from netcl_core.tape.node import Node, user_frame, user_stack
from netcl_core.tape.state import process, thread
from netcl_core.tape.tape import Tape, recorder
from netcl_core.tape.unread import Unread, let_go
from netcl_core.tensors.tensor import Tensor

_requires_grad: Final = attrgetter("requires_grad")
Needs: TypeAlias = tuple[bool, ...]
#: Through which results gradients flow, which inputs they read, and what large ones nobody reads.
Known: TypeAlias = tuple[Needs, tuple[int, ...], Unread | None]
#: Of each operand where its elements lie; None: in C order. Empty: all do.
Layouts: TypeAlias = tuple[Geometry | None, ...]
#: What copies an operand that is a view; `aliasing.py` says so.
_contiguous: Final[list[Callable[[Any], Any]]] = []


def pack_by(contiguous: Callable[[Any], Any]) -> None:
    """Let `contiguous(x)` give calls that read no strides an operand without them."""
    _contiguous[:] = [contiguous]


class Call(Protocol):
    """Something to do with operands, prepared for their shapes, dtypes and device.

    It holds nothing of a single use: what that needs later it returns from `run_keeping`.

    Attributes:
        name: The op's name, for readers.
        device: Where it runs.
        results: Shape and dtype of each result; None: not known before it runs.
        keeps: Whether its gradients want more than its operands, so that `run_keeping` is called.
        at_result: Whether its gradients read its result, and no input.
        view: Whether its result may lie in the memory of its first operand.
        packs: Whether it reads not all strides, so that `reading` is asked if operands are views.
        adds: Whether its gradients may be `Added` to what inputs have so far; `gradients` then
            takes these sums, or None for each input, as one more argument.
        known: What `apply` has learnt of it, by needs: flows, saves, and what of it is unread.
    """

    name: str
    device: Device
    results: tuple[Spec, ...] | None
    keeps: bool
    at_result: bool
    view: bool
    packs: bool
    adds: bool
    layouts: Layouts
    known: dict[Needs, Known]

    def reading(self, layouts: Layouts) -> Call:
        """The call for operands that lie so: itself, or one whose `layouts` are those it reads."""

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """The result for Tensors; a list of them if there are several."""

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        """The same, and what `gradients` finds in the node's `kept`."""

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs the gradients read: these must not change until then."""

    def unread(self, needs: Needs) -> Unread:
        """Whose elements no gradient reads, nor one of a gradient.

        The numbers of inputs, and those of results among what `run_keeping` has kept.
        """

    def gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        """The gradient of each input (or None) from those of the results (or None).

        `needs` says which are wanted. A gradient is a Tensor or a Spread of its input's shape,
        dtype and device; none may be written to, since others may hold it too. It runs with
        grad mode off.
        """

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        """The same, with grad mode on, by recorded calls on the node's inputs and on `grads`.

        All are operands: Nodes, and Tensors for what is constant. Raises GradientError, which
        names the op, where that cannot be done.
        """


class PlainCall:
    """The base of calls that keep nothing for their gradients, and take operands as they lie."""

    __slots__ = ()
    keeps = False
    at_result = False
    view = False
    packs = False
    adds = False
    run: Callable[..., Any]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, None]:
        """What `run` gives; the gradients want nothing else."""
        return self.run(inputs, scalars), None

    def unread(self, needs: Needs) -> Unread:
        """Nothing: it may read all inputs."""
        return (), ()


def apply(
    call: Any, operands: Sequence[Any], scalars: Sequence[Any] = (), attrs: Any = None
) -> Any:
    """Run a call and record it.

    Args:
        call: A `Call`.
        operands: Its inputs, Nodes and Tensors.
        scalars: Its Python numbers.
        attrs: The op's metadata, for tracers.

    Returns:
        A Node per result: alone, or in a list if the call has several. With grad mode off the
        Tensors themselves. In a trace the call is only noted.
    """
    state = thread
    if state.tracer is not None:
        noted = state.tracer.record(call, operands, scalars, attrs)
        if noted is not None:
            return noted
        if state.tracer is not None:  # it goes on behind this call
            with state.tracer.paused():
                return apply(call, operands, scalars, attrs)
    inputs = [x.value if type(x) is Node else x for x in operands]
    if call.packs:
        for value in inputs:
            if value.geometry is not None:
                call = call.reading(tuple([x.geometry for x in inputs]))
                operands = _packed(operands, call.layouts)
                inputs = [x.value for x in operands]
                break
    grad = state.grad
    if not (process.grad if grad is None else grad):
        return call.run(inputs, scalars)
    needs = tuple(map(_requires_grad, operands))
    flows, saves, unread = call.known.get(needs) or _learn(call, needs, inputs)
    tape = state.tape or recorder()
    kept = None
    if True not in flows or not tape.records:
        if state.differentiated is not None and True in needs:
            _refuse_constant(call, needs, state.differentiated)
        value = call.run(inputs, scalars)
        if type(value) is not list:
            constants: Any = Node(value, call.name)
        else:
            constants = [Node(result, call.name) for result in value]
        if call.view:
            _share(operands[0], constants)
        return constants
    if call.keeps:
        value, kept = call.run_keeping(inputs, scalars)
    else:
        value = call.run(inputs, scalars)
    given, of_graph = operands, False
    for x in operands:
        if type(x) is Node:
            x.used = True
        elif x.graph is not None:
            of_graph = True
    if of_graph:
        operands = [x if type(x) is Node or x.graph is None else x.graph for x in operands]
    anomaly = process.anomaly if state.anomaly is None else state.anomaly
    if unread is not None and tape.implicit and not anomaly:
        operands, kept = let_go(unread, operands, kept, call.name)
    several = type(value) is list
    first = flows.index(True) if several else 0
    node = Node(
        value[first] if several else value,
        call.name,
        call,
        operands,
        scalars,
        needs,
        kept,
        tuple([(inputs[i], inputs[i].version) for i in saves]) if saves else (),
        user_frame(),
        first,
    )
    if anomaly:
        node.creation_trace = user_stack()
    if tape.implicit:
        node.tape = tape
    else:
        tape.record(node)
    results = _others(node, value, flows, tape) if several else node
    if call.view:
        _share(given[0], results)
    return results


def _packed(operands: Sequence[Any], layouts: Layouts) -> list[Any]:
    """The operands, of which those are copied to C order that a call does not read as they lie."""
    read = layouts or (None,) * len(operands)
    return [x if layout else _contiguous[0](x) for x, layout in zip(operands, read, strict=True)]


def _share(base: Any, views: Any) -> None:
    """Let an operand and its views know of each other where they share memory."""
    for view in views if type(views) is list else (views,):
        value = view.value
        if value.is_alias and value.memory is base.memory:
            value.storage.join(base, view)


def _learn(call: Call, needs: Needs, inputs: Sequence[Tensor]) -> Known:
    """Through which results gradients flow, and what they read; found once per needs."""
    flows = call.flows(needs)
    learnt: Known = flows, (), None
    if True in flows:
        operands, results = call.unread(needs)
        large = _large(operands, inputs), _large(results, call.results or ())
        learnt = flows, call.saves(needs), large if any(large) else None
    call.known[needs] = learnt
    return learnt


def _large(numbers: Sequence[int], values: Sequence[Any]) -> tuple[int, ...]:
    """The numbers of those values that are worth it to let go of their elements."""
    sizes = [math.prod(x.shape) * DTYPES[x.dtype].itemsize for x in values]
    return tuple([i for i in numbers if i < len(sizes) and sizes[i] >= process.least])


def _refuse_constant(call: Call, needs: Needs, op: str) -> None:
    """Raise GradientError for a call without any gradient in one that is to be differentiated."""
    if True in call.flows((True,) * len(needs)):
        return  # it has one, not with respect to these inputs
    if call.results is None or any(DTYPES[spec.dtype].floating for spec in call.results):
        raise no_second_derivative(op, f"{call.name}, which its gradient uses, has no gradient")


def _others(node: Node, values: Sequence[Tensor], flows: Needs, tape: Tape) -> list[Node]:
    """The nodes of all results of a call whose record `node` holds."""
    nodes = []
    for i, value in enumerate(values):
        if i == node.index:
            nodes.append(node)
        elif flows[i]:
            other = Node(value, node.op_name, node.call, frame=node.frame, index=i, source=node)
            tape.record(other)
            nodes.append(other)
        else:
            nodes.append(Node(value, node.op_name))
    return nodes


def result_nodes(node: Node, values: Sequence[Tensor]) -> list[Any]:
    """All results of a recorded call as operands, made again where nobody has them any more.

    `node` holds the record. A result that is no floating number is a constant.
    """
    living = {result.index: result for result in node.results()}
    operands: list[Any] = []
    for i, value in enumerate(values):
        if i not in living and DTYPES[value.dtype].floating:
            living[i] = Node(value, node.op_name, node.call, frame=node.frame, index=i, source=node)
        operands.append(living.get(i, value))
    return operands


def common_device(who: str, operands: Sequence[Any]) -> Device | None:
    """The device of all operands that have one; raises DeviceError if they differ."""
    device: Device | None = None
    for operand in operands:
        if isinstance(operand, Tensor):
            own = operand.device
            if device is None:
                device = own
            elif own is not device:
                raise DeviceError(
                    message(
                        who,
                        f"operands on {device!r} and on {own!r}",
                        "all on one device",
                        f"Move one of them with .to('{device}')",
                    )
                )
    return device


def recorded_again(
    node: Node, value: Tensor, inputs: Sequence[Any], kept: Any, read: Sequence[Tensor],
    source: Node | None,
) -> Node:  # fmt: skip
    """The record of the same call of other tensors, which somebody has computed; on no tape.

    `read` are the tensors that its gradients read.
    """
    return Node(
        value, node.op_name, node.call, inputs, node.scalars, node.needs, kept,
        tuple([(x, x.version) for x in read]), node.frame, node.index, source,
    )  # fmt: skip
