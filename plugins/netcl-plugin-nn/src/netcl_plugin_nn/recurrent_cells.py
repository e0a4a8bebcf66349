"""Single steps of recurrent layers: RNNCell, LSTMCell, GRUCell."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.gates import STEPS
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned
from netcl_plugin_nn.recurrent import checked_nonlinearity


class _Cell(Module):
    """The weights of one step: `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`, as of RNNBase."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    step: str
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if min(input_size, hidden_size) < 1:
            given = f"({input_size}, {hidden_size})"
            raise AttributeValueError(message(type(self).__name__, given, "positive sizes"))
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = self.gates * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        for name, shape in (shapes | {"bias_ih": (rows,), "bias_hh": (rows,)}).items():
            there = bias or name in shapes
            parameter = owned(Tensor.empty(shape, dtype, device)) if there else None
            self.register_parameter(name, parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew: uniform in +-1/sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The state after a step, of an LSTMCell `(h, c)`.

        Args:
            input: (N, input_size) or (input_size,).
            hx: The state before, (N, hidden_size) or (hidden_size,), of an LSTMCell a tuple of
                two; None: zeros.
        """
        x = ag.as_operand(input, self.weight_ih.device)
        lead, kept = x.shape[:-1], (*x.shape[:-1], self.hidden_size)
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            expected = f"(N, {self.input_size}) or ({self.input_size},)"
            raise ShapeError(message(type(self).__name__, f"input of shape {x.shape}", expected))
        if hx is None:
            state: tuple[Any, ...] = (Tensor.zeros(kept, x.dtype, x.device),) * self.states
        else:
            given = hx if self.states > 1 else (hx,)
            state = tuple(ag.as_operand(operand, x.device) for operand in given)
        if [part.shape for part in state] != [kept] * self.states:
            shapes = " and ".join(str(part.shape) for part in state)
            raise ShapeError(message(type(self).__name__, f"hx of shape {shapes}", f"{kept}"))
        if not lead:
            x, state = ag.unsqueeze(x, 0), tuple(ag.unsqueeze(part, 0) for part in state)
        products = (
            ag.linear(x, self.weight_ih, self.bias_ih),
            ag.linear(state[0], self.weight_hh, self.bias_hh),
        )
        state_after = STEPS[self.step](*products, state)
        state_after = state_after if lead else tuple(ag.squeeze(part, 0) for part in state_after)
        return state_after if self.states > 1 else state_after[0]

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the default ones."""
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")
        other = getattr(self, "nonlinearity", "tanh") != "tanh"
        return text + (f", nonlinearity={self.step}" if other else "")


class RNNCell(_Cell):
    """One step of an RNN: `tanh(W_ih x + b_ih + W_hh h + b_hh)`, or with relu.

    >>> nn.RNNCell(3, 5)(nc.zeros(4, 3)).shape
    (4, 5)

    Args:
        input_size: How many features an element has.
        hidden_size: How many features the state has.
        bias: Whether there is a bias.
        nonlinearity: 'tanh' or 'relu'.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = self.step = checked_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)


class LSTMCell(_Cell):
    """One step of an LSTM: takes and gives `(h, c)`.

    >>> h, c = nn.LSTMCell(3, 5)(nc.rand(4, 3))
    >>> h.shape, c.shape
    ((4, 5), (4, 5))

    Args:
        input_size: How many features an element has.
        hidden_size: How many features the state has.
        bias: Whether there is a bias.
    """

    gates, states, step = 4, 2, "lstm"


class GRUCell(_Cell):
    """One step of a GRU.

    >>> nn.GRUCell(3, 5)(nc.rand(4, 3)).shape
    (4, 5)

    Args:
        input_size: How many features an element has.
        hidden_size: How many features the state has.
        bias: Whether there is a bias.
    """

    gates, step = 3, "gru"
