"""What all distributions have, and several dimensions of one as one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message


class Distribution:
    """What all have: `batch_shape`, `event_shape`, and the functions that a subclass gives.

    Attributes:
        has_rsample: Whether `rsample` is there.
    """

    has_rsample: ClassVar[bool] = False

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self.batch_shape = tuple(batch_shape)
        self.event_shape = tuple(event_shape)

    def _extended(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Samples (*sample_shape, *batch_shape, *event_shape), through which gradients flow."""
        raise self._lacks("rsample")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """The same without gradients."""
        with ag.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability, or density, of a value."""
        raise self._lacks("log_prob")

    def entropy(self) -> Any:
        """The entropy in nats, of batch_shape."""
        raise self._lacks("entropy")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise self._lacks("mean")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Any:
        """The square root of the variance."""
        return ag.sqrt(self.variance)

    def perplexity(self) -> Any:
        """exp(entropy)."""
        return ag.exp(self.entropy())

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    def __repr__(self) -> str:
        shapes = f"batch_shape={self.batch_shape}, event_shape={self.event_shape}"
        return f"{type(self).__name__}({shapes})"


def together(*given: Any) -> list[Any]:
    """Parameters as tensors of one shape."""
    found = ag.as_operands(*given)
    shape = np.broadcast_shapes(*(x.shape for x in found))
    return [ag.expand(x, shape) for x in found]


class Independent(Distribution):
    """A distribution whose last batch dimensions are one event: their logarithms are added up."""

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: Any = None
    ) -> None:
        base, count = base_distribution, reinterpreted_batch_ndims
        if not 0 <= count <= len(base.batch_shape):
            given = f"reinterpreted_batch_ndims={count} of batch_shape {base.batch_shape}"
            raise AttributeValueError(message("Independent", given, "as many dimensions at most"))
        self.base_dist, self.reinterpreted_batch_ndims = base, count
        cut = len(base.batch_shape) - count
        super().__init__(base.batch_shape[:cut], base.batch_shape[cut:] + base.event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def _summed(self, x: Any) -> Any:
        over = tuple(range(-self.reinterpreted_batch_ndims, 0))
        return ag.sum(x, over) if over else x

    def log_prob(self, value: Any) -> Any:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Any:
        return self._summed(self.base_dist.entropy())

    @property
    def mean(self) -> Any:
        return self.base_dist.mean

    @property
    def variance(self) -> Any:
        return self.base_dist.variance
