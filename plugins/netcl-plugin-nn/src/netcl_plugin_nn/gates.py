"""What a recurrent step makes of its two products: the gates of RNN, LSTM and GRU.

Those of LSTM and GRU are one kernel each way where kernels are built: by ops a step would be some
ten launches, and twenty of its gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved, composite
from netcl_core.errors import DtypeError, ShapeError, message

#: `(input product, state product, states) -> states`, the hidden state first.
Step: TypeAlias = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, ...]]
FLOATS: Final = ("bfloat16", "float16", "float32", "float64")
_WIDEST: Final = 16
#: What a kernel is for: a step of its own, and not one of a sequence that a kernel keeps things of.
_ALONE: Final[Mapping[str, bool]] = {"sequence": False, "kept": False, "carried": False}
#: Items of work per core of a CPU, and the vectors that one takes at least.
_ITEMS, _TURNS = 4, 32


def launch(
    device: Device,
    state: Spec,
    entry: str,
    buffers: Sequence[tuple[str, int]],
    offsets: Sequence[int] = (),
    flags: Mapping[str, bool] = _ALONE,
) -> Kernel:
    """The launch of one step over a hidden state; the offsets say where it is in a sequence."""
    dtype, size = DTYPES[state.dtype], state.shape[-1]
    cpu = device.kind == "cpu"
    width = math.gcd(size, _WIDEST if cpu else 16 // dtype.itemsize)
    count, turns = state.size // width, 1
    if cpu:
        turns = max(_TURNS, -(-count // (device.compute_units * _ITEMS)))
    context = {"storage": dtype.storage, "acc": dtype.compute, "width": width, **flags}
    numbers = [("ulong", number) for number in (count, size, turns, *offsets)]
    items = (-(-count // turns),)
    return Kernel("nn/gates.cl.j2", entry, (*buffers, *numbers), items, None, context)


def _plan(entry: str, buffers: int) -> Callable[[Request], Kernels]:
    """One launch over the hidden state, the third operand; with so many buffers for results."""

    def plan(request: Request) -> Kernels:
        if not request.inputs[2].size:
            return Kernels(())
        taken = [("in", i) for i in range(len(request.inputs))]
        taken += [("out", i) for i in range(buffers)]
        return Kernels((launch(request.device, request.inputs[2], entry, taken),))

    return plan


def _check(name: str, gates: int, given: Any, product: Any, state: Any) -> None:
    """Raise DtypeError or ShapeError for tensors, or their Specs, that do not fit each other."""
    dtypes = [operand.dtype for operand in (given, product, state)]
    if len({*dtypes}) > 1 or dtypes[0] not in FLOATS:
        raise DtypeError(message(name, " and ".join(dtypes), "one floating dtype"))
    shapes = [tuple(operand.shape) for operand in (given, product, state)]
    wanted = (*shapes[2][:-1], gates * shapes[2][-1]) if shapes[2] else None
    if not shapes[0] == shapes[1] == wanted:
        expected = f"two of (..., {gates} H) with one of (..., H)"
        raise ShapeError(message(name, " and ".join(map(str, shapes)), expected))


def _by_kernel(name: str, results: int, backward: Callable[..., Sequence[Any]]) -> Implementation:
    needs = Requirements(dtypes=FLOATS)
    return Implementation(name, "one kernel", _plan(name, results), needs, backward=backward)


def zeros_like(like: Any, device: Any) -> Tensor:
    """Zeros of a shape and dtype."""
    return Tensor.zeros(like.shape, like.dtype, device)


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _backward_of(
    name: str, operands: int, results: Sequence[int], reference: Callable[..., Any]
) -> Operator:
    """The gradients of gates as an op: `results` says which operand each has the shape of."""
    return Operator(
        name=name,
        bind=lambda *tensors: (tensors, {}),
        infer=lambda *specs: tuple(specs[i] for i in results),
        reference=lambda *arrays: tuple(
            x.astype(arrays[0].dtype) for x in reference(*map(widened, arrays))
        ),
        implementations=(Implementation(name, "one kernel", _plan(name, len(results))),),
        doc=f"{name}: the gradients of {name.removesuffix('_backward')}, of {operands} operands.",
    )


# -- LSTM ------------------------------------------------------------------------------


def lstm_gates(given: Any, product: Any, cell: Any) -> tuple[Any, Any]:
    """The hidden state and the cell state of an LSTM after a step (Hochreiter, Schmidhuber 1997).

    All have one floating dtype.

    >>> h, c = ag.lstm_gates(nc.zeros(1, 8), nc.zeros(1, 8), nc.ones(1, 2))
    >>> c.tolist()
    [[0.5, 0.5]]

    Args:
        given, product: The products of the step's input and of the hidden state before it with
            their weights, (..., 4 H): input, forget, cell and output gate.
        cell: The cell state before it, (..., H).
    """
    given, product, cell = (ag.as_operand(x) for x in (given, product, cell))
    _check("lstm_gates", 4, given, product, cell)
    i, f, g, o = ag.chunk(ag.add(given, product), 4, -1)
    after = ag.add(ag.mul(ag.sigmoid(f), cell), ag.mul(ag.sigmoid(i), ag.tanh(g)))
    return ag.mul(ag.sigmoid(o), ag.tanh(after)), after


def _infer_lstm(given: Spec, product: Spec, cell: Spec) -> tuple[Spec, Spec]:
    _check("lstm_gates", 4, given, product, cell)
    return cell, cell


def lstm_slopes(given: Any, product: Any, cell: Any, grad: Any, cell_grad: Any) -> Any:
    """The gradients of an LSTM's gates in NumPy: of both products, and of the cell before."""
    i, f, g, o = np.split(given + product, 4, -1)
    i, f, g, o = _logistic(i), _logistic(f), np.tanh(g), _logistic(o)
    t = np.tanh(f * cell + i * g)
    into = cell_grad + grad * o * (1 - t * t)
    slopes = (into * g * i * (1 - i), into * cell * f * (1 - f), into * i * (1 - g * g))
    return np.concatenate([*slopes, grad * t * o * (1 - o)], -1), into * f


_LSTM_BACKWARD: Final = _backward_of("lstm_gates_backward", 3, (0, 2), lstm_slopes)


def _lstm_gradients(saved: Saved, grad: Any, cell_grad: Any) -> Sequence[Any]:
    device = next(gradient.device for gradient in (grad, cell_grad) if gradient is not None)
    given, product, cell = saved.inputs
    whole = [
        zeros_like(cell, device) if gradient is None else gradient for gradient in (grad, cell_grad)
    ]
    slopes, into = _LSTM_BACKWARD(given, product, cell, *whole)
    return [slopes, slopes, into]


LSTM_GATES: Final = composite(
    lstm_gates,
    ("given", "product", "cell"),
    infer=_infer_lstm,
    implementations=(_by_kernel("lstm_gates", 2, _lstm_gradients),),
    parts=(_LSTM_BACKWARD,),
    method=False,
)

# -- GRU -------------------------------------------------------------------------------


def gru_gates(given: Any, product: Any, hidden: Any) -> Any:
    """The hidden state of a GRU after a step (Cho et al. 2014, arXiv:1406.1078).

    All have one floating dtype.

    >>> gates, hidden = nc.zeros(1, 6), nc.ones(1, 2)
    >>> ag.gru_gates(gates, gates, hidden).tolist()
    [[0.5, 0.5]]

    Args:
        given, product: The products of the step's input and of the hidden state before it with
            their weights, (..., 3 H): reset gate, update gate and new state.
        hidden: The hidden state before it, (..., H).
    """
    given, product, hidden = (ag.as_operand(x) for x in (given, product, hidden))
    _check("gru_gates", 3, given, product, hidden)
    r, z, n = ag.chunk(given, 3, -1)
    hr, hz, hn = ag.chunk(product, 3, -1)
    reset, kept = ag.sigmoid(ag.add(r, hr)), ag.sigmoid(ag.add(z, hz))
    new = ag.tanh(ag.add(n, ag.mul(reset, hn)))
    return ag.add(new, ag.mul(kept, ag.sub(hidden, new)))


def _infer_gru(given: Spec, product: Spec, hidden: Spec) -> Spec:
    _check("gru_gates", 3, given, product, hidden)
    return hidden


def gru_slopes(given: Any, product: Any, hidden: Any, grad: Any) -> Any:
    """The gradients of a GRU's gates in NumPy: of its products, and of the state before."""
    r, z, n = np.split(given, 3, -1)
    hr, hz, hn = np.split(product, 3, -1)
    r, z = _logistic(r + hr), _logistic(z + hz)
    n = np.tanh(n + r * hn)
    dn = grad * (1 - z) * (1 - n * n)
    dr, dz = dn * hn * r * (1 - r), grad * (hidden - n) * z * (1 - z)
    return np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1), grad * z


_GRU_BACKWARD: Final = _backward_of("gru_gates_backward", 3, (0, 0, 2), gru_slopes)


def _gru_gradients(saved: Saved, grad: Any) -> Sequence[Any]:
    return list(_GRU_BACKWARD(*saved.inputs, grad))


GRU_GATES: Final = composite(
    gru_gates,
    ("given", "product", "hidden"),
    infer=_infer_gru,
    implementations=(_by_kernel("gru_gates", 1, _gru_gradients),),
    parts=(_GRU_BACKWARD,),
    method=False,
)

OPERATORS: Final = (LSTM_GATES, GRU_GATES)

# -- steps -----------------------------------------------------------------------------


def _tanh(given: Any, product: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ag.tanh(ag.add(given, product)),)


def _relu(given: Any, product: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    return (ag.relu(ag.add(given, product)),)


def _gated(gates: Any, given: Any, product: Any, state: Any) -> Any:
    """Gates in the dtype of the state: an amp policy may have changed that of the products."""
    return gates(given.astype(state.dtype), product.astype(state.dtype), state)


def _lstm(given: Any, product: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_gated(LSTM_GATES, given, product, state[1]))


def _gru(given: Any, product: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_gated(GRU_GATES, given, product, state[0]),)


#: Those that read the two products as a sum alone: both biases can be added before the first step.
SUMMED: Final = ("tanh", "relu", "lstm")
STEPS: Final[Mapping[str, Step]] = {"tanh": _tanh, "relu": _relu, "lstm": _lstm, "gru": _gru}
