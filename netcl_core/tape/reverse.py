"""The reverse pass: one loop over the calls behind some results, latest first.

Before it starts, the consumers of every value are counted. So it knows when a gradient is
complete: that of a call's results when the last call that read them has been passed, that of a
leaf likewise, and a caller can begin to use it while the rest is still being computed. Each
gradient is taken out of the sums when it is used, and is freed then.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import ArgumentError, GradientError, MutationError, ShapeError, message
from netcl_core.tape import anomaly
from netcl_core.tape.gradients import accumulate, add, convert, duplicate, move, whole
from netcl_core.tape.modes import anomaly_mode, no_grad
from netcl_core.tape.node import Node
from netcl_core.tape.state import thread
from netcl_core.tensors.host_data import host_array
from netcl_core.tensors.tensor import Operand, Tensor

#: Held while a leaf's `grad` is read and replaced, so that threads with shared leaves lose nothing.
_deposits: Final = threading.RLock()
#: What a gradient belongs to: the identity of a leaf's Tensor or of the node with the record of a
#: call, and the index of the result.
Place: TypeAlias = tuple[int, int]
#: From a call to an input: its number, its owner, and where its gradient is gathered.
Edge: TypeAlias = tuple[int, Any, Place]
_UNRECORDED: Final = no_grad()


def _owner(operand: Any) -> Any:
    """The node with the record of the call that made an operand; of a leaf its Tensor."""
    if type(operand) is Node:
        if operand.call is None:
            return operand.value
        return operand if operand.source is None else operand.source
    return operand


def place_of(operand: Any) -> Place:
    """Where the gradient of an operand is gathered."""
    made = type(operand) is Node and operand.call is not None
    return id(_owner(operand)), operand.index if made else 0


@final
class Graph:
    """What lies between some results and their leaves, or between them and what is wanted.

    Attributes:
        edges: By the identity of each node that holds the record of a call, the inputs that its
            gradients go on to.
        counts: How many of these edges end at a value, by the identity of the value's owner.
    """

    def __init__(self, roots: Iterable[Any], wanted: set[Place] | None) -> None:
        self.edges: dict[int, list[Edge]] = {}
        nodes = self._reachable(roots)
        if wanted is not None:
            self._keep_useful(nodes, wanted)
        self.counts: dict[int, int] = {}
        counts = self.counts
        for edges in self.edges.values():
            for _, _, (owner, _) in edges:
                counts[owner] = counts.get(owner, 0) + 1

    def _reachable(self, roots: Iterable[Any]) -> list[Node]:
        """The nodes behind some results; their edges are noted."""
        nodes = []
        edges_of = self.edges
        stack = [owner for owner in map(_owner, roots) if type(owner) is Node]
        while stack:
            node = stack.pop()
            if id(node) in edges_of:
                continue
            nodes.append(node)
            edges = edges_of[id(node)] = []
            for i, (x, need) in enumerate(zip(node.inputs, node.needs, strict=True)):
                if not need:
                    continue
                if type(x) is Node and x.call is not None:
                    owner = x if x.source is None else x.source
                    edges.append((i, owner, (id(owner), x.index)))
                    stack.append(owner)
                elif x.requires_grad:
                    owner = x.value
                    edges.append((i, owner, (id(owner), 0)))
        return nodes

    def _keep_useful(self, nodes: Iterable[Node], wanted: set[Place]) -> None:
        """Drop the edges behind which there is nothing that is wanted, and nodes without any."""
        for node in sorted(nodes, key=attrgetter("number")):  # inputs come first
            edges = [
                (i, owner, place)
                for i, owner, place in self.edges[id(node)]
                if place in wanted or (id(owner) in self.edges and type(owner) is Node)
            ]
            self.edges[id(node)] = edges
            if not edges:
                del self.edges[id(node)]


@final
class _Walk:
    """One reverse pass over a graph."""

    def __init__(
        self, graph: Graph, wanted: set[Place] | None, retain: bool, taken: set[int]
    ) -> None:
        self.graph = graph
        self.wanted = wanted
        self.retain = retain
        self.taken = taken  # buffers that somebody else holds
        self.found: dict[Place, Tensor] = {}
        self.leaves: list[tuple[Tensor, Any]] = []
        self._counts = graph.counts
        self._sums: dict[Place, tuple[Any, bool]] = {}
        self._ready: list[tuple[int, Node]] = []

    def start(self, root: Any, seed: Tensor) -> None:
        self._add(place_of(root), seed)

    def run(self, roots: Iterable[Any]) -> None:
        for owner in {id(x): x for x in map(_owner, roots)}.values():
            if not self._counts.get(id(owner)):
                self._complete(owner)
        while self._ready:
            self._pass(heapq.heappop(self._ready)[1])

    def _add(self, place: Place, gradient: Any) -> None:
        """Add a gradient to the sum of a place.

        A sum that was made here belongs to us and takes further terms in place; what a call
        returned may be shared (with the upstream gradient, say) and is not written to.
        """
        held = self._sums.get(place)
        if held is None:
            self._sums[place] = gradient, False
        else:
            self._sums[place] = add(*held, gradient), True

    def _complete(self, owner: Any) -> None:
        """Note that all consumers of a value have been passed."""
        if type(owner) is Node:
            if id(owner) in self.graph.edges:
                heapq.heappush(self._ready, (-owner.number, owner))
            else:  # it may be wanted itself, and nothing behind it is
                self._take(owner)
        elif (id(owner), 0) in self._sums:
            self.leaves.append((owner, self._sums.pop((id(owner), 0))[0]))

    def _take(self, node: Node) -> list[Any]:
        """The gradients of a call's results, out of the sums; those that are wanted are kept."""
        grads = []
        for index in range(len(node.call.results or (None,))):
            place = id(node), index
            gradient = self._sums.pop(place, (None,))[0]
            if gradient is not None and self.wanted is not None and place in self.wanted:
                gradient = self.found[place] = whole(gradient)
            grads.append(gradient)
        return grads

    def _pass(self, node: Node) -> None:
        """Compute the gradients of a call's inputs, and count the call off."""
        grads = self._take(node)
        if self.retain:
            self._retain(node, grads)
        edges = self.graph.edges[id(node)]
        if any(gradient is not None for gradient in grads):
            needs = node.needs
            if self.wanted is not None:
                useful = {i for i, _, _ in edges}
                needs = tuple([i in useful for i in range(len(needs))])
            parts = _gradients(node, grads, needs)
            for i, _, place in edges:
                if parts[i] is not None:
                    self._add(place, parts[i])
        counts = self._counts
        for _, owner, _ in edges:
            counts[id(owner)] -= 1
            if not counts[id(owner)]:
                self._complete(owner)

    def _retain(self, node: Node, grads: list[Any]) -> None:
        """Leave the gradients in the nodes of the results, as `Tape(retain_grads=True)` asks."""
        for result in node.results():
            gradient = grads[result.index]
            if gradient is not None:
                result.grad = grads[result.index] = whole(gradient)
                self.taken.add(id(grads[result.index].buffer))


def run_backward(
    roots: Sequence[Any],
    seeds: Sequence[Any],
    retain: bool,
    targets: Sequence[Any] | None = None,
) -> list[Tensor | None]:
    """The backward pass.

    Args:
        roots: The results to start from.
        seeds: Their gradients; None: 1 for one element.
        retain: Whether results keep their gradients too.
        targets: Whose gradients are wanted. Then these are returned (None where there is none),
            no leaf is touched, and nothing behind the targets is computed.
    """
    if thread.tracer is not None:
        thread.tracer.interrupt("backward", "a backward pass inside the function")
    wanted = None if targets is None else {place_of(target) for target in targets}
    for root in roots:
        _check_root(root)
    walk = _Walk(Graph(roots, wanted), wanted, retain, set())
    with _UNRECORDED:
        for root, seed in zip(roots, seeds, strict=True):
            start = _seed(root, seed)
            walk.taken.add(id(start.buffer))
            walk.start(root, start)
        walk.run(roots)
        if targets is None:
            for leaf, gradient in walk.leaves:
                _deposit(leaf, whole(gradient), walk.taken)
            return []
        found = walk.found | {(id(leaf), 0): whole(each) for leaf, each in walk.leaves}
    return [found.get(place_of(target)) for target in targets]


def _deposit(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """Add to a leaf's `grad`; a buffer that somebody else holds as well is copied first."""
    with _deposits:
        if leaf.grad is not None:
            leaf.grad = accumulate(leaf.grad, gradient, in_place=False)
            return
        kept = duplicate(gradient) if id(gradient.buffer) in taken else gradient
        leaf.grad = kept = convert(kept, leaf.dtype)
    taken.add(id(kept.buffer))


def _check_root(root: Any) -> None:
    if not isinstance(root, Operand):
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


def _seed(root: Any, seed: Any) -> Tensor:
    if seed is None:
        if root.size != 1:
            raise ShapeError(
                message(
                    "backward",
                    f"a value of shape {root.shape} and no gradient for it",
                    "a value of one element, or grad=",
                    "Reduce it with sum() or mean(), or pass grad=<tensor of that shape>",
                )
            )
        return Tensor.full(root.shape, 1, root.dtype, root.device)
    if isinstance(seed, Operand):
        value = seed.value
    else:
        value = Tensor.from_host(host_array(seed, root.dtype), root.device)
    if value.shape != root.shape:
        raise ShapeError(message("backward", f"grad of shape {value.shape}", f"{root.shape}"))
    return convert(move(value, root.device), root.dtype)


def _gradients(node: Node, grads: Sequence[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
    """The gradients of a call's inputs, of what has not changed since."""
    for saved, version in node.versions:
        if saved.version != version:
            raise MutationError(
                message(
                    f"backward of {node.op_name}",
                    f"an input of shape {saved.shape} was changed in place after the forward "
                    f"pass of {node.where}",
                    "inputs as they were",
                    "Call backward before the change, or change a copy",
                )
            )
    values: Sequence[Any] = node.call.gradients(node, grads, needs)
    check, numerics = anomaly_mode()
    if check or numerics:
        seen = [None if part is None else whole(part) for part in values]
        if check:
            anomaly.check_finite(node, seen)
        if numerics:
            anomaly.check_numerics(node, grads, seen)
    return values
