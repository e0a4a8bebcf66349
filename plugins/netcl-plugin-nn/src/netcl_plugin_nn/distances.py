"""Distances as modules: CosineSimilarity and PairwiseDistance."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_plugin_nn.module import Module


class CosineSimilarity(Module):
    """`x1 . x2 / max(|x1| |x2|, eps)` along `dim`.

    >>> x, y = nc.tensor([[3.0, 4.0]]), nc.tensor([[4.0, 3.0]])
    >>> nn.CosineSimilarity(dim=1)(x, y).numpy().round(3)
    array([0.96], dtype=float32)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """Two tensors to one without dimension `dim`."""
        return ag.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last dimension.

    The shapes of both broadcast; the result lacks the last dimension.

    >>> nn.PairwiseDistance()(nc.tensor([[3.0, 4.0]]), nc.zeros(1, 2)).numpy().round(3)
    array([5.], dtype=float32)
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """Two tensors (..., D) to (...), or (..., 1) with `keepdim`."""
        return ag.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
