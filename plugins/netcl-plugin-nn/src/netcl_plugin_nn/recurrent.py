"""Recurrent layers over sequences: RNN, LSTM and GRU; all steps' input products are one matmul."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.gates import SUMMED
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.packing import PackedSequence, pack_padded_sequence, pad_packed_sequence
from netcl_plugin_nn.parameters import owned
from netcl_plugin_nn.sequences import SEQUENCES, unrolled

_DIRECTIONS: Final = ("", "_reverse")


class RNNBase(Module):
    """What all have in common: the weights, the layers and directions, and the loop over steps.

    >>> isinstance(nn.LSTM(2, 3), nn.RNNBase)
    True

    Weights have PyTorch's names: `weight_ih_l0` (gates * hidden_size, input), `weight_hh_l0`,
    `bias_ih_l0`, `bias_hh_l0`, with `_reverse` of the second direction. All start uniform in
    +-1/sqrt(hidden_size).

    Its arguments are as of `LSTM`.
    """

    gates: ClassVar[int]  # rows of weights for each element of the hidden state
    states: ClassVar[int] = 1  # tensors that a step hands to the next one
    step: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._check_settings()
        rows, kept = self.gates * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else kept * len(self._directions)
            for direction in self._directions:
                shapes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, columns),
                    "weight_hh": (rows, kept),
                }
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    parameter = owned(Tensor.empty(shape, dtype, device))
                    setattr(self, f"{name}_l{layer}{direction}", parameter)
        self.reset_parameters()

    @property
    def _directions(self) -> tuple[str, ...]:
        return _DIRECTIONS if self.bidirectional else _DIRECTIONS[:1]

    def _check_settings(self) -> None:
        who = type(self).__name__
        sizes = (self.input_size, self.hidden_size, self.num_layers)
        if min(sizes) < 1:
            given = "input_size={}, hidden_size={}, num_layers={}".format(*sizes)
            raise AttributeValueError(message(who, given, "positive numbers"))
        if not isinstance(self.bias, bool):
            raise ArgumentError(message(who, f"bias={self.bias!r}", "True or False"))
        if not 0 <= self.dropout <= 1:
            given = f"dropout={self.dropout}"
            raise AttributeValueError(message(who, given, "a probability, 0 to 1"))
        if not 0 <= self.proj_size < self.hidden_size:
            given = f"proj_size={self.proj_size}"
            raise AttributeValueError(message(who, given, "0, or less than hidden_size"))
        if self.dropout and self.num_layers == 1:
            text = f"{who}: dropout={self.dropout} stands between layers, and there is one layer"
            warnings.warn(text, stacklevel=4)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing: weights need no common memory here. PyTorch's programs call it."""

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The last layer's hidden states of all steps, and the states after the last step.

        Args:
            input: (L, N, input_size), with `batch_first` (N, L, input_size), without a batch
                (L, input_size), or a `PackedSequence`.
            hx: The states before the first step, (layers * directions, N, hidden_size), of an
                LSTM a tuple of two; None: zeros.

        Returns:
            `output` like the input with directions * hidden_size in the place of input_size, and
            `h_n` like `hx`.
        """
        if isinstance(input, PackedSequence):
            return self._of_packed(input, hx)
        x = ag.as_operand(input, next(self.parameters()).device)
        x, batched = self._time_first(x), x.ndim == 3
        x, after = self._layers(x, self._begin(x, hx, batched))
        if not batched:
            return ag.squeeze(x, 1), self._packed([ag.squeeze(state, 1) for state in after])
        return ag.transpose(x, 0, 1) if self.batch_first else x, self._packed(after)

    def _of_packed(self, given: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """The same of packed sequences; states have the order in which the sequences came."""
        x, lengths = pad_packed_sequence(given._replace(unsorted_indices=None))
        begin = self._begin(x, hx, True, given.sorted_indices)
        x, after = self._layers(x, begin, given.batch_sizes.to_host().tolist())
        data = pack_padded_sequence(x, lengths).data
        if given.unsorted_indices is not None:
            after = [ag.index_select(state, 1, given.unsorted_indices) for state in after]
        return given._replace(data=data), self._packed(after)

    def _layers(
        self, x: Any, begin: list[tuple[Any, ...]], counts: Sequence[int] = ()
    ) -> tuple[Any, list[Any]]:
        """All layers on (L, N, input_size): the outputs, and the states after the last steps.

        `counts`: how many of the sequences, the first ones, have each step; none: all have all.
        """
        present = _present(counts, x)
        ends: list[Sequence[Any]] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = ag.dropout(x, self.dropout, self.training)
            results = [
                self._run(x, begin[len(ends) + i], layer, direction, present)
                for i, direction in enumerate(self._directions)
            ]
            ends += [end for _, end in results]
            outputs = [output for output, _ in results]
            x = outputs[0] if len(outputs) == 1 else ag.cat(outputs, -1)
        return x, [ag.stack(states) for states in zip(*ends, strict=True)]

    def _packed(self, states: list[Any]) -> Any:
        """The states as the caller has them: one tensor, or a tuple of two."""
        return states[0] if self.states == 1 else tuple(states)

    def _time_first(self, x: Any) -> Any:
        """(L, N, input_size), whatever was given; raises ShapeError for anything else."""
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            layout = "(N, L, {0})" if self.batch_first else "(L, N, {0})"
            expected = f"{layout} or (L, {{0}})".format(self.input_size)
            raise ShapeError(message(type(self).__name__, f"input of shape {x.shape}", expected))
        if x.ndim == 2:
            steps_first = ag.unsqueeze(x, 1)
        else:
            steps_first = ag.transpose(x, 0, 1) if self.batch_first else x
        if not steps_first.shape[0]:
            raise ShapeError(message(type(self).__name__, "a sequence of no steps", "at least one"))
        return steps_first

    def _begin(self, x: Any, hx: Any, batched: bool, order: Any = None) -> list[tuple[Any, ...]]:
        """The states before the first step, of each layer and direction; sequences in `order`."""
        count, size = self.num_layers * len(self._directions), self.hidden_size
        sizes = (self.proj_size or size, size)[: self.states]
        if hx is None:
            zeros = [Tensor.zeros((x.shape[1], each), x.dtype, x.device) for each in sizes]
            return [tuple(zeros)] * count
        given = [ag.as_operand(state, x.device) for state in (hx if self.states > 1 else (hx,))]
        if not batched:
            given = [
                ag.unsqueeze(state_of, 1) if state_of.ndim == 2 else state_of for state_of in given
            ]
        wanted = [(count, x.shape[1], each) for each in sizes]
        if [state_of.shape for state_of in given] != wanted:
            shapes = " and ".join(str(state_of.shape) for state_of in given)
            expected = " and ".join(map(str, wanted))
            raise ShapeError(message(type(self).__name__, f"hx of shape {shapes}", expected))
        if order is not None:
            given = [ag.index_select(state_of, 1, order) for state_of in given]
        return list(zip(*[ag.unbind(state_of) for state_of in given], strict=True))

    def _run(
        self, x: Any, state: tuple[Any, ...], layer: int, direction: str, present: Sequence[Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        """All steps of one layer in one direction: the outputs, and the states after the last."""

        def weight(name: str) -> Any:
            return getattr(self, f"{name}_l{layer}{direction}", None)

        given, bias = weight("bias_ih"), weight("bias_hh")
        if self.bias and self.step in SUMMED:  # one gradient of it, and not one for each step
            given, bias = ag.add(given, bias), None
        products = ag.linear(x, weight("weight_ih"), given)
        matrix, projection = weight("weight_hh"), weight("weight_hr")
        plain = projection is None and not present
        whole = SEQUENCES.get(self.step) if plain else None
        if whole is not None and {products.dtype, *(part.dtype for part in state)} == {
            matrix.dtype
        }:
            results = whole(products, *state, matrix, bias, reverse=bool(direction))
        else:
            more = projection, bool(direction), present
            results = unrolled(self.step, products, state, matrix, bias, *more)
        return results[0], tuple(results[1:])

    def extra_repr(self) -> str:
        """The sizes, and the settings that are not the default ones."""
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
            "bidirectional": False,
        }  # fmt: skip
        given = [(name, getattr(self, name)) for name in usual]
        more = [f"{name}={value}" for name, value in given if value != usual[name]]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *more])


def _present(counts: Sequence[int], x: Any) -> list[Any]:
    """Per step which sequences have it, (N, 1); None: all. Nothing where all have all."""
    masks: dict[int, Any] = {x.shape[1]: None}
    for count in counts:
        if count not in masks:
            masks[count] = Tensor.from_host(np.arange(x.shape[1])[:, None] < count, x.device)
    return [masks[count] for count in counts]


class RNN(RNNBase):
    """`h = tanh(W_ih x + b_ih + W_hh h + b_hh)` step by step (Elman 1990), or with relu.

    >>> output, h_n = nn.RNN(3, 5, num_layers=2)(nc.zeros(7, 4, 3))
    >>> output.shape, h_n.shape
    ((7, 4, 5), (2, 4, 5))

    Args:
        input_size, hidden_size: The sizes of a step's input and state.
        num_layers: How many layers; each gets the outputs of the one below.
        nonlinearity: 'tanh' or 'relu'.
        bias: Whether there are `bias_ih` and `bias_hh`.
        batch_first: Whether input and output are (N, L, size) and not (L, N, size).
        dropout: Of the outputs of each layer but the last, in training.
        bidirectional: Whether there is a second direction, from the last step to the first.
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = self.step = checked_nonlinearity("RNN", nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter, Schmidhuber 1997): a cell state behind gates.

    `i, f, g, o = split(W_ih x + b_ih + W_hh h + b_hh)`, `c = sigmoid(f) c + sigmoid(i) tanh(g)`,
    `h = sigmoid(o) tanh(c)`; with `proj_size` then `h = W_hr h` (arXiv:1402.1128).

    >>> output, (h_n, c_n) = nn.LSTM(3, 5, batch_first=True, bidirectional=True)(nc.zeros(4, 7, 3))
    >>> output.shape, h_n.shape, c_n.shape
    ((4, 7, 10), (2, 4, 5), (2, 4, 5))

    Arguments as of RNN, without `nonlinearity`, and `proj_size`, the size of a projected state.

    Its arguments are as of `RNN`.
    """

    gates, states, step = 4, 2, "lstm"


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014, arXiv:1406.1078).

    With x' = W_ih x + b_ih and h' = W_hh h + b_hh, each in three parts: `r = sigmoid(x'_r + h'_r)`,
    `z = sigmoid(x'_z + h'_z)`, `n = tanh(x'_n + r h'_n)`, `h = (1 - z) n + z h`.

    >>> output, h_n = nn.GRU(3, 5, batch_first=True)(nc.rand(4, 7, 3))
    >>> output.shape, h_n.shape
    ((4, 7, 5), (1, 4, 5))

    Arguments as of RNN, without `nonlinearity`.

    Its arguments are as of `LSTM`.
    """

    gates, step = 3, "gru"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
            device=device, dtype=dtype,
        )  # fmt: skip


def checked_nonlinearity(who: str, name: str) -> str:
    """'tanh' or 'relu'; raises AttributeValueError for anything else."""
    if name not in ("tanh", "relu"):
        raise AttributeValueError(message(who, f"nonlinearity={name!r}", "'tanh' or 'relu'"))
    return name
