"""All steps of an LSTM or a GRU as one op, and their gradients as one more.

By ops a step is two calls, its product and its gates, and its gradient some five, among them a
product as large as the weight. Where there are kernels all launches of all steps are one call each
way, which reads and writes each step in its place, and the weight's gradient is one product over
all steps. CPUs pack the weight once; GPUs multiply by the kernels that serve the ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from netcl_plugin_linalg.gemm import Product, gemm
from netcl_plugin_linalg.linear import LINEAR
from netcl_plugin_linalg.matmul import MATMUL

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved, composite
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_nn import gates
from netcl_plugin_nn.gates import STEPS, launch, zeros_like

_Place: TypeAlias = tuple[str, int]
_KEPT: Final = {"sequence": True, "kept": True, "carried": False}


def unrolled(
    step: str,
    given: Any,
    state: tuple[Any, ...],
    weight: Any,
    bias: Any = None,
    projection: Any = None,
    reverse: bool = False,
    present: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """The steps by ops: the outputs of all (T, N, H), and the states after the last.

    Args:
        step: One of `gates.STEPS`.
        given: The products of the inputs with their weights, (T, N, rows of the weight).
        state: The states before the first step, the hidden one first.
        weight, bias: What the hidden state is multiplied with, and what is added then.
        projection: A matrix that makes an output of a hidden state.
        reverse: Whether the last step comes first.
        present: Per step which sequences have it, (N, 1); the states of others stay. None: all.
    """
    outputs = []
    products = ag.unbind(given)
    masks = present or [None] * len(products)
    pairs = list(zip(products, masks, strict=True))
    for product, mask in reversed(pairs) if reverse else pairs:
        before = state
        state = STEPS[step](product, ag.linear(state[0], weight, bias), state)
        if projection is not None:
            state = (ag.linear(state[0], projection), *state[1:])
        if mask is not None:
            kept = zip(state, before, strict=True)
            state = tuple(ag.where(mask, new, old) for new, old in kept)
        outputs.append(state[0])
    return ag.stack(outputs[::-1] if reverse else outputs), *state


def lstm_steps(
    given: Any, hidden: Any, cell: Any, weight: Any, bias: Any = None, reverse: bool = False
) -> tuple[Any, ...]:
    """The outputs of all steps of an LSTM, and the hidden state and the cell after the last.

    All have one floating dtype.

    >>> given, weight = nc.zeros(7, 2, 12), nc.zeros(12, 3)
    >>> outputs, hidden, cell = ag.lstm_steps(given, nc.zeros(2, 3), nc.ones(2, 3), weight)
    >>> outputs.shape, cell.tolist()[0]
    ((7, 2, 3), [0.0078125, 0.0078125, 0.0078125])

    Args:
        given: The products of the inputs with their weights, (T, N, 4 H).
        hidden, cell: The states before the first step, (N, H).
        weight, bias: What the hidden state is multiplied with, (4 H, H), and what is added, (4 H,).
        reverse: Whether the last step comes first.
    """
    given, hidden, cell, weight = (ag.as_operand(x) for x in (given, hidden, cell, weight))
    bias = None if bias is None else ag.as_operand(bias)
    _check("lstm_steps", given, hidden, cell, weight, bias)
    return unrolled("lstm", given, (hidden, cell), weight, bias, reverse=reverse)


def gru_steps(
    given: Any, hidden: Any, weight: Any, bias: Any = None, reverse: bool = False
) -> tuple[Any, ...]:
    """The outputs of all steps of a GRU, and the hidden state after the last.

    All have one floating dtype.

    >>> outputs, hidden = ag.gru_steps(nc.zeros(2, 1, 3), nc.ones(1, 1), nc.zeros(3, 1))
    >>> outputs.tolist(), hidden.tolist()
    ([[[0.5]], [[0.25]]], [[0.25]])

    Arguments as of `lstm_steps`, with 3 H in the place of 4 H and without a cell.
    """
    given, hidden, weight = (ag.as_operand(x) for x in (given, hidden, weight))
    bias = None if bias is None else ag.as_operand(bias)
    _check("gru_steps", given, hidden, weight, bias)
    return unrolled("gru", given, (hidden,), weight, bias, reverse=reverse)


def _check(name: str, given: Any, *others: Any) -> None:
    """Raise DtypeError or ShapeError for tensors, or their Specs, that do not fit each other."""
    number = 4 if name == "lstm_steps" else 3
    states, operands = others[:-2], [operand for operand in (given, *others) if operand is not None]
    dtypes = [operand.dtype for operand in operands]
    if len({*dtypes}) > 1 or dtypes[0] not in gates.FLOATS:
        raise DtypeError(message(name, " and ".join(dtypes), "one floating dtype"))
    steps, batch = given.shape[:2] if given.ndim == 3 else (0, 0)
    size = given.shape[-1] // number if given.ndim else 0
    rows = number * size
    wanted = [(steps, batch, rows), *[(batch, size)] * len(states), (rows, size), (rows,)]
    shapes = [tuple(operand.shape) for operand in operands]
    if not steps or shapes != wanted[: len(shapes)]:
        expected = f"(T, N, {number} H), (N, H), a weight ({number} H, H) and a bias, T > 0"
        raise ShapeError(message(name, " and ".join(map(str, shapes)), expected))


def _infer(name: str, given: Spec, *others: Any, reverse: bool) -> tuple[Spec, ...]:
    _check(name, given, *others)
    states: tuple[Spec, ...] = others[:-2]
    return Spec((given.shape[0], *states[0].shape), given.dtype), *states


# -- launches ----------------------------------------------------------------------------


class _Launches:
    """A plan in the making: what is launched once, then for each step, with one set of scratch."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.found: list[Kernel] = []
        self.scratch: list[int] = []

    def room(self, spec: Spec) -> _Place:
        """A scratch buffer."""
        self.scratch.append(spec.size * DTYPES[spec.dtype].itemsize)
        return "scratch", len(self.scratch) - 1

    def product(
        self, by_op: Kernels | None, out: Spec, product: Product, weight: _Place,
        bias: _Place | None = None,
    ) -> Callable[[_Place, _Place], None]:  # fmt: skip
        """How to launch a product with the weight, from where to where; it is packed once.

        `by_op`: the launches of the op that it is, which pack nothing; None: those for CPUs.
        """
        request = Request("linear", self.request.device, (), (out,), {})
        kernels = by_op or gemm(request, product, bias is not None, often=True)
        first = len(self.scratch)
        self.scratch += kernels.scratch
        moved = {("scratch", i): ("scratch", first + i) for i in range(len(kernels.scratch))}
        moved[("in", 1)] = weight
        if bias is not None:
            moved[("in", 2)] = bias
        each = [kernel for kernel in kernels.launches if by_op or ("in", 0) in kernel.args]
        each += [] if kernels.launches[-1] in each else [kernels.launches[-1]]
        self.found += [_moved(pack, moved) for pack in kernels.launches if pack not in each]

        def multiply(source: _Place, target: _Place) -> None:
            places = {**moved, ("in", 0): source, ("out", 0): target}
            self.found.extend([_moved(kernel, places) for kernel in each])

        return multiply

    def made(self) -> Kernels:
        """The plan."""
        return Kernels(tuple(self.found), tuple(self.scratch))


def _moved(kernel: Kernel, places: Mapping[Any, Any]) -> Kernel:
    return replace(kernel, args=tuple([places.get(arg, arg) for arg in kernel.args]))


def _forward(states: int, request: Request) -> Kernels:
    """Two launches for each step: the hidden state times the weight, and the gates."""
    given, hidden = request.inputs[:2]
    entry = "lstm_gates" if states == 2 else "gru_gates"
    (steps, batch, rows), size = given.shape, hidden.shape[1]
    plan = _Launches(request)
    product = plan.room(Spec((batch, rows), given.dtype))
    rooms = [(plan.room(hidden), plan.room(hidden)) for _ in range(states)]
    weight = 1 + states
    bias = ("in", weight + 1) if len(request.inputs) > weight + 1 else None
    by_op = None
    if request.device.kind != "cpu":
        more = request.inputs[weight:]
        by_op = ag.kernels_of(
            LINEAR, hidden, *more, *[None] * (2 - len(more)), device=request.device
        )
    multiply = plan.product(
        by_op,
        Spec((batch, rows), given.dtype),
        Product(batch, rows, size, size, 1, 1, size),
        ("in", weight),
        bias,
    )
    flags = {**_KEPT, "kept": request.keep}
    kept = [("out", 1 + states + i) for i in range(states)] if request.keep else []
    before: list[_Place] = [("in", 1 + i) for i in range(states)]
    order = range(steps)[::-1] if request.attrs["reverse"] else range(steps)
    for turn, step in enumerate(order):
        last = turn == steps - 1
        after = [("out", 1 + i) if last else rooms[i][turn % 2] for i in range(states)]
        multiply(before[0], product)
        buffers = [("in", 0), product, before[-1], *after, ("out", 0), *kept]
        at = step * batch * size
        offsets = (step * batch * rows, at)
        plan.found.append(launch(request.device, hidden, entry, buffers, offsets, flags))
        before = after
    return plan.made()


def _residuals(states: int, request: Request) -> tuple[Spec, ...]:
    """The products of the hidden states, and an LSTM's cells after each step."""
    given, output = request.inputs[0], request.outputs[0]
    return (given, output)[:states]


def _backward(states: int, request: Request) -> Kernels:
    """Two launches for each step, the last first: the gradients of its gates, times the weight."""
    given, hidden, lstm = request.inputs[0], request.inputs[3], states == 2
    entry = "lstm_gates_backward" if lstm else "gru_gates_backward"
    (steps, batch, rows), size = given.shape, hidden.shape[1]
    plan = _Launches(request)
    slope_spec = Spec((batch, rows), given.dtype)
    slope, more = plan.room(slope_spec), plan.room(hidden)
    rooms = plan.room(hidden), plan.room(hidden)
    product, by_op = Product(batch, size, rows, rows, 1, size, 1), None
    if request.device.kind != "cpu":
        operands, flags = (slope_spec, request.inputs[4]), {"trans_a": False, "trans_b": False}
        by_op = ag.kernels_of(MATMUL, *operands, device=request.device, **flags)
    multiply = plan.product(by_op, hidden, product, ("in", 4))
    outs: list[_Place] = [("out", i) for i in range(len(request.outputs))]
    order = range(steps) if request.attrs["reverse"] else range(steps)[::-1]
    came: _Place = ("in", 6)
    carry: list[_Place] = [("in", 7)] if lstm else []
    for turn, step in enumerate(order):
        last = turn == steps - 1
        kept = outs[-1] if last else rooms[turn % 2]
        at = step * batch * size
        state, state_at = ("in", 3), 0
        if not last:
            state, state_at = ("in", 2), order[turn + 1] * batch * size
        buffers: list[_Place] = [("in", 0), ("in", 1), state, ("in", 5)]
        buffers += [*carry, came] if lstm else [came, *carry]
        buffers += [outs[0], *([] if lstm else [outs[1]]), kept, slope]
        flags = {"sequence": True, "kept": False, "carried": not lstm and turn > 0}
        offsets = (step * batch * rows, at, state_at)
        plan.found.append(launch(request.device, hidden, entry, buffers, offsets, flags))
        came, carry = (outs[-2] if last else more), [kept]
        multiply(slope, came)
    return plan.made()


# -- gradients ---------------------------------------------------------------------------


def _slopes_of(states: int, *arrays: Any, reverse: bool) -> tuple[Any, ...]:
    """The gradients in NumPy."""
    given, products, befores, begin, weight, grads, came, *cells = arrays
    count = len(given)
    order = list(range(count)) if reverse else list(range(count))[::-1]
    slopes, others = np.empty_like(given), np.empty_like(given)
    carry: Any = cells[0] if cells else 0
    for turn, step in enumerate(order):
        before = begin if turn == count - 1 else befores[order[turn + 1]]
        operands = (given[step], products[step], before)
        if states == 2:
            slopes[step], carry = gates.lstm_slopes(*operands, grads[step] + came, carry)
            others[step] = slopes[step]
        else:
            grad = grads[step] + came + carry
            slopes[step], others[step], carry = gates.gru_slopes(*operands, grad)
        came = others[step] @ weight
    return (slopes, came, carry) if states == 2 else (slopes, others, came, carry)


def _part(name: str, states: int) -> Operator:
    """The gradients of all steps as an op.

    Operands: given, products, an LSTM's cells or a GRU's outputs, the first of these, the weight,
    and the gradients of the outputs, of the last hidden state and of the last cell. Results: the
    gradients of given, a GRU's of the products, and what comes to the first hidden state by the
    weight and, of a GRU, past it; of an LSTM, that of the first cell.
    """

    def infer(given: Spec, *others: Spec, reverse: bool) -> tuple[Spec, ...]:
        state = others[2]
        return (given, state, state) if states == 2 else (given, given, state, state)

    return Operator(
        name=name,
        bind=lambda *tensors, reverse=False: (tensors, {"reverse": reverse}),
        infer=infer,
        reference=partial(_slopes_of, states),
        implementations=(Implementation(name, "all steps", partial(_backward, states)),),
        doc=f"{name}: the gradients of all steps, but for the weight's.",
    )


_LSTM_BACKWARD: Final = _part("lstm_steps_backward", 2)
_GRU_BACKWARD: Final = _part("gru_steps_backward", 1)


def _lstm_gradients(saved: Saved, *grads: Any) -> Sequence[Any]:
    given, _, cell, weight, _ = saved.inputs
    products, cells = saved.residuals
    wanted = _whole(saved, grads)
    slopes, first, first_cell = _LSTM_BACKWARD(
        given, products, cells, cell, weight, *wanted, **saved.attrs
    )
    return [slopes, first, first_cell, *_of_weights(saved, slopes)]


def _gru_gradients(saved: Saved, *grads: Any) -> Sequence[Any]:
    given, hidden, weight, _ = saved.inputs
    wanted = _whole(saved, grads)
    slopes, others, first, past = _GRU_BACKWARD(
        given, saved.residuals[0], saved.outputs[0], hidden, weight, *wanted, **saved.attrs
    )
    return [slopes, ag.add(first, past), *_of_weights(saved, others)]


def _whole(saved: Saved, grads: Sequence[Any]) -> list[Any]:
    """The gradients of the results, zeros where none came."""
    device = next(grad.device for grad in grads if grad is not None)
    pairs = zip(grads, saved.results, strict=True)
    return [zeros_like(operand, device) if grad is None else grad for grad, operand in pairs]


def _of_weights(saved: Saved, slopes: Any) -> list[Any]:
    """The gradients of weight and bias: one product over all steps."""
    hidden, outputs, (*_, weight, bias) = saved.inputs[1], saved.outputs[0], saved.inputs
    gradients: list[Any] = [None, None]
    rows = ag.reshape(slopes, (-1, weight.shape[0]))
    if saved.needs[-2]:
        first = ag.unsqueeze(hidden, 0)
        before = [outputs[1:], first] if saved.attrs["reverse"] else [first, outputs[:-1]]
        states = ag.cat(before) if len(outputs) > 1 else first
        gradients[0] = ag.matmul(rows, ag.reshape(states, (-1, weight.shape[1])), True)
    if bias is not None and saved.needs[-1]:
        gradients[1] = ag.sum(rows, 0)
    return gradients


def _operator(
    function: Callable[..., Any],
    operands: Sequence[str],
    states: int,
    backward: Callable[..., Any],
    part: Operator,
) -> Operator:
    name = function.__name__
    needs = Requirements(device_kinds=("cpu", "gpu"), dtypes=gates.FLOATS)
    return composite(
        function,
        operands,
        infer=partial(_infer, name),
        implementations=(
            Implementation(
                name,
                "all steps",
                partial(_forward, states),
                needs,
                backward=backward,
                residuals=partial(_residuals, states),
            ),
        ),
        parts=(part,),
        method=False,
    )


LSTM_STEPS: Final = _operator(
    lstm_steps, ("given", "hidden", "cell", "weight", "bias"), 2, _lstm_gradients, _LSTM_BACKWARD
)
GRU_STEPS: Final = _operator(
    gru_steps, ("given", "hidden", "weight", "bias"), 1, _gru_gradients, _GRU_BACKWARD
)
#: The steps that are one op, by name.
SEQUENCES: Final[Mapping[str, Operator]] = {"lstm": LSTM_STEPS, "gru": GRU_STEPS}
