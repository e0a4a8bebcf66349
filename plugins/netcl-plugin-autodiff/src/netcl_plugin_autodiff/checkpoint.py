"""Checkpoints: a function whose intermediate values are computed again instead of kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor
from netcl_core.autograd import Node
from netcl_core.errors import ArgumentError, GradientError, message
from netcl_core.inspect.recorded import (
    PlainCall,
    apply,
    casting_by,
    forward_again,
    given_again,
    gradients_of,
    next_number,
    noted,
    target_of,
    thread,
)

#: Of each input, or of each result, whether a gradient is wanted.
Needs: TypeAlias = tuple[bool, ...]
_WHO = "checkpoint"


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function, keep what it was given, and compute the rest again for the gradients.

    >>> x = ag.tensor([0.5], requires_grad=True)
    >>> y = autodiff.checkpoint(lambda x: ag.exp(ag.exp(ag.exp(x))), x)  # keeps x, no exp
    >>> y.op_name
    'checkpoint'
    >>> y.backward()
    >>> round(x.grad.item(), 1)
    1554.7

    A block of a deep network so needs the memory of its arguments, and one more forward pass.
    Parameters and other tensors that the function uses without getting them as arguments take
    part. Dropout draws the same numbers again; whatever else the function changes (statistics
    of a batch_norm, a counter) is changed twice, as in PyTorch.

    Args:
        function: Returns a tensor, or a tuple or list of them.
        args, kwargs: Its arguments. Tensors inside of containers count as used, not as given.

    Returns:
        What the function returns, recorded as one call. In a compiled function and with grad
        mode off the function is just called.

    Raises ArgumentError for a function that returns anything else; at backward GradientError if
    the second call uses other tensors than the first, MutationError if one was changed.
    """
    if thread.tracer is not None or not ag.is_grad_enabled():
        return function(*args, **kwargs)
    call = CheckpointCall(function, args, kwargs)
    outputs = apply(call, call.operands, (), None)
    return call.packed(outputs if isinstance(outputs, list) else [outputs])


class _CheckpointedRun(NamedTuple):
    """One call of the function: what it returned, was given, used besides, and when it began."""

    returned: Any
    results: list[Any]
    leaves: list[Any]
    used: list[Tensor]
    since: int


@final
class CheckpointCall(PlainCall):
    """One use of a function as a call: its inputs are arguments and tensors that it used."""

    name = _WHO

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._function = function
        self._args = [*args, *kwargs.values()]
        self._names = tuple(kwargs)
        self._places = [i for i, x in enumerate(self._args) if isinstance(x, Tensor)]
        self.known: dict[Needs, Any] = {}
        self._numbers: list[Any] = []
        self._amp = thread.amp
        given = [self._args[place] for place in self._places]
        with noted(self._numbers):
            run = self._computed([_leaf(x, x.requires_grad) for x in given])
        results = run.results
        self._type = type(run.returned)
        self.operands = [*given, *run.used]
        self._flows = tuple([x.requires_grad for x in results])
        self._values: list[Tensor] | None = [_own(x) for x in results]
        self.results = tuple([Spec(x.shape, x.dtype) for x in results])
        self.device = results[0].device

    def _computed(self, leaves: list[Any]) -> _CheckpointedRun:
        """The function called with others in the place of the arguments."""
        args = list(self._args)
        for place, leaf in zip(self._places, leaves, strict=True):
            args[place] = leaf
        count = len(args) - len(self._names)
        since = next_number()
        kwargs = dict(zip(self._names, args[count:], strict=True))
        amp = None if self._amp is None else self._amp.again()
        with casting_by(amp), forward_again(), ag.Tape():
            function = self._function(*args[:count], **kwargs)
        results = list(function) if isinstance(function, (tuple, list)) else [function]
        if not results or not all(isinstance(x, Tensor) for x in results):
            given = f"a function that returned {type(function).__name__}"
            raise ArgumentError(message(_WHO, given, "a tensor, or a tuple or list of tensors"))
        own = {target_of(leaf) for leaf in leaves}
        used = [x for x in _outside(results, since) if target_of(x) not in own]
        return _CheckpointedRun(function, results, leaves, used, since)

    def packed(self, results: Sequence[Any]) -> Any:
        """Results as the function returned them: alone, in a list or a (named) tuple."""
        if not issubclass(self._type, (tuple, list)):
            return results[0]
        make = getattr(self._type, "_make", self._type)
        return make(results)

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """What was computed when the call was made, handed out once."""
        values, self._values = self._values, None
        assert values is not None  # a call is for one use
        return values if len(values) > 1 else values[0]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        """The same."""
        return self.run(inputs, scalars), None

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        return self._flows

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """All inputs: the function reads them again."""
        return tuple(range(len(self.operands)))

    def gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        """The gradients of arguments and used tensors, of the function computed again."""
        return self._recomputed(node, grads, needs, record=False)

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        """The same, recorded on the arguments and used tensors."""
        return self._recomputed(node, grads, needs, record=True)

    def _recomputed(
        self, node: Node, grads: Sequence[Any], needs: Needs, record: bool
    ) -> Sequence[Any]:
        count, stand_in = len(self._places), _branch if record else _leaf
        with given_again(self._numbers):
            args = zip(node.inputs[:count], needs[:count], strict=True)
            run = self._computed([stand_in(x, need or x.requires_grad) for x, need in args])
        used = node.inputs[count:]
        if {target_of(x) for x in run.used} != {target_of(x) for x in used}:
            given = "a function that used other tensors the second time"
            raise GradientError(message(f"backward of {_WHO}", given, "the same tensors"))
        sources = [*run.leaves, *used]
        return gradients_of(run.results, grads, sources, needs, record, run.since)


def _own(result: Any) -> Tensor:
    """A result's Tensor; if it is a leaf that was handed through, another one."""
    value: Tensor = result.value
    return value.detach() if value.requires_grad else value


def _leaf(x: Any, need: bool) -> Any:
    """The value as a leaf of its own."""
    return x.detach().requires_grad_(need)


def _branch(x: Any, need: bool) -> Any:
    """The operand, as the result of a call if its gradient is wanted.

    Then the gradient is partial: it leaves out that one operand may come from another.
    """
    if not need:
        return x
    same: Any = ag.apply_op(lambda x: x, lambda gradient: [gradient], x, op_name="same", saves=())
    return same


def _outside(results: Sequence[Any], first: int) -> Iterator[Tensor]:
    """What flows into results from before a number: leaves, and results of earlier calls."""
    seen: set[Any] = set()
    front = list(results)
    while front:
        x = front.pop()
        if not x.requires_grad or target_of(x) in seen:
            continue
        seen.add(target_of(x))
        if type(x) is Node and x.call is not None:
            holder = x if x.source is None else x.source
            if holder.number >= first:
                front += [y for y, need in zip(holder.inputs, holder.needs, strict=True) if need]
                continue
        yield x
