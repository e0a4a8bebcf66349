"""CompiledGraph: what a device did in a block of code, captured once and replayed with other data.

`capture` is the same for a function. What runs at a replay is the list of the device's commands,
prepared; no Python of the block runs again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, final

from netcl_core import Device, Tensor, default_device, get_device
from netcl_core.autograd import as_operand
from netcl_core.errors import ReplayError, message
from netcl_core.inspect.captures import captures, refuse_in_capture
from netcl_core.inspect.recorded import thread
from netcl_core.inspect.streams import OpenCLStream, own_stream, stream_of
from netcl_plugin_capture.commands import Command, LaunchCommand, identity
from netcl_plugin_capture.graph_inputs import GraphInputs
from netcl_plugin_capture.graph_outputs import assigned, mapped, operands_in
from netcl_plugin_capture.opencl_replay import OpenCLReplay
from netcl_plugin_capture.overwriting import in_place
from netcl_plugin_capture.recording import Recording, recording

_EMPTY: Final = "nothing has been captured"


@final
class CompiledGraph:
    """What a device did in a `with` block, to be done again with other inputs.

    >>> w = nc.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> x = nc.tensor([1.0, 1.0, 1.0])
    >>> g = ag.CompiledGraph(params=[w])
    >>> with g:
    ...     loss = ag.sum(x * w)
    ...     loss.backward()
    >>> g.compile([x])
    >>> g.replay([[1.0, 0.0, 2.0]]).item(), w.grad.numpy()
    (7.0, array([1., 0., 2.], dtype=float32))

    The block runs as usual, once, and all that this thread asks of the device in it is taken
    down. `compile` names the tensors that will change; all else, Python's numbers too, stays as
    it was. A replay gives the gradients of one run of the block: the leaves' `grad` are the
    tensors that the capture left there, overwritten. Entering a graph again captures nothing:
    the block runs as usual, and finds the gradients of the last replay in the leaves.

    Args:
        params: Leaves whose gradients are dropped before the block. Others that get a gradient
            in it are treated alike.
        device: Where the block works; default: the device of the first of `params`, else the
            default device. Work for other devices is not taken down.

    Raises:
        ReplayError: by the block, where it reads values on the host (`.item()`, a branch on
            data); by `compile` and `replay`, for what does not fit.
    """

    def __init__(self, params: Iterable[Any] = (), device: str | Device | None = None) -> None:
        self._params: list[Tensor] = [param.value for param in params]
        if device is None:
            self.device = self._params[0].device if self._params else default_device()
        else:
            self.device = get_device(device)
        self._why = _EMPTY
        self._scope = ExitStack()
        self._recording: Recording | None = None
        self._begun: Recording | None = None
        self._before: dict[str, Any] = {}
        self._assigned: Any = None
        self._dropped: list[tuple[Tensor, Tensor | None]] = []
        self._leaves: list[tuple[Tensor, Any, Tensor | None]] = []
        self._compiled: Replays | None = None
        self._lock = threading.Lock()

    # -- the capture -------------------------------------------------------------------------

    def __enter__(self) -> CompiledGraph:
        if self._recording is not None:
            self._restore_gradients()
            return self
        if thread.tracer is not None:
            thread.tracer.interrupt("capture", "a capture inside the function")
        self._begun = self._scope.enter_context(recording(self.device, "CompiledGraph"))
        self._before = operands_in(sys._getframe(1))
        self._dropped = [(leaf, leaf.grad) for leaf in self._params]
        for leaf in self._params:
            leaf.grad = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        recorder, self._begun = self._begun, None
        if recorder is None:
            return
        self._scope.close()
        before, self._before = self._before, {}
        if kind is not None:
            for leaf, gradient in [*recorder.leaves.values(), *self._dropped]:
                leaf.grad = gradient
            self._why = f"the block raised {kind.__name__}"
            return
        leaves = {id(leaf): leaf for leaf, _ in [*self._dropped, *recorder.leaves.values()]}
        self._leaves = [(leaf, leaf.memory, leaf.grad) for leaf in leaves.values()]
        self._dropped, recorder.leaves = [], {}
        self._assigned = assigned(before, operands_in(sys._getframe(1)), recorder)
        self._recording = recorder

    def _captured(self) -> Recording:
        if self._recording is None:
            remedy = "Run the step once in `with graph:`, without an error"
            raise ReplayError(message("CompiledGraph", self._why, "a captured block", remedy))
        return self._recording

    # -- replays -----------------------------------------------------------------------------

    def compile(self, inputs: Sequence[Any], outputs: Any = None) -> None:
        """Name the tensors that will change, and prepare the replays.

        Args:
            inputs: Tensors that were there before the block, which read them. The graph gets
                copies of new ones; it never touches these.
            outputs: What `replay` returns: a tensor, or tuples, lists and dicts of them. Default:
                what the block assigned to variables, without what others of them have as parents
                in the graph of gradients.

        Raises ReplayError for an input that the block never read, and for one given twice.
        """
        self._compile(inputs, self._assigned if outputs is None else outputs)

    def _compile(self, inputs: Sequence[Any], outputs: Any) -> None:
        gradients = [gradient for _, _, gradient in self._leaves if gradient is not None]
        self._compiled = Replays(self._captured(), inputs, outputs, gradients)

    def replay(self, new_inputs: Sequence[Any]) -> Any:
        """Do all of it again with other inputs; does not wait for the device.

        Args:
            new_inputs: A tensor or host data for each input of `compile`, of its shape and dtype.

        Returns:
            The outputs, as `compile` names them. They are the same tensors each time, which the
            next replay overwrites.

        Raises ReplayError, before anything is done, for inputs that do not fit.
        """
        self._captured()
        compiled = self._compiled
        if compiled is None:
            remedy = "Call compile([...]) with the tensors that will change"
            raise ReplayError(message("replay", "a graph that is not compiled", "compile", remedy))
        if thread.tracer is not None:
            thread.tracer.interrupt("replay", "a replay inside the function")
        refuse_in_capture("replay", "a replay inside a capture", "Capture what it does instead")
        with self._lock:
            self._check_leaves()
            compiled.run(new_inputs)
            self._restore_gradients()
        return compiled.outputs

    def __call__(self, *new_inputs: Any) -> Any:
        """`replay(new_inputs)`."""
        return self.replay(new_inputs)

    @property
    def outputs(self) -> Any:
        """What the capture and later the last replay left in the outputs."""
        return None if self._compiled is None else self._compiled.outputs

    @property
    def launches(self) -> int:
        """How many kernels a replay launches."""
        commands = self._captured().commands
        return sum(1 for command in commands if isinstance(command, LaunchCommand))

    def _check_leaves(self) -> None:
        for leaf, memory, _ in self._leaves:
            if leaf.memory is not memory:
                given = f"a parameter of shape {leaf.shape} that has other memory than then"
                remedy = "Capture the step anew"
                raise ReplayError(message("replay", given, "parameters in their place", remedy))

    def _restore_gradients(self) -> None:
        for leaf, _, gradient in self._leaves:
            if leaf.grad is not gradient:
                leaf.grad = gradient


def is_free() -> bool:
    """Whether nobody traces, captures or differentiates what this thread does now."""
    return not captures and thread.tracer is None and thread.ending is None


def capture(
    step: Callable[..., Any],
    *examples: Any,
    params: Iterable[Any] = (),
    device: str | Device | None = None,
) -> CompiledGraph:
    """Run a function once, capture it, and give a graph: `graph(*others)` replays it.

    >>> graph = ag.capture(lambda x, y: x * y + 1.0, [1.0, 2.0], [3.0, 4.0])
    >>> graph([10.0, 20.0], [2.0, 2.0]).numpy()
    array([21., 41.], dtype=float32)

    Args:
        step: A function of tensors; what it does on the device is done again at each replay,
            with its gradients and an optimizer's step.
        examples: Its arguments, tensors or host data; all of them change at a replay.
        params: As of `CompiledGraph`.
        device: As of `CompiledGraph`; default: where the first tensor among the examples is.

    Returns:
        The graph, whose `outputs` are what this first run gave.

    Raises ReplayError where `step` cannot be captured, as `CompiledGraph` says.
    """
    params = list(params)
    if device is None:
        devices = [tensor.device for tensor in (*examples, *params) if isinstance(tensor, Tensor)]
        device = devices[0] if devices else None
    graph = CompiledGraph(params, device)
    inputs = [as_operand(example, graph.device) for example in examples]
    inputs = [x if x.geometry is None else x.duplicate() for x in inputs]
    with graph:
        result = step(*inputs)
    graph._compile(inputs, result)
    return graph


@final
class Replays:
    """A captured block with its inputs and outputs, ready to run.

    Attributes:
        inputs: What changes.
        commands: What a run does.
        changed: The tensors that a run changes.
        outputs: What it gives, the same tensors each time.

    Args:
        shown: What the user has besides the outputs; None: anything may be.
    """

    def __init__(
        self, captured: Recording, inputs: Sequence[Any], outputs: Any,
        shown: Sequence[Tensor] | None = None,
    ) -> None:  # fmt: skip
        device = self.device = captured.device
        used = {identity(buffer) for command in captured.commands for buffer in command.buffers}
        seen = {identity(x.memory) for x in shown or ()}
        mapped(outputs, lambda operand: seen.add(identity(operand.value.memory)))
        used |= seen
        commands = captured.commands
        if shown is not None:
            commands = in_place(commands, captured.births, seen)
        self.inputs = GraphInputs(device, inputs, used, captured.checks)
        self.commands = [self._moved(command) for command in commands]
        self._conditions = captured.conditions
        self.changed = list(captured.changed.values())
        self._shown: set[int] = set()
        self.outputs = mapped(outputs, self._output)
        self.inputs.settle(self.commands, self._shown)
        own = own_stream(device)
        self._prepared = OpenCLReplay(own, self.commands) if isinstance(own, OpenCLStream) else None

    def _moved(self, command: Command) -> Any:
        held: Any = command
        return replace(held, buffers=[self.inputs.of_graph(buffer) for buffer in command.buffers])

    def _output(self, operand: Tensor) -> Tensor:
        value = operand.value
        buffer = self.inputs.of_graph(value.memory)
        shape = value.shape if value.geometry is None else (value.storage.size,)
        output = Tensor(buffer, shape, value.dtype, value.device)
        if value.geometry is not None:
            output = output.viewed(value.geometry)
        self.changed.append(output)
        self._shown.add(identity(buffer))
        return output

    def run(self, new_inputs: Sequence[Any]) -> None:
        """Take the inputs and enqueue everything; raises for inputs that do not fit before."""
        self.enqueue(self.fitting(new_inputs))

    def fitting(self, new_inputs: Sequence[Any]) -> Sequence[Any]:
        """The inputs for `enqueue`; raises for what does not fit, and nothing has been done."""
        for condition in self._conditions:
            condition()
        return self.inputs.fitting(new_inputs)

    def bind(self, uses: Sequence[tuple[int, int]], buffer: Any) -> None:
        """Give commands, each at a position, another buffer."""
        for number, position in uses:
            self.commands[number].buffers[position] = buffer
        if self._prepared is not None:
            self._prepared.bind(uses, buffer)

    def enqueue(self, data: Sequence[Any]) -> None:
        """Enqueue everything, with what `fitting` gave."""
        stream = stream_of(self.device)
        for number, position, buffer in self.inputs.take(data, stream):
            self.bind([(number, position)], buffer)
        if self._prepared is not None and stream is own_stream(self.device):
            self._prepared.run()
        else:
            for command in self.commands:
                command.run(stream)
        for tensor in self.changed:
            tensor.mark_changed()
