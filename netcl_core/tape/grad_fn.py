"""What `x.grad_fn` is: the call that made a value, and the way on to those behind it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final, final

#: Those that somebody holds, by the identity of the node with the record and the result.
living: Final[weakref.WeakValueDictionary[tuple[int, int], GradFn]] = weakref.WeakValueDictionary()


@final
class GradFn:
    """The gradient of one result of a call: `(gradient) -> [gradient per input]`.

    >>> x = ag.tensor([2.0], requires_grad=True)
    >>> y = (x * 3).exp()
    >>> y.grad_fn.name(), [(each and each.name(), k) for each, k in y.grad_fn.next_functions]
    ('ExpBackward0', [('MulBackward0', 0)])
    >>> y.grad_fn.next_functions[0][0].next_functions[0][0].variable is x.value
    True

    `next_functions` are those of the inputs, each with the number of the result there: None for
    an input that needs no gradient, `AccumulateGrad` for a leaf, whose tensor is `variable`.
    """

    __slots__ = ("__weakref__", "_index", "_node")

    def __init__(self, node: Any, index: int) -> None:
        self._node = node
        self._index = index

    def __call__(self, grad: Any) -> Sequence[Any]:
        node = self._node
        node.settle()
        grads = [grad if i == self._index else None for i in range(len(node.call.results or [0]))]
        node.require_saved(f"grad_fn of {node.op_name}")
        gradients: Sequence[Any] = node.call.gradients(node, grads, node.needs)
        return gradients

    def name(self) -> str:
        """The op's name as PyTorch writes it."""
        words = (self._node.op_name or "call").split("_")
        return "".join(word[:1].upper() + word[1:] for word in words) + "Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The inputs' own; none once a backward pass has let them go."""
        self._node.settle()
        inputs, needs = self._node.inputs, self._node.needs
        return tuple((_behind(x) if need else None, x.index if need and x.grad_fn else 0)
                     for x, need in zip(inputs, needs, strict=False))  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.name()}>"


@final
class AccumulateGrad:
    """Where a graph ends: the gradient of a leaf, the tensor `variable`."""

    __slots__ = ("variable",)
    next_functions: tuple[tuple[Any, int], ...] = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """What PyTorch calls it."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def _behind(x: Any) -> Any:
    return x.grad_fn or AccumulateGrad(x.value)


def grad_fn_of(node: Any, index: int) -> GradFn:
    """The one of a result, the same as long as somebody holds it."""
    key = id(node), index
    grad_fn = living.get(key)
    if grad_fn is None:
        grad_fn = living[key] = GradFn(node, index)
    return grad_fn
