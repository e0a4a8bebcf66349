"""`netcl_core.nn.utils.rnn`: sequences of several lengths as one tensor, padded or packed.

Every way between them is one gather of rows, so gradients flow through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class PackedSequence(NamedTuple):
    """The steps of several sequences without padding: all first ones, all second ones, and so on.

    >>> packed = nn.utils.rnn.pack_sequence([nc.tensor([1.0, 2.0, 3.0]), nc.tensor([4.0])])
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1.0, 4.0, 2.0, 3.0], [2, 1, 1])

    The sequences stand from the longest to the shortest. RNN, LSTM and GRU take it in the place of
    a padded tensor, and give one.

    Attributes:
        data: The steps, (sum of the lengths, ...).
        batch_sizes: How many sequences have each step, on the host.
        sorted_indices: Which sequence stands at each place; None: they came in this order.
        unsorted_indices: At which place each sequence stands.
    """

    data: Any
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *target: Any, **options: Any) -> PackedSequence:
        """The same with its data on another device or in another dtype."""
        return self._replace(data=self.data.to(*target, **options))


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A padded tensor without its padding.

    >>> x = nc.tensor([[1, 2], [3, 0]])
    >>> nn.utils.rnn.pack_padded_sequence(x, [2, 1], batch_first=True).data.tolist()
    [1, 3, 2]

    Args:
        input: (L, N, ...), with `batch_first` (N, L, ...).
        lengths: The N lengths, as a list or a tensor.
        batch_first: As above.
        enforce_sorted: Whether the lengths must fall; else the sequences are sorted here.

    Raises AttributeValueError for lengths that rise or are not positive, ShapeError for another
    number of them.
    """
    x = ag.as_operand(input)
    x = x if batch_first else ag.transpose(x, 0, 1)
    sizes = _host(lengths)
    _check_lengths(sizes, x.shape, enforce_sorted)
    order = None if enforce_sorted else np.argsort(-sizes, kind="stable")
    placed = np.arange(len(sizes)) if order is None else order
    counts = _counts(sizes)
    rows = np.concatenate([placed[:count] * x.shape[1] + t for t, count in enumerate(counts)])
    data = _rows(ag.reshape(x, (-1, *x.shape[2:])), rows)
    batch_sizes = Tensor.from_host(counts, "numpy")
    if order is None:
        return PackedSequence(data, batch_sizes)
    indices = (Tensor.from_host(each, x.device) for each in (order, np.argsort(order)))
    return PackedSequence(data, batch_sizes, *indices)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Tensor]:
    """The padded tensor of packed sequences, in their first order, and their lengths.

    >>> packed = nn.utils.rnn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])])
    >>> padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    >>> padded.tolist(), lengths.tolist()
    ([[1.0, 2.0], [3.0, 0.0]], [2, 1])

    Args:
        sequence: What `pack_padded_sequence` gives.
        batch_first: Whether the result is (N, L, ...) and not (L, N, ...).
        padding_value: What stands behind the ends.
        total_length: L; default: the greatest length.

    Raises AttributeValueError if a sequence is longer than `total_length`.
    """
    counts = _host(sequence.batch_sizes)
    steps = len(counts) if total_length is None else total_length
    if steps < len(counts):
        given = f"total_length={steps}"
        raise AttributeValueError(message("pad_packed_sequence", given, f"{len(counts)} or more"))
    places = np.arange(counts[0])
    if sequence.unsorted_indices is not None:
        places = _host(sequence.unsorted_indices)
    lengths = (counts[:, None] > places).sum(0)
    begins = np.array([0, *accumulate(counts)][: len(counts)])
    places_in_rows = np.full((steps, len(places)), len(sequence.data))
    places_in_rows[: len(counts)] = begins[:, None] + places
    places_in_rows[np.arange(steps)[:, None] >= lengths] = len(sequence.data)
    places_in_rows = places_in_rows.T if batch_first else places_in_rows
    return _padded(sequence.data, places_in_rows, padding_value), Tensor.from_host(lengths, "numpy")


def pad_sequence(
    sequences: Sequence[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Tensors (length, ...) as one, (L, N, ...) or with `batch_first` (N, L, ...).

    >>> nn.utils.rnn.pad_sequence([nc.tensor([1, 2]), nc.tensor([3])], batch_first=True).tolist()
    [[1, 2], [3, 0]]

    Raises AttributeValueError for no sequences, or another `padding_side` than left and right.

    Args:
        padding_value: What is put behind shorter ones.
    """
    if not len(sequences):
        raise AttributeValueError(message("pad_sequence", "no sequences", "at least one"))
    if padding_side not in ("left", "right"):
        given = f"padding_side={padding_side!r}"
        raise AttributeValueError(message("pad_sequence", given, "'left' or 'right'"))
    sizes = np.array([len(sequence) for sequence in sequences])
    ends = np.cumsum(sizes)
    at = np.arange(sizes.max()) - (padding_side == "left") * (sizes.max() - sizes)[:, None]
    sources = np.where((at < 0) | (at >= sizes[:, None]), ends[-1], (ends - sizes)[:, None] + at)
    return _padded(ag.cat(list(sequences)), sources if batch_first else sources.T, padding_value)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The tensors that `pad_sequence` has put together.

    >>> padded = nc.tensor([[1.0, 2.0], [3.0, 0.0]])
    >>> rows = nn.utils.rnn.unpad_sequence(padded, nc.tensor([2, 1]), batch_first=True)
    >>> [each.tolist() for each in rows]
    [[1.0, 2.0], [3.0]]

    Args:
        padded_sequences: Sequences that are padded behind.
        lengths: The length of each.
    """
    x = padded_sequences if batch_first else ag.transpose(padded_sequences, 0, 1)
    return [x[i, :length] for i, length in enumerate(_host(lengths).tolist())]


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (length, ...) as packed sequences.

    >>> nn.utils.rnn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])]).data.tolist()
    [1.0, 3.0, 2.0]

    Args:
        enforce_sorted: Whether the sequences have to be sorted by length, the longest first.
    """
    lengths = [len(sequence) for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, False, enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The tensors that `pack_sequence` has put together.

    >>> packed = nn.utils.rnn.pack_sequence([nc.tensor([1.0, 2.0]), nc.tensor([3.0])])
    >>> [each.tolist() for each in nn.utils.rnn.unpack_sequence(packed)]
    [[1.0, 2.0], [3.0]]

    Args:
        packed_sequences: A PackedSequence.
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Where each place of a permutation went; None of None.

    >>> nn.utils.rnn.invert_permutation(nc.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    if permutation is None:
        return None
    return Tensor.from_host(np.argsort(_host(permutation)), permutation.device)


def _host(values: Any) -> Any:
    """Whole numbers as an array."""
    return np.asarray(values.to_host() if isinstance(values, Tensor) else values, np.int64)


def _check_lengths(sizes: Any, shape: Sequence[int], falling: bool) -> None:
    who = "pack_padded_sequence"
    if sizes.shape != shape[:1]:
        given = f"{sizes.size} lengths for {shape[0]} sequences"
        raise ShapeError(message(who, given, "one for each"))
    if not sizes.size or sizes.min() < 1 or sizes.max() > shape[1]:
        expected = f"lengths of 1 to {shape[1]}"
        raise AttributeValueError(message(who, f"lengths {sizes.tolist()}", expected))
    if falling and (np.diff(sizes) > 0).any():
        remedy = "Pass enforce_sorted=False"
        given = f"lengths that rise: {sizes.tolist()}"
        raise AttributeValueError(message(who, given, "the longest first", remedy))


def _counts(sizes: Any) -> Any:
    """How many sequences have each step."""
    return (np.arange(sizes.max())[:, None] < sizes).sum(1)


def _rows(x: Any, rows: Any) -> Any:
    return ag.index_select(x, 0, Tensor.from_host(rows, x.device))


def _padded(rows: Any, places: Any, value: float) -> Any:
    """Rows at places (one past the last: padding), in the shape of the places."""
    padding = ag.full_like(rows[:1], value)
    padded = _rows(ag.cat([rows, padding]), places.reshape(-1))
    return ag.reshape(padded, (*places.shape, *rows.shape[1:]))
