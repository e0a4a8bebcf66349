"""Dropout: elements zeroed at random in training."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn.module import Module


class Dropout(Module):
    """Zeroes each element with probability `p` in training and scales the others by 1 / (1 - p).

    `netcl_core.manual_seed(n)` makes it repeatable. `eval()` makes it the identity.
    (Hinton et al. 2012, arXiv:1207.0580)
    """

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise AttributeValueError(message("Dropout", f"p={p!r}", "a probability, 0 to 1"))
        self.p = p

    def forward(self, x: Any) -> Any:
        """`x` of any shape to the same shape."""
        return ag.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"
