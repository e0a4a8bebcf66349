"""The one call of netcl's behind a function of tensors: found once, then run without the function.

What a function makes of its arguments (operands bound, an implementation chosen, a kernel planned)
is the same for the same shapes and settings. A function that is more than one call runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.inspect.recorded import OperatorCall, RegionCall, plan_gradients, thread, whole
from netcl_core.plugins.protocol import registry


@final
class KnownCall:
    """A call, and which of a function's tensors are its operands.

    Attributes:
        call: The call.
        places: For each operand of the call which tensor it is.
        several: Whether the function gives all results of the call, in a tuple.
    """

    __slots__ = (
        "_chosen", "_device", "_gradients", "_scalars", "_version", "call", "places", "several",
    )  # fmt: skip

    def __init__(self, call: Any, places: Sequence[int], scalars: Any, several: bool) -> None:
        self.call, self.places, self._scalars, self.several = call, places, scalars, several
        self._device, self._chosen, self._version = call.device, thread.chosen, registry.version
        self._gradients = KeyedCalls()

    def serves(self, raws: Sequence[Any]) -> bool:
        """Whether the function would make this call now, of tensors like those then."""
        return (
            raws[0].device is self._device
            and registry.version == self._version
            and thread.chosen == self._chosen
            and thread.amp is None
        )

    def run(self, raws: Sequence[Any]) -> Any:
        """What the function gives."""
        result = self.call.run([raws[i] for i in self.places], self._scalars)
        return result[0] if type(result) is list and not self.several else result

    def run_keeping(self, raws: Sequence[Any]) -> tuple[Any, Any]:
        """All results of the call, and what `gradients` wants to have of it."""
        return self.call.run_keeping([raws[i] for i in self.places], self._scalars)  # type: ignore[no-any-return]

    def kept(self, raws: Sequence[Any]) -> Any:
        """What `gradients` wants to have, computed anew."""
        return None if type(self.call) is RegionCall else self.run_keeping(raws)[1]

    def gradients(
        self, raws: Sequence[Any], kept: Any, grad: Any, wanted: Sequence[bool]
    ) -> list[Any]:
        """Of each tensor the gradient, from that of the first result; None where there is none."""
        inputs = [raws[i] for i in self.places]
        needs = tuple([i < len(wanted) and wanted[i] for i in self.places])
        gradients: list[Any] = [None] * len(raws)
        if True not in needs:
            return gradients
        before, thread.grad = thread.grad, False
        try:
            for i, part in zip(self.places, self._parts(inputs, kept, grad, needs), strict=True):
                if part is not None:
                    part = whole(part)
                    known = gradients[i]
                    gradients[i] = part if known is None else ag.add(known, part)
        finally:
            thread.grad = before
        return gradients

    def _parts(self, inputs: Sequence[Any], kept: Any, grad: Any, needs: Any) -> Sequence[Any]:
        """The gradients of the operands; by the one call that they are, if it is known."""
        call = self.call
        if type(call) is RegionCall:
            return plan_gradients(call.plan, inputs, self._scalars, needs, [grad])
        operands = [*inputs, *kept, grad]
        key = needs, spec_of(grad)
        known = self._gradients.known(key, operands) if None not in kept else None
        if known is not None:
            results = known.run(operands)
            parts = iter(results if known.several else [results])
            return [next(parts) if need else None for need in needs]
        grads = [grad] + [None] * (len(call.results) - 1)
        if None not in kept and self._gradients.notes(key):
            output, leaves = recorded(partial(self._differentiated, needs), operands)
            self._gradients.note(key, output, leaves)
        return call.gradients_from(inputs, kept, grads, needs)  # type: ignore[no-any-return]

    def _differentiated(self, needs: Any, *operands: Any) -> Any:
        """The gradients that are wanted as a function; None: one is not there, or no tensor."""
        call, count = self.call, len(self.places)
        inputs, kept, grad = operands[:count], operands[count:-1], operands[-1]
        results = len(call.results)
        wanted = [bool(need) for need in call.operands(needs)]
        saved = ag.Saved(call.name, tuple(call.operands(inputs)), kept[:results], call.attrs,
                         tuple(wanted), kept[results:])  # fmt: skip
        parts = call.rule()(saved, grad, *[None] * (results - 1))
        chosen = [part for part, want in zip(parts, wanted, strict=True) if want]
        shapes = [(x.shape, x.dtype) for x, need in zip(inputs, needs, strict=True) if need]
        if [(getattr(x, "shape", None), getattr(x, "dtype", None)) for x in chosen] != shapes:
            return None
        return tuple(chosen) if len(chosen) > 1 else chosen[0]


def spec_of(raw: Any) -> Any:
    """What a call depends on of an operand."""
    return None if raw is None else (raw.shape, raw.dtype, raw.geometry)


def recorded(
    function: Callable[..., Any], raws: Sequence[Any], wanted: Sequence[bool] | None = None
) -> tuple[Any, list[Any]]:
    """`function(*raws)` with netcl's record of it, and the leaves of that record.

    `wanted` says which tensors are to have gradients; None: all of floating numbers.
    """
    leaves = [None if x is None else x.detach() for x in raws]
    for i, leaf in enumerate(leaves):
        if leaf is None or not DTYPES[leaf.dtype].floating:
            continue
        if wanted is None or (i < len(wanted) and wanted[i]):
            leaf.requires_grad_()
    with ag.enable_grad(), ag.Tape():  # which lets go of nothing
        return function(*leaves), leaves


def found(output: Any, leaves: Sequence[Any]) -> KnownCall | None:
    """The call of a record, if the function is nothing else."""
    several = isinstance(output, (tuple, list))
    if several and any(x is None for x in output):
        return None
    node = output[0] if several else output
    call: Any = getattr(node, "call", None)
    if type(call) not in (OperatorCall, RegionCall) or call.view or node.index:
        return None
    values = [node.value] if type(call) is RegionCall else node.kept[: len(call.results)]
    given = [x.value for x in output] if several else [node.value]
    if len(call.results) != len(values) or [*map(id, given)] != [*map(id, values)][: len(given)]:
        return None
    if several and len(given) != len(values):
        return None
    places = {id(leaf): i for i, leaf in enumerate(leaves) if leaf is not None}
    if not node.inputs or not all(id(x) in places for x in node.inputs):
        return None
    return KnownCall(call, [places[id(x)] for x in node.inputs], node.scalars, several)


@final
class KeyedCalls(dict[Any, Any]):
    """Calls by their keys. A key that was met once has `_MET`, one without a call `_NONE`."""

    def known(self, key: Any, raws: Sequence[Any]) -> KnownCall | None:
        """The call under a key; None: there is none, or it serves no longer."""
        known = self.get(key)
        return known if known and known.serves(raws) else None

    def notes(self, key: Any) -> bool:
        """Whether the call of a key is to be found now: not the first time, since a number in it
        may be another one each time, nor where it was seen that there is none.
        """
        before = self.get(key)
        if before is None:
            if len(self) >= _MOST:
                self.clear()
            self[key] = _MET
        return before is not None and before is not _NONE

    def note(self, key: Any, output: Any, leaves: Sequence[Any]) -> None:
        """Keep what `recorded` gave of a function under a key."""
        self[key] = found(output, leaves) or _NONE


#: So many keys are kept at a time.
_MOST: Final = 512
_MET: Final = ""
_NONE: Final = ()


def by_call(key: Any, function: Callable[..., Any], *raws: Any) -> Any:
    """`function(*raws)` without a record; from its third time on by the call that it is.

    Args:
        key: All that the function depends on, besides its operands.
        function: One without other effects, whose way no element of an operand decides.
    """
    if any(type(x) is ag.Node for x in raws):  # what a compiler gives while it traces
        return function(*raws)
    key = key, *map(spec_of, raws)
    known = _CALLS.known(key, raws)
    if known is not None:
        return known.run(raws)
    with ag.no_grad():
        result = function(*raws)
    if _CALLS.notes(key):
        _CALLS.note(key, *recorded(function, raws))
    return result


_CALLS: Final = KeyedCalls()
