"""Gradients as values, and the few computations that the engine itself needs; none is an op.

A gradient is a Tensor, or a Spread that stands for one. Both have `value` (the Tensor that holds
the data), `shape` and `dtype`; `whole` makes a Tensor of either and `add` sums two of them. What
is computed here runs through the same lowering and templates as everything that plugins bring,
and is not recorded; `recorded_gradients.py` computes the same so that it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Final, Protocol, final

from netcl_core.codegen.gradient_region import ADDED, SAME
from netcl_core.codegen.layout import Shape
from netcl_core.codegen.lowering import Plan, allocate_results, plan
from netcl_core.codegen.reduction import SUM, reduction_kernels
from netcl_core.codegen.reduction_numpy import tree_sum
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.codegen.strided_copy import COPY
from netcl_core.dtypes import DTYPES
from netcl_core.errors import GradientError, ShapeError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.kernels import Bound, Spec
from netcl_core.runtime.recording import capturing
from netcl_core.runtime.stream import stream_of
from netcl_core.tape.state import thread
from netcl_core.tensors.host_data import check_dtype, host_array
from netcl_core.tensors.tensor import Tensor, View

ACCUMULATE: Final = Region(2, 0, (PrimitiveStep(ADDED, (("in", 0), ("in", 1))),), (("step", 0),))


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


def whole(gradient: Any) -> Tensor:
    """A gradient as a Tensor of its full shape."""
    if type(gradient) is Spread:
        return expand(gradient.value, gradient.shape)
    return gradient  # type: ignore[no-any-return]  # a Tensor


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
    return any(gradient is each for each in thread.ones) and not gradient.version


def add(held: Any, own: bool, term: Any) -> Any:
    """The sum of two gradients; `held` is written to if it is the caller's own and allows it."""
    if type(held) is type(term) is Spread and held.value.shape == term.value.shape:
        return Spread(accumulate(held.value, term.value, in_place=own), held.shape)
    if type(held) is Spread:
        held, term, own = term, held, False
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
    found: list[Any] = [None] * len(operands)
    for i, (x, part) in enumerate(zip(operands, parts, strict=True)):
        if x is not None and part is not None:
            found[i] = _fitting(op, part, x, recorded)
    return found


def refuse_unrecorded(op: str, parts: Sequence[Any], given: Sequence[Any]) -> None:
    """Raise GradientError for a bare Tensor among recorded gradients: it would be a constant.

    What was given may be handed on, whatever it is.
    """
    for part in parts:
        held = part.value if type(part) is Spread else part
        bare = type(held) is Tensor or type(held) is View
        if bare and not any(held is each for each in given):
            reason = "its backward returned a Tensor that no op computed"
            raise no_second_derivative(op, reason)


def no_second_derivative(op: str, reason: str) -> GradientError:
    """The error for an op whose gradient cannot be differentiated."""
    remedy = "Let its backward compute with ops that have gradients, and take no `.value` of them"
    given, expected = f"{op} has no second derivative: {reason}", "ops that have one"
    return GradientError(message("grad with create_graph=True", given, expected, remedy))


def _fitting(op: str, part: Any, x: Any, recorded: bool) -> Any:
    """One gradient as a Tensor or Spread (or a Node) for the operand x."""
    if type(part) is not Tensor and type(part) is not View and type(part) is not Spread:
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
    held = gradient.value if type(gradient) is Spread else gradient
    made = held.astype(dtype) if recorded else convert(held.value, dtype)
    return Spread(made, gradient.shape) if type(gradient) is Spread else made


# -- computations ------------------------------------------------------------------------


def run_plan(made: Plan, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> list[Tensor]:
    """Fresh tensors with the results of a plan."""
    buffers = allocate_results(made)
    made.compute(inputs, scalars, buffers)
    return [
        Tensor(buffer, made.shape, dtype, made.device)
        for buffer, dtype in zip(buffers, made.types.outputs, strict=True)
    ]


def accumulate(total: Tensor, term: Tensor, *, in_place: bool) -> Tensor:
    """`total + term`, written into `total` (then no view) if that is allowed."""
    in_place = in_place and total.geometry is None
    term = convert(term, total.dtype)
    tensors = ((total.shape, total.dtype), (term.shape, term.dtype))
    made = plan(ACCUMULATE, total.device, Signature(tensors, ()))
    if not in_place:
        return run_plan(made, (total, term), ())[0]
    made.compute((total, term), (), (total.buffer,))
    return total


@lru_cache(maxsize=len(DTYPES))
def cast_region(dtype: str, rounds: bool = True) -> Region:
    """The region of a conversion to a dtype."""
    return Region(1, 0, (cast_step(("in", 0), dtype, rounds),), (("step", 0),))


def cast_step(operand: Ref, dtype: str, rounds: bool = True) -> PrimitiveStep:
    """The conversion of a value to a dtype; see `PrimitiveStep` for what does not round."""
    return PrimitiveStep(SAME, (operand,), cast=dtype, rounds=rounds)


def expand(tensor: Tensor, shape: Shape) -> Tensor:
    """A tensor repeated along its dimensions of size 1; itself if it has that shape."""
    if tensor.shape == shape:
        return tensor
    signature = Signature(((tensor.shape, tensor.dtype),), (), shape)
    return run_plan(plan(COPY, tensor.device, signature), (tensor,), ())[0]


def convert(tensor: Tensor, dtype: str) -> Tensor:
    """A tensor in another dtype; itself if it has that dtype."""
    if tensor.dtype == dtype:
        return tensor
    check_dtype(dtype, tensor.device)
    signature = Signature(((tensor.shape, tensor.dtype),), ())
    return run_plan(plan(cast_region(dtype), tensor.device, signature), (tensor,), ())[0]


def move(tensor: Tensor, device: Device) -> Tensor:
    """A tensor on another device, through the host; itself if it is there already."""
    if tensor.device is device:
        return tensor
    return Tensor.from_host(tensor.to_host(), device)


@lru_cache(maxsize=4096)
def _sum_kernel(device: Device, shape: Shape, axes: tuple[int, ...], dtype: str) -> Bound:
    out = tuple(size for axis, size in enumerate(shape) if axis not in axes)
    inputs, outputs = (Spec(shape, dtype),), (Spec(out, dtype),)
    return Bound(device, reduction_kernels(SUM, device, inputs[0], axes, dtype), inputs, outputs)


def sum_to(gradient: Tensor, shape: Shape) -> Tensor:
    """A gradient summed over the dimensions along which its input was broadcast."""
    if gradient.shape == shape:
        return gradient
    lead = gradient.ndim - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(gradient.shape)
        if axis < lead or (shape[axis - lead] == 1 and size != 1)
    )
    dtype, device = gradient.dtype, gradient.device
    if not gradient.size:
        return Tensor.full(shape, 0, dtype, device)
    stream = stream_of(device)
    buffer = stream.allocate(math.prod(shape), DTYPES[dtype])
    if not device.has_kernels:
        forms = [(gradient.shape, dtype), (shape, dtype)]
        stream.host_call(partial(_sum_on_host, axes), [gradient.buffer], [buffer], forms)
    else:
        _sum_kernel(device, gradient.shape, axes, dtype)((gradient.buffer,), (buffer,))
    return Tensor(buffer, shape, dtype, device)


def _sum_on_host(axes: tuple[int, ...], arrays: Sequence[Any], target: Any) -> None:
    (wide,) = arrays
    target[...] = tree_sum(wide, axes, DTYPES[wide.dtype.name].wide).reshape(target.shape)


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
    found: Tensor | None = thread.seeds.get(key)
    if found is None or found.version:
        found = Tensor.full(shape, 1, dtype, device)
        if not capturing():
            thread.seeds[key] = found
    return found


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

    def gradients(self, node: Any, grads: Sequence[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
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

    def gradients(self, node: Any, grads: Sequence[Any], needs: tuple[bool, ...]) -> Sequence[Any]:
        """By the call's own kernels."""
        found: Sequence[Any] = node.call.gradients(node, grads, needs)
        return found


PLAIN: Final = _Plain()
