"""Embedding, a table of vectors looked up by index, and EmbeddingBag, sums and means of them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter, as_leaf, owned

Self = TypeVar("Self", bound="_EmbeddingTable")


class _EmbeddingTable(Module):
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

    def _limit(self, max_norm: Any, norm_type: float, by_frequency: bool) -> None:
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = by_frequency

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

    def _limits(self) -> str:
        given = {
            "max_norm": (self.max_norm, None),
            "norm_type": (self.norm_type, 2),
            "scale_grad_by_freq": (self.scale_grad_by_freq, False),
        }
        shown = [f"{name}={value}" for name, (value, usual) in given.items() if value != usual]
        return "".join(f", {argument}" for argument in shown)


class Embedding(_EmbeddingTable):
    """Rows of `weight`, of shape (num_embeddings, embedding_dim), picked by indices.

    The rows start normally distributed, as in PyTorch.

    >>> layer = nn.Embedding(1000, 16, padding_idx=0)
    >>> layer(nc.tensor([[1, 2, 0], [4, 5, 0]])).shape
    (2, 3, 16)
    >>> layer.weight[0].sum().item()
    0.0

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        padding_idx: The index (negative: from the end) of a row that starts as zeros and
            gets no gradient.
        max_norm, norm_type, scale_grad_by_freq: As of `ag.embedding_bag`.
        sparse: Has no effect: gradients are dense.
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
        self._limit(max_norm, norm_type, scale_grad_by_freq)
        self._set_up((num_embeddings, embedding_dim), padding_idx, _weight, device, dtype)

    def forward(self, input: Any) -> Any:
        """Indices of any shape to (*shape, embedding_dim).

        Raises AttributeValueError if an index is out of range.
        """
        index = ag.as_operand(input, self.weight.device)
        norms = (self.max_norm, self.norm_type, self.scale_grad_by_freq)
        return ag.embedding(index, self.weight, self.padding_idx, *norms)

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}{self._limits()}"


class EmbeddingBag(_EmbeddingTable):
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
        max_norm, norm_type, scale_grad_by_freq: As of `ag.embedding_bag`.
        sparse: Has no effect: gradients are dense.
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
        self._limit(max_norm, norm_type, scale_grad_by_freq)
        if mode not in ("sum", "mean", "max"):
            raise AttributeValueError(
                message("EmbeddingBag", f"mode={mode!r}", "'sum', 'mean' or 'max'")
            )
        self.mode, self.include_last_offset = mode, include_last_offset
        self._set_up((num_embeddings, embedding_dim), padding_idx, _weight, device, dtype)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """(bags, embedding_dim); arguments as of `ag.embedding_bag`."""
        return ag.embedding_bag(
            ag.as_operand(input, self.weight.device), self.weight, offsets, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.mode, False, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        sizes = f"{self.num_embeddings}, {self.embedding_dim}{self._limits()}"
        return f"{sizes}, mode={self.mode!r}{padding}"


def _row(who: str, index: int | None, count: int) -> int | None:
    """A non-negative row index; raises AttributeValueError if it is out of range."""
    if index is None:
        return None
    if not -count <= index < count:
        given = f"padding_idx={index} of {count} rows"
        raise AttributeValueError(message(who, given, f"{-count} to {count - 1}"))
    return int(np.mod(index, count))
