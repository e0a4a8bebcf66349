"""The reverse pass: one loop over the calls behind some results, latest first.

Before it starts, the consumers of every value are counted. So it knows when a gradient is
complete: that of a call's results when the last call that read them has been passed, that of a
leaf likewise, and a caller can begin to use it while the rest is still being computed. Each
gradient is taken out of the sums when it is used, and is freed then.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from operator import attrgetter
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import ArgumentError, GradientError, MutationError, message
from netcl_core.runtime.recording import captures, note_gradient, on_replay
from netcl_core.tape import hooks
from netcl_core.tape.computations import accumulate, convert
from netcl_core.tape.gradients import PLAIN, Added, Arithmetic, Placed, refuse_unrecorded, whole
from netcl_core.tape.modes import anomaly_mode
from netcl_core.tape.node import Node, Target, next_number, origin, target_of, walked_before
from netcl_core.tape.state import reverse_pass, thread
from netcl_core.tape.tracing import apart
from netcl_core.tensors.tensor import Tensor

#: Held while a leaf's `grad` is read and replaced, so that threads with shared leaves lose nothing.
deposits: Final = threading.RLock()
#: What becomes of the gradient of a target.
Receive: TypeAlias = Callable[[Target, Tensor], Tensor]


@final
class _Place:
    """Where the gradients of a call's results, or of a leaf, are gathered during one pass.

    Attributes:
        owner: The node with the record of the call, or the leaf's Tensor.
        edges: The inputs that the call's gradients go on to: the input's number, its place, and
            which result it is there; none for a leaf.
        consumers: How many edges that end here have not been passed, and seeds not been given.
        sums: The gradients so far, one per result.
        own: The results whose sums were made here. They take further terms in place; what a call
            returned may be shared (with the upstream gradient, say) and is not written to.
    """

    __slots__ = ("consumers", "edges", "own", "owner", "sums")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.edges: list[tuple[int, _Place, int]] = []
        self.consumers = 1
        self.sums: list[Any] = [None]
        if type(owner) is Node and owner.call.results is not None:
            self.sums *= len(owner.call.results)
        self.own: tuple[int, ...] = ()


def _connect(places: dict[int, _Place], since: int) -> list[_Place]:
    """Find what lies between results and their leaves; returns the places of calls.

    `places` holds those of the results, by their owners' identity, and takes the others. What
    was made before the number `since` is a leaf here.
    """
    calls = [place for place in places.values() if type(place.owner) is Node]
    reached = [place for place in calls if place.owner.number >= since]
    for here in reached:  # which grows
        node = here.owner
        if not node.inputs:
            raise walked_before(f"backward through {node.op_name} of {node.made_at}")
        node.settle()
        for i, need in enumerate(node.needs):
            if not need:
                continue
            x = node.inputs[i]
            if type(x) is Node and x.call is not None:
                owner = x if x.source is None else x.source
                index = x.index
            elif x.requires_grad:
                owner, index = x.value, 0
            else:
                continue
            there = places.get(id(owner))
            if there is None:
                there = places[id(owner)] = _Place(owner)
                if type(owner) is Node and owner.number >= since:
                    reached.append(there)
            else:
                there.consumers += 1
            here.edges.append((i, there, index))
    return reached


def _keep_useful(nodes: Iterable[_Place], wanted: set[Target]) -> None:
    """Drop the edges behind which there is nothing that is wanted."""
    for here in sorted(nodes, key=attrgetter("owner.number")):  # inputs come first
        useful = []
        for edge in here.edges:
            _, there, index = edge
            if there.edges or (id(there.owner), index) in wanted:
                useful.append(edge)
            else:
                there.consumers -= 1
        here.edges = useful


@final
class _Walk:
    """One reverse pass."""

    __slots__ = ("_calls", "_ready", "_starts", "found", "frees", "leaves", "receive", "retain",
                 "sums", "taken", "wanted")  # fmt: skip

    def __init__(
        self,
        roots: Sequence[Any],
        wanted: set[Target] | None,
        retain: bool,
        receive: Receive | None,
        since: int,
        sums: Arithmetic,
        frees: bool,
    ) -> None:
        self.frees = frees
        self.wanted = wanted
        self.receive = receive
        self.retain = retain
        self.sums = sums
        self.taken: set[int] = set()  # buffers that somebody else holds
        self.found: dict[Target, Tensor] = {}
        self.leaves: list[tuple[Tensor, Any]] = []
        self._ready: list[tuple[int, _Place]] = []
        self._starts: list[tuple[_Place, int]] = []
        places: dict[int, _Place] = {}
        for root in roots:
            owner, index = origin(root)
            place = places.get(id(owner))
            if place is None:
                place = places[id(owner)] = _Place(owner)
            else:
                place.consumers += 1
            self._starts.append((place, index))
        self._calls = _connect(places, since)
        if wanted is not None:
            _keep_useful(self._calls, wanted)

    def run(self, roots: Sequence[Any], seeds: Sequence[Any]) -> None:
        """Pass the gradients of the results on, call by call, the latest first."""
        for root, seed, (place, index) in zip(roots, seeds, self._starts, strict=True):
            start = self.sums.seed(root, seed)
            if seed is None:
                thread.ones += (start,)
            self.taken.add(id(start.value.memory))
            self._add(place, index, start)
        self._calls, self._starts = [], []  # what has been passed is not held by the walk
        while self._ready:
            self._pass(heapq.heappop(self._ready)[1])

    def nodes(self) -> list[Node]:
        """The calls on the way, as the nodes with their records."""
        return [place.owner for place in self._calls]

    def _add(self, place: _Place, index: int, gradient: Any) -> None:
        """Add a gradient (None: there is none) that a seed or a consumer gives to a value."""
        if gradient is not None:
            held = place.sums[index]
            if type(gradient) is Added:
                place.sums[index] = gradient.value
                place.own += (index,)
            elif held is None:
                place.sums[index] = gradient
            else:
                place.sums[index] = self.sums.add(held, index in place.own, gradient)
                place.own += (index,)
        place.consumers -= 1
        if not place.consumers:
            self._complete(place)

    def _complete(self, place: _Place) -> None:
        """Note that all consumers of a value have been passed."""
        owner = place.owner
        if type(owner) is not Node:
            if place.sums[0] is not None:
                self.leaves.append((owner, self._final(owner, 0, whole(place.sums[0]))))
        elif place.edges:
            heapq.heappush(self._ready, (-owner.number, place))
        else:  # it may be wanted itself, and nothing behind it is
            self._take(place)

    def _take(self, place: _Place) -> list[Any]:
        """The gradients of a call's results; those that are wanted are kept."""
        grads, place.sums = place.sums, []
        for index, gradient in enumerate(grads):
            if type(gradient) is Placed:
                grads[index] = whole(gradient)
        if hooks.hook_rows or self.retain or self.wanted is not None:
            for index, gradient in enumerate(grads):
                if gradient is not None:
                    grads[index] = self._final(place.owner, index, gradient)
        return grads

    def _final(self, owner: Any, index: int, gradient: Any) -> Any:
        """A complete gradient, after hooks and all who want to have it."""
        target = id(owner), index
        if target in hooks.hook_rows:
            gradient = hooks.passed(owner, index, gradient)
            self.taken.add(id(gradient.value.memory))  # a hook may hold it
        if self.wanted is not None and target in self.wanted:
            gradient = whole(gradient)
            if self.receive is not None:
                given, gradient = gradient, self.receive(target, gradient)
                if self.sums.records:
                    refuse_unrecorded("a callback", [gradient], [given])
            self.found[target] = gradient
        if self.retain and type(owner) is Node:
            gradient = hooks.keep(owner, index, gradient)
            self.taken.add(id(gradient.value.memory))
        return gradient

    def _pass(self, place: _Place) -> None:
        """Compute the gradients of a call's inputs, and count the call off."""
        grads = self._take(place)
        node: Node = place.owner
        edges, place.edges = place.edges, []  # a place behind is held by nobody in front of it
        parts: Sequence[Any] | None = None
        if grads.count(None) < len(grads):
            needs = node.needs
            if self.wanted is not None:
                useful = {i for i, _, _ in edges}
                needs = tuple([i in useful for i in range(len(needs))])
            held = _held(edges, len(needs)) if node.call.adds and not self.sums.records else ()
            parts = _gradients(node, grads, needs, self.sums, held)
        if self.frees:
            node.release()
        for i, there, index in edges:
            self._add(there, index, parts and parts[i])


@apart
def run_backward(
    roots: Sequence[Any],
    seeds: Sequence[Any],
    retain: bool,
    targets: Sequence[Any] | None = None,
    receive: Receive | None = None,
    since: int = 0,
    sums: Arithmetic | None = None,
    frees: bool = False,
) -> list[Any]:
    """The backward pass.

    Args:
        roots: The results to start from.
        seeds: Their gradients; None: 1 for one element.
        retain: Whether results keep their gradients too.
        targets: Whose gradients are wanted. Then these are returned (None where there is none),
            no leaf is touched, and nothing behind the targets is computed.
        receive: Called with a target and its gradient, a Tensor, as soon as this is complete and
            while the rest is still to be computed; what it returns is the gradient from then on.
        since: The number of a node; no gradient goes beyond what was made before it.
        sums: What computes; one that records gives operands, for targets alone.
        frees: Whether each call that has been passed lets go of what it saved.
    """
    if thread.tracer is not None:
        thread.tracer.interrupt("backward", "a backward pass inside the function")
    for root in roots:
        _check_root(root)
    with reverse_pass(next_number()):
        wanted = [target_of(target) for target in targets or ()]
        among = None if targets is None else set(wanted)
        walk = _Walk(roots, among, retain, receive, since, sums or PLAIN, frees)
        _run(walk, roots, seeds, targets is None)
    return [walk.found.get(target) for target in wanted]


def _run(walk: _Walk, roots: Sequence[Any], seeds: Sequence[Any], deposit: bool) -> None:
    """Make a pass, in the state that gradients are computed in."""
    outer, thread.grad = thread.grad, walk.sums.records
    policy, thread.amp = thread.amp, None  # gradients have the dtypes of the forward pass
    ones, ending = thread.ones, thread.ending
    if deposit and ending is None:
        thread.ending = []
    try:
        watch = anomaly_mode()
        with watch.around(walk.nodes()) if watch else nullcontext():
            walk.run(roots, seeds)
        if deposit:
            for leaf, gradient in walk.leaves:
                _deposit(leaf, gradient, walk.taken)
        if ending is None:
            for function in thread.ending or ():
                function()
    finally:
        thread.grad, thread.amp, thread.ones, thread.ending = outer, policy, ones, ending


def grad_so_far(leaf: Tensor) -> Any:
    """The gradient of a leaf to which one that arrives is added. A capture begins without."""
    leaf.note_arrival()
    if captures:
        on_replay(leaf.note_arrival)
    if captures and note_gradient(leaf):
        leaf.grad = None
    return leaf.grad


def _deposit(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """Add to a leaf's `grad`; a buffer that somebody else holds as well is copied first."""
    with deposits:
        held = grad_so_far(leaf)
        if held is not None:
            leaf.grad = accumulate(held.value, gradient, in_place=False)
            return
        shared = gradient.geometry is not None or id(gradient.memory) in taken
        kept = gradient.duplicate() if shared else gradient
        leaf.grad = kept = convert(kept, leaf.dtype)
    taken.add(id(kept.memory))


def _check_root(root: Any) -> None:
    if not isinstance(root, Tensor):
        raise ArgumentError(message("backward", f"{type(root).__name__}", "a Node or a Tensor"))
    if not root.requires_grad:
        given = "no input of this value requires a gradient"
        if type(root) is Node and root.op_name is not None:
            given = f"no gradient flows through this {root.dtype} result of {root.op_name}"
        raise GradientError(
            message(
                "backward",
                given,
                "a value computed with grad mode on from a leaf with requires_grad=True",
                "Set requires_grad=True before the forward pass, and pass the Node that it made",
            )
        )


def _held(edges: Sequence[tuple[int, _Place, int]], count: int) -> Sequence[Any]:
    """Of each input the sum that its gradient can be added to, once; none: there is no such."""
    held: list[Any] = [None] * count
    seen: list[Any] = []
    for i, there, index in edges:
        total = there.sums[index]
        if type(total) is Tensor and not any(total is other for other in seen):
            held[i] = total
            seen.append(total)
    return held if seen and not anomaly_mode() else ()


def _gradients(
    node: Node,
    grads: Sequence[Any],
    needs: tuple[bool, ...],
    sums: Arithmetic,
    held: Sequence[Any],
) -> Sequence[Any]:
    """The gradients of a call's inputs, of what has not changed since."""
    for saved, version in node.versions:
        if saved.version != version:
            raise MutationError(
                message(
                    f"backward of {node.op_name}",
                    f"an input of shape {saved.shape} was changed in place after the forward "
                    f"pass of {node.made_at}",
                    "inputs as they were",
                    "Call backward before the change, or change a copy",
                )
            )
    values = sums.gradients(node, grads, needs, held)
    if watch := anomaly_mode():
        watch.check(node, grads, [None if part is None else whole(part) for part in values])
    return values
