"""Dropout: elements or whole channels zeroed at random in training."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module


class Dropout(Module):
    """Zeroes each element with probability `p` in training and scales the others by 1 / (1 - p).

    `netcl_core.manual_seed(n)` makes it repeatable. `eval()` makes it the identity.
    (Hinton et al. 2012, arXiv:1207.0580)

    Args:
        p: The probability.
        inplace: Changes nothing: the result is a new tensor.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise AttributeValueError(
                message(type(self).__name__, f"p={p!r}", "a probability, 0 to 1")
            )
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """`input` of any shape to the same shape."""
        return ag.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class _ChannelDropout(Dropout):
    """The same for whole channels: of a sample and channel all elements are zeroed, or none."""

    ranks: ClassVar[tuple[int, ...]]  # of inputs, those without a batch first
    lead: ClassVar[tuple[int, ...]]  # how many dimensions of each tell channels apart

    def forward(self, input: Any) -> Any:
        """`input` to the same shape; raises ShapeError for another number of dimensions."""
        if input.ndim not in self.ranks:
            expected = " or ".join(map(str, self.ranks)) + " dimensions"
            raise ShapeError(
                message(type(self).__name__, f"input of shape {tuple(input.shape)}", expected)
            )
        if not (self.training and self.p):
            return input
        lead = self.lead[self.ranks.index(input.ndim)]
        ones = Tensor.ones(
            (*input.shape[:lead], *(1,) * (input.ndim - lead)), input.dtype, input.device
        )
        return ag.mul(input, ag.dropout(ones, self.p))


class Dropout1d(_ChannelDropout):
    """Whole channels of (N, C, L) or (C, L) zeroed (Tompson et al. 2015, arXiv:1411.4280)."""

    ranks, lead = (2, 3), (1, 2)


class Dropout2d(_ChannelDropout):
    """Whole channels of (N, C, H, W) zeroed; of (N, C, L) too, as in PyTorch.

    >>> nc.manual_seed(0)
    >>> kept = nn.Dropout2d(0.5)(nc.ones(1, 6, 2, 2)).numpy()
    >>> bool(np.all(kept == kept[..., :1, :1]))
    True
    """

    ranks, lead = (3, 4), (2, 2)


class Dropout3d(_ChannelDropout):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zeroed."""

    ranks, lead = (4, 5), (1, 2)
