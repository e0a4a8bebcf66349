"""What all distributions have, and several dimensions of one as one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_losses.distributions import constraints

#: The distance from 1 to the next number of a dtype, as far as probabilities stay from 0 and 1.
EPS: Final = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


class Distribution:
    """What all have: `batch_shape`, `event_shape`, and the functions that a subclass gives.

    >>> d = nc.distributions.Normal(nc.zeros(3), nc.ones(3))
    >>> isinstance(d, nc.distributions.Distribution), d.batch_shape, d.event_shape
    (True, (3,), ())

    Attributes:
        has_rsample: Whether `rsample` is there.
        arg_constraints: The names of the parameters, each with the values that it may have.
        support: The values of samples.

    Parameters are looked at where `validate_args=True` asks for it, which waits for the device:

    >>> nc.distributions.Normal(0.0, nc.tensor(-1.0), validate_args=True)
    Traceback (most recent call last):
    netcl_core.errors.AttributeValueError: Normal: scale=-1.0; expected positive.
    """

    has_rsample: bool = False
    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self.batch_shape = tuple(batch_shape)
        self.event_shape = tuple(event_shape)
        if validate_args:
            for name, (value, _) in self._given().items():
                self._validate(name, value)

    def _validate(self, name: str, value: Any) -> None:
        allowed = self.arg_constraints[name]
        if constraints.is_dependent(allowed) or bool(ag.all(allowed.check(value))):
            return
        given = f"{name}={value.tolist()}"
        raise AttributeValueError(message(type(self).__name__, given, f"{allowed}"))

    @property
    def support(self) -> Any:
        """The values that samples have."""
        raise self._lacks("support")

    def _set(self, *given: Any, validate_args: bool | None = None) -> None:
        """Broadcast the parameters of numbers, and note the batch's shape."""
        for name, value in zip(self.arg_constraints, together(*given), strict=True):
            setattr(self, name, value)
        Distribution.__init__(self, value.shape, validate_args=validate_args)

    def _given(self) -> dict[str, tuple[Any, int]]:
        """What `expand` makes a distribution of: tensors, and their dimensions of an event."""
        return {
            name: (getattr(self, name), allowed.event_dim)
            for name, allowed in self.arg_constraints.items()
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same for a larger batch."""
        return type(self)(**{
            name: ag.expand(x, (*batch_shape, *x.shape[x.ndim - count :]))
            for name, (x, count) in self._given().items()
        })  # fmt: skip

    def _extended(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def _noise(self, draw: Any, sample_shape: Sequence[int], x: Any) -> Any:
        """Numbers by `nc.rand` or `nc.randn` for each sample, of a parameter's dtype and device."""
        return draw(self._extended(sample_shape), dtype=x.dtype, device=x.device)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Samples (*sample_shape, *batch_shape, *event_shape), through which gradients flow."""
        raise self._lacks("rsample")

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """The same without gradients."""
        with nc.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the probability, or density, of a value."""
        raise self._lacks("log_prob")

    def entropy(self) -> Any:
        """The entropy in nats, of batch_shape."""
        raise self._lacks("entropy")

    def cdf(self, value: Any) -> Any:
        """The probability of a value or a smaller one."""
        raise self._lacks("cdf")

    def icdf(self, value: Any) -> Any:
        """The value that has a probability of being the largest."""
        raise self._lacks("icdf")

    @property
    def mean(self) -> Any:
        """The mean."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Any:
        """The most likely value."""
        raise self._lacks("mode")

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
    """Parameters as floating tensors of one shape; numbers have the dtype of the tensors."""
    floats = [isinstance(x, nc.Tensor) and nc.DTYPES[x.dtype].floating for x in given]
    kind = next((x.dtype for x, keeps in zip(given, floats, strict=True) if keeps), "float32")
    operands = ag.as_operands(*given)
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    return [ag.expand(x if keeps else x.astype(kind), shape)
            for x, keeps in zip(operands, floats, strict=True)]  # fmt: skip


def summed(x: Any, count: int) -> Any:
    """The sum over the last `count` dimensions."""
    return ag.sum(x, tuple(range(-count, 0))) if count > 0 else x


class Independent(Distribution):
    """A distribution whose last batch dimensions are one event: their logarithms are added up.

    >>> rows = nc.distributions.Normal(nc.zeros(2, 3), nc.ones(2, 3))
    >>> d = nc.distributions.Independent(rows, 1)
    >>> d.batch_shape, d.event_shape, d.log_prob(nc.zeros(2, 3)).shape
    ((2,), (3,), (2,))

    Args:
        base_distribution: The distribution of what comes in.
        reinterpreted_batch_ndims: How many of the last batch dimensions belong to an event.
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int, validate_args: Any = None
    ) -> None:
        base, count = base_distribution, reinterpreted_batch_ndims
        if not 0 <= count <= len(base.batch_shape):
            given = f"reinterpreted_batch_ndims={count} of batch_shape {base.batch_shape}"
            raise AttributeValueError(message("Independent", given, "as many dimensions at most"))
        self.base_dist, self.reinterpreted_batch_ndims = base, count
        self.has_rsample = base.has_rsample
        cut = len(base.batch_shape) - count
        super().__init__(base.batch_shape[:cut], base.batch_shape[cut:] + base.event_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        count = self.reinterpreted_batch_ndims
        inner = self.event_shape[:count]
        return Independent(self.base_dist.expand((*batch_shape, *inner)), count)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.base_dist.sample(sample_shape)

    def log_prob(self, value: Any) -> Any:
        return summed(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Any:
        return summed(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    support = constraints.dependent_property(
        lambda self: constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)
    )
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)
