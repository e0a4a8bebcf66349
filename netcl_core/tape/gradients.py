"""Gradients as values: tensors, and what stands for one until it is needed whole.

A gradient is a Tensor, or a Spread or a Placed that stands for one. All have `value` (the Tensor
that holds the data), `shape` and `dtype`; `whole` makes a Tensor of each and `add` sums two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, final

from netcl_core.codegen.layout import Shape
from netcl_core.errors import GradientError, MutationError, ShapeError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.recording import capturing
from netcl_core.tape.computations import accumulate, add_at, convert, expand, move
from netcl_core.tape.state import thread
from netcl_core.tensors.host_data import host_array
from netcl_core.tensors.tensor import Tensor, View


@final
class Spread:
    """A gradient that is constant along some dimensions, kept small until it is needed whole.

    >>> ones = ag.Spread(nc.tensor([[1.0]]), (2, 3))  # six elements, one number
    >>> ones.shape, ones.value.shape
    ((2, 3), (1, 1))

    `value` has size 1 along these dimensions; `shape` is the full shape. The gradient of
    a sum is one: an elementwise kernel reads the single elements where they stand. What an op
    gave goes in as it is: with grad mode on it is a Node, which must not be lost.
    """

    __slots__ = ("shape", "value")

    def __init__(self, value: Any, shape: tuple[int, ...]) -> None:
        self.value = value
        self.shape = shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.value.dtype  # type: ignore[no-any-return]  # an operand's


@final
class Placed:
    """A gradient that is zero but for some elements: that of a view, for what it is a view of.

    A call may return it, and only the sums of a walk hold it: the next gradient of the same value
    is added at its own places, so that a loop over slices makes one tensor of zeros.

    Attributes:
        value: The elements.
        geometry: Where they are added; places may coincide.
        shape: The full shape.
    """

    __slots__ = ("geometry", "shape", "value")

    def __init__(self, value: Tensor, geometry: Geometry, shape: Shape) -> None:
        self.value = value
        self.geometry = geometry
        self.shape = shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.value.dtype


@final
class Added:
    """A gradient to which the sum of those before it has been added: `saved.held`.

    >>> ag.Added(nc.ones(2, 3)).shape
    (2, 3)

    A walk takes it in the place of that sum. `value` is a tensor that nobody else has.
    """

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value.value

    @property
    def shape(self) -> Shape:
        """The shape."""
        return self.value.shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.value.dtype


def unchanged(op: str, results: Sequence[Any]) -> tuple[Any, ...]:
    """The results of an op as its gradients read them; raises MutationError if one was changed."""
    for result in results:
        if result.version:  # that of a tensor that nobody has changed is 0
            given = f"a result of shape {result.shape} was changed in place"
            remedy = "Call backward before the change, or change a copy"
            raise MutationError(message(f"backward of {op}", given, "results as they were", remedy))
    return tuple(results)


def whole(gradient: Any) -> Tensor:
    """A gradient as a Tensor of its full shape."""
    if type(gradient) is Spread:
        return expand(gradient.value, gradient.shape)
    if type(gradient) is Placed:
        value = gradient.value
        total = Tensor.full(gradient.shape, 0, value.dtype, value.device)
        add_at(total, gradient.geometry, value, first=True)
        return total
    return gradient  # type: ignore[no-any-return]  # a Tensor


#: What a gradient is where nothing is recorded.
_KINDS: Final = frozenset({Tensor, View, Spread, Placed, Added})


def is_one(gradient: Any) -> bool:
    """Whether a gradient is known to be the number 1, without asking the device.

    >>> seen = []
    >>> same = lambda x: ag.apply_op(lambda x: x, lambda g: seen.append(ag.is_one(g)) or [g], x)
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> same(x).backward(), (same(x) * 3).backward(), ag.backward(same(x), grad=1.0)
    (None, None, None)
    >>> seen
    [True, False, False]

    It is for the `backward` of an op whose forward has written the gradient: what is multiplied
    by 1 can be given back as it is. True for the seed of a pass that was given none, as long as
    nobody has changed it; what is computed from it, or given, may be 1 and is not known to be.
    """
    return any(gradient is one for one in thread.ones) and not gradient.version


def add(held: Any, own: bool, term: Any) -> Any:
    """The sum of two gradients; `held` is written to if it is the caller's own and allows it."""
    if type(held) is type(term) is Spread and held.value.shape == term.value.shape:
        return Spread(accumulate(held.value, term.value, in_place=own), held.shape)
    if type(held) is Spread:
        held, term, own = term, held, False
    if type(held) is Placed:
        held, own = whole(held), True
    if type(term) is Placed:
        total: Tensor = held if own and type(held) is Tensor else whole(held).duplicate()
        add_at(total, term.geometry, term.value)
        return total
    return accumulate(whole(held), whole(term), in_place=own and type(held) is Tensor)


def checked(
    op: str, parts: Any, operands: Sequence[Any], source: str = "it", recorded: bool = False
) -> list[Any]:
    """The gradients that an op's backward returned for operands (None: no tensor), in their dtypes.

    With `recorded` Nodes stay what they are. Raises GradientError for another number of them, and
    for what is no gradient of its operand: no tensor, or one of another shape or device.
    """
    if not isinstance(parts, (list, tuple)) or len(parts) != len(operands):
        given = len(parts) if isinstance(parts, (list, tuple)) else type(parts).__name__
        expected = f"{len(operands)} gradients, one per operand"
        raise GradientError(message(f"backward of {op}", f"{source} returned {given}", expected))
    gradients: list[Any] = [None] * len(operands)
    for i, (x, part) in enumerate(zip(operands, parts, strict=True)):
        if x is None or part is None:
            continue
        fits = type(part) in _KINDS and part.shape == x.shape and part.dtype == x.dtype
        if fits and part.value.device is x.device:
            gradients[i] = part
        else:
            gradients[i] = _fitting(op, part, x, recorded)
    return gradients


def refuse_unrecorded(op: str, parts: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise GradientError for a bare Tensor among recorded gradients: it would be a constant.

    What was given may be handed on, whatever it is.
    """
    for part in parts:
        held = part.value if type(part) is Spread else part
        bare = type(held) is Tensor or type(held) is View
        if bare and not any(held is known for known in given):
            reason = "its backward returned a Tensor that no op computed"
            raise no_second_derivative(op, reason)


def no_second_derivative(op: str, reason: str) -> GradientError:
    """The error for an op whose gradient cannot be differentiated."""
    remedy = "Let its backward compute with ops that have gradients, and take no `.value` of them"
    given, expected = f"{op} has no second derivative: {reason}", "ops that have one"
    return GradientError(message("grad with create_graph=True", given, expected, remedy))


def _fitting(op: str, part: Any, x: Any, recorded: bool) -> Any:
    """One gradient as a Tensor, Spread or Placed (or a Node) for the operand x."""
    if type(part) not in _KINDS:
        if not isinstance(part, Tensor):
            given = f"a {type(part).__name__} for a gradient"
            raise GradientError(message(f"backward of {op}", given, "a tensor or None"))
        part = part if recorded else part.value
    if part.shape != x.shape:
        given, expected = f"a gradient of shape {part.shape}", f"the input's shape {x.shape}"
        raise GradientError(message(f"backward of {op}", given, expected))
    if part.value.device is not x.device:
        given, expected = f"a gradient on {part.value.device!r}", f"one on {x.device!r}"
        raise GradientError(message(f"backward of {op}", given, expected))
    return part if part.dtype == x.dtype else _in_dtype(part, x.dtype, recorded)


def _in_dtype(gradient: Any, dtype: str, recorded: bool) -> Any:
    """A gradient in another dtype: whoever reads it takes it to be its value's."""
    held = gradient.value if type(gradient) is Spread else whole(gradient)
    converted = held.astype(dtype) if recorded else convert(held.value, dtype)
    return Spread(converted, gradient.shape) if type(gradient) is Spread else converted


# -- what a reverse pass computes with ----------------------------------------------------


def seed_of(root: Any, seed: Any) -> Any:
    """The gradient of a result that a pass starts from; that which is given as it is given."""
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
        return _one(root.shape, root.dtype, root.device)
    value = seed
    if not isinstance(seed, Tensor):
        value = Tensor.from_host(host_array(seed, root.dtype), root.device)
    if value.shape != root.shape:
        raise ShapeError(message("backward", f"grad of shape {value.shape}", f"{root.shape}"))
    return value


def _one(shape: Shape, dtype: str, device: Device) -> Tensor:
    """A seed that is 1: the thread's own, as long as nobody has changed it.

    One that is made inside a capture is the capture's.
    """
    key = shape, dtype, device
    one: Tensor | None = thread.seeds.get(key)
    if one is None or one.version:
        one = Tensor.full(shape, 1, dtype, device)
        if not capturing():
            thread.seeds[key] = one
    return one


class Arithmetic(Protocol):
    """What a walk computes with.

    Attributes:
        records: Whether it is recorded, so that the gradients can be differentiated.
    """

    records: bool

    def seed(self, root: Any, seed: Any) -> Any:
        """The gradient of a result (None: 1) in its dtype and on its device."""

    def add(self, held: Any, own: bool, term: Any) -> Any:
        """The sum of two gradients; `held` may be written to if it is the caller's own."""

    def gradients(
        self, node: Any, grads: Sequence[Any], needs: tuple[bool, ...], held: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """The gradients of a call's inputs; see `apply.Call`."""


@final
class _Plain:
    """Tensors and Spreads, and nothing is recorded."""

    __slots__ = ()
    records = False
    add = staticmethod(add)

    def seed(self, root: Any, seed: Any) -> Tensor:
        """The gradient of a result as a Tensor."""
        start: Tensor = seed_of(root, seed).value
        return start if seed is None else convert(move(start, root.device), root.dtype)

    def gradients(
        self, node: Any, grads: Sequence[Any], needs: tuple[bool, ...], held: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """By the call's own kernels."""
        more = (held,) if held else ()
        parts: Sequence[Any] = node.call.gradients(node, grads, needs, *more)
        return parts


PLAIN: Final = _Plain()
