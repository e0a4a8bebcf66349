"""Embedding, a table of vectors looked up by index, and EmbeddingBag, sums and means of them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter, as_leaf, owned

Self = TypeVar("Self", bound="_Table")


class _Table(Module):
    """The table: `weight` of shape (num_embeddings, embedding_dim), and the row that is padding."""

    weight: Tensor
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _set_up(
        self, sizes: tuple[int, int], padding_idx: int | None, weight: Any, device: Any, dtype: Any
    ) -> None:
        who = type(self).__name__
        if min(sizes) < 1:
            raise AttributeValueError(message(who, f"{sizes}", "positive numbers"))
        self.num_embeddings, self.embedding_dim = sizes
        self.padding_idx = _row(who, padding_idx, sizes[0])
        if weight is None:
            self.weight = owned(Tensor.empty(sizes, dtype, device))
            self.reset_parameters()
        elif tuple(weight.shape) != sizes:
            raise ShapeError(message(who, f"a weight of shape {tuple(weight.shape)}", f"{sizes}"))
        else:
            self.register_parameter("weight", weight)

    def reset_parameters(self) -> None:
        """Draw the weight anew; the padding row becomes zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            values = self.weight.to_host()
            values[self.padding_idx] = 0
            self.weight.overwrite(values)

    @classmethod
    def from_pretrained(
        cls: type[Self], embeddings: Any, freeze: bool = True, **settings: Any
    ) -> Self:
        """A layer with a given table, whose memory it shares if that is a tensor.

        >>> table = nc.tensor(np.eye(3, dtype=np.float32))
        >>> nn.Embedding.from_pretrained(table)(nc.tensor([2])).tolist()
        [[0.0, 0.0, 1.0]]

        Args:
            embeddings: The table, (num_embeddings, embedding_dim), a tensor or an array.
            freeze: Whether it is not trained.
            settings: As of the class, without the sizes.
        """
        leaf = as_leaf(embeddings)
        table = Tensor.from_host(embeddings) if leaf is None else leaf
        if table.ndim != 2:
            raise ShapeError(
                message(cls.__name__, f"a table of shape {table.shape}", "two dimensions")
            )
        return cls(*table.shape, _weight=Parameter(table, not freeze), **settings)

    def _rows(self, index: Any) -> Any:
        """Rows by index, without a gradient for the padding row."""
        return ag.embedding(index, self.weight, self.padding_idx)

    def _is_padding(self, index: Any) -> Any:
        return ag.unsqueeze(ag.eq(index, self.padding_idx), -1)


class Embedding(_Table):
    """Rows of `weight`, of shape (num_embeddings, embedding_dim), picked by indices.

    The rows start normally distributed, as in PyTorch.

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        padding_idx: The index (negative: from the end) of a row that starts as zeros and
            gets no gradient.
        max_norm, norm_type, scale_grad_by_freq, sparse: Only PyTorch's defaults are there.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        _refuse("Embedding", max_norm, scale_grad_by_freq, sparse)
        self._set_up((num_embeddings, embedding_dim), padding_idx, _weight, device, dtype)

    def forward(self, input: Any) -> Any:
        """Indices of any shape to (*shape, embedding_dim).

        Raises AttributeValueError if an index is out of range.
        """
        return self._rows(ag.as_operand(input, self.weight.device))

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows that each bag of indices names.

    >>> bag = nn.EmbeddingBag.from_pretrained(np.eye(3, dtype=np.float32), mode="sum")
    >>> bag(nc.tensor([0, 2, 2]), nc.tensor([0, 1])).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        mode: 'sum', 'mean' or 'max'.
        include_last_offset: Whether `offsets` ends with the number of indices.
        padding_idx: A row that counts in no bag.
        max_norm, norm_type, scale_grad_by_freq, sparse: Only PyTorch's defaults are there.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        _refuse("EmbeddingBag", max_norm, scale_grad_by_freq, sparse)
        if mode not in ("sum", "mean", "max"):
            raise AttributeValueError(
                message("EmbeddingBag", f"mode={mode!r}", "'sum', 'mean' or 'max'")
            )
        self.mode, self.include_last_offset = mode, include_last_offset
        self._set_up((num_embeddings, embedding_dim), padding_idx, _weight, device, dtype)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """(bags, embedding_dim).

        Args:
            input: Indices: (bags, size), or all bags one after the other, (indices,).
            offsets: Where each bag of the latter begins. They are read by the host.
            per_sample_weights: A factor for each index, with mode 'sum'.
        """
        index = ag.as_operand(input, self.weight.device)
        factors, there = self._factors(index, per_sample_weights), None
        if index.ndim != (2 if offsets is None else 1):
            given = f"input of shape {index.shape} with{'out' if offsets is None else ''} offsets"
            expected = "(bags, size) without offsets, or (indices,) with them"
            raise ShapeError(message("EmbeddingBag", given, expected))
        if offsets is not None:
            places, there = self._padded(index.shape[0], offsets)
            index = _taken(index, places)
            factors = None if factors is None else _taken(factors, places)
        return self._reduced(index, factors, there)

    def _factors(self, index: Any, weights: Any) -> Any:
        if weights is None:
            return None
        given = ag.as_operand(weights, index.device)
        if self.mode != "sum" or given.shape != index.shape:
            text = f"per_sample_weights of shape {given.shape} with mode={self.mode!r}"
            expected = f"mode='sum', and the shape {index.shape} of the input"
            raise ArgumentError(message("EmbeddingBag", text, expected))
        return given

    def _padded(self, count: int, offsets: Any) -> tuple[Any, Any]:
        """A row for each bag: the positions of its indices, and which of these are there."""
        begins = np.asarray(offsets.to_host() if isinstance(offsets, Tensor) else offsets)
        ends = begins[1:] if self.include_last_offset else np.append(begins[1:], count)
        begins = begins[: len(ends)]
        if len(begins) and (begins[0] != 0 or (ends < begins).any() or ends[-1] > count):
            given = f"offsets {begins.tolist()} for {count} indices"
            raise AttributeValueError(
                message("EmbeddingBag", given, "0 first, and none that falls")
            )
        longest = max(1, int((ends - begins).max(initial=0)))
        places = begins[:, None] + np.arange(longest)
        there = places < ends[:, None]
        return np.where(there, places, 0).astype(np.int64), there

    def _reduced(self, index: Any, factors: Any, there: Any) -> Any:
        """Rows (bags, size, embedding_dim) to (bags, embedding_dim)."""
        if not index.size:
            return Tensor.zeros(
                (index.shape[0], self.embedding_dim), self.weight.dtype, index.device
            )
        rows, counts = self._rows(index), self._counts(index, there)
        if factors is not None:
            rows = ag.mul(rows, ag.unsqueeze(factors, -1))
        if counts is None:
            return ag.amax(rows, 1) if self.mode == "max" else getattr(ag, self.mode)(rows, 1)
        if self.mode != "max":
            total = ag.sum(ag.where(counts, rows, 0.0), 1)
            if self.mode == "sum":
                return total
            return ag.div(total, ag.clamp(ag.sum(counts.astype(rows.dtype), 1), 1.0))
        largest = ag.amax(ag.where(counts, rows, -np.inf), 1)
        return ag.where(ag.amax(counts, 1), largest, 0.0)

    def _counts(self, index: Any, there: Any) -> Any:
        """(bags, size, 1): which rows count; None: all."""
        found = None if there is None else Tensor.from_host(there[..., None], index.device)
        if self.padding_idx is None:
            return found
        real = ag.logical_not(self._is_padding(index))
        return real if found is None else ag.logical_and(found, real)

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}{padding}"


def _taken(x: Any, places: Any) -> Any:
    """Elements of a vector by their positions, in the shape of these."""
    if not x.size:
        return ag.reshape(x, (places.shape[0], 0))
    flat = Tensor.from_host(places.reshape(-1), x.device)
    return ag.reshape(ag.index_select(x, 0, flat), places.shape)


def _refuse(who: str, max_norm: Any, scale_grad_by_freq: bool, sparse: bool) -> None:
    """Raise AttributeValueError for settings of PyTorch's that are not there."""
    given = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    for name, value in given.items():
        if value is not None and value is not False:
            expected = f"{name}={None if name == 'max_norm' else False}"
            raise AttributeValueError(
                message(who, f"{name}={value!r}", f"{expected}, the only form")
            )


def _row(who: str, index: int | None, count: int) -> int | None:
    """A non-negative row index; raises AttributeValueError if it is out of range."""
    if index is None:
        return None
    if not -count <= index < count:
        given = f"padding_idx={index} of {count} rows"
        raise AttributeValueError(message(who, given, f"{-count} to {count - 1}"))
    return int(np.mod(index, count))
