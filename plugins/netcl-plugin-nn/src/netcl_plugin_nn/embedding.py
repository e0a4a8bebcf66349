"""Embedding: a table of vectors, looked up by index."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module


class Embedding(Module):
    """Rows of `weight`, of shape (num_embeddings, embedding_dim), picked by indices.

    The rows start normally distributed, as in PyTorch.

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The size of a row.
        padding_idx: The index (negative: from the end) of a row that starts as zeros and
            gets no gradient.
    """

    weight: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if num_embeddings < 1 or embedding_dim < 1:
            given = f"({num_embeddings}, {embedding_dim})"
            raise AttributeValueError(message("Embedding", given, "positive numbers"))
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        shape = (num_embeddings, embedding_dim)
        self.weight = Tensor.empty(shape, dtype, device).requires_grad_()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew; the padding row becomes zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            values = self.weight.to_host()
            values[self.padding_idx] = 0
            self.weight.copy_(values)

    def forward(self, input: Any) -> Any:
        """Indices of any shape to (*shape, embedding_dim).

        Raises AttributeValueError if an index is out of range.
        """
        index = ag.as_operand(input, self.weight.device)
        rows = ag.embedding(index, self.weight)
        if self.padding_idx is None:
            return rows
        padding = ag.unsqueeze(ag.eq(index, self.padding_idx), -1)
        return ag.where(padding, rows.detach(), rows)

    def extra_repr(self) -> str:
        """The settings."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _row(index: int | None, count: int) -> int | None:
    """A non-negative row index; raises AttributeValueError if it is out of range."""
    if index is None:
        return None
    if not -count <= index < count:
        given = f"padding_idx={index} of {count} rows"
        raise AttributeValueError(message("Embedding", given, f"{-count} to {count - 1}"))
    return int(np.mod(index, count))
