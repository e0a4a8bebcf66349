"""Dropout: elements or whole channels zeroed at random in training."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn.module import Module


class Dropout(Module):
    """Zeroes each element with probability `p` in training and scales the others by 1 / (1 - p).

    For inputs of any shape.

    `netcl_core.manual_seed(n)` makes it repeatable. `eval()` makes it the identity.
    (Hinton et al. 2012, arXiv:1207.0580)

    >>> layer = nn.Dropout(0.5)
    >>> sorted(set(layer(nc.ones(1000)).tolist()))  # in training: 0, or 1 / (1 - p)
    [0.0, 2.0]
    >>> layer.eval()(nc.ones(3)).tolist()
    [1.0, 1.0, 1.0]

    Args:
        p: The probability.
        inplace: Whether the input is changed and returned.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        if not 0 <= p <= 1:
            raise AttributeValueError(
                message(type(self).__name__, f"p={p!r}", "a probability, 0 to 1")
            )
        self.p, self.inplace = p, inplace

    def forward(self, input: Any) -> Any:
        """`input` of any shape to the same shape."""
        return self._dropped(ag.dropout, input)

    def _dropped(self, op: Any, input: Any) -> Any:
        target = {"inplace": True} if self.inplace and self.training else {}
        return op(input, self.p, self.training, **target)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class _OpDropout(Dropout):
    """The same by an op."""

    op: ClassVar[str]

    def forward(self, input: Any) -> Any:
        """`input` to the same shape; raises ShapeError for another number of dimensions."""
        return self._dropped(getattr(ag, self.op), input)


class Dropout1d(_OpDropout):
    """Whole channels of (N, C, L) or (C, L) zeroed (Tompson et al. 2015, arXiv:1411.4280).

    >>> y = nn.Dropout1d(0.5)(nc.ones(1, 100, 4))
    >>> sorted({tuple(row) for row in y[0].tolist()})  # whole channels
    [(0.0, 0.0, 0.0, 0.0), (2.0, 2.0, 2.0, 2.0)]

    Args:
        p: The probability of a zero, from 0 to 1.
    """

    op = "dropout1d"


class Dropout2d(_OpDropout):
    """Whole channels of (N, C, H, W) zeroed; of (N, C, L) too, as in PyTorch.

    >>> generator = nc.manual_seed(0)
    >>> kept = nn.Dropout2d(0.5)(nc.ones(1, 6, 2, 2)).numpy()
    >>> bool(np.all(kept == kept[..., :1, :1]))
    True

    Args:
        p: The probability of a zero, from 0 to 1.
    """

    op = "dropout2d"


class Dropout3d(_OpDropout):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zeroed.

    >>> nn.Dropout3d(0.2)(nc.ones(2, 3, 4, 4, 4)).shape
    (2, 3, 4, 4, 4)

    Args:
        p: The probability of a zero, from 0 to 1.
    """

    op = "dropout3d"


class AlphaDropout(_OpDropout):
    """Elements set to SELU's saturation, which keeps mean and variance; as `ag.alpha_dropout`.

    For inputs of any shape.

    >>> nn.AlphaDropout(0.1).eval()(nc.ones(3)).tolist()
    [1.0, 1.0, 1.0]

    Args:
        p: The probability of a zero, from 0 to 1.
    """

    op = "alpha_dropout"


class FeatureAlphaDropout(_OpDropout):
    """AlphaDropout of whole channels of (N, C, ...).

    >>> nn.FeatureAlphaDropout(0.1)(nc.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)

    Args:
        p: The probability of a zero, from 0 to 1.
    """

    op = "feature_alpha_dropout"
