"""Distributions of numbers: normal, double exponential, uniform, exponential."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_losses.distributions.base import Distribution, together

_HALF_LOG_TAU: Final = 0.5 * math.log(2 * math.pi)


class _Located(Distribution):
    """Distributions of numbers with two parameters, by PyTorch's names of these."""

    has_rsample = True
    names: ClassVar[tuple[str, str]] = ("loc", "scale")

    def __init__(self, first: Any, second: Any, validate_args: bool | None = None) -> None:
        for name, value in zip(self.names, together(first, second), strict=True):
            setattr(self, name, value)
        super().__init__(getattr(self, self.names[0]).shape)

    def expand(self, batch_shape: Sequence[int]) -> Any:
        """The same for a larger batch."""
        wide = [ag.expand(getattr(self, name), tuple(batch_shape)) for name in self.names]
        return type(self)(*wide)


class Normal(_Located):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    >>> normal = nc.distributions.Normal(0.0, nc.tensor([1.0, 2.0]))
    >>> [round(number, 4) for number in normal.log_prob(nc.tensor(0.0)).tolist()]
    [-0.9189, -1.6121]
    """

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(loc, scale)

    loc: Any
    scale: Any

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        noise = nc.randn(self._extended(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        return -(((value - self.loc) / self.scale) ** 2) / 2 - ag.log(self.scale) - _HALF_LOG_TAU

    def entropy(self) -> Any:
        return 0.5 + _HALF_LOG_TAU + ag.log(self.scale)

    def cdf(self, value: Any) -> Any:
        """The probability of a smaller value."""
        return 0.5 * (1 + ag.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    @property
    def mean(self) -> Any:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Any:
        return self.scale**2


class Laplace(_Located):
    """The double exponential distribution around `loc`."""

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(loc, scale)

    loc: Any
    scale: Any

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended(sample_shape)
        u = nc.rand(shape, dtype=self.loc.dtype, device=self.loc.device) - 0.5
        return self.loc - self.scale * ag.sign(u) * ag.log1p(-2 * ag.abs(u))

    def log_prob(self, value: Any) -> Any:
        return -ag.abs(value - self.loc) / self.scale - ag.log(2 * self.scale)

    def entropy(self) -> Any:
        return 1 + ag.log(2 * self.scale)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale**2


class Uniform(_Located):
    """Numbers from `low` (included) to `high` (excluded)."""

    names = ("low", "high")

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        super().__init__(low, high)

    low: Any
    high: Any

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended(sample_shape)
        u = nc.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        inside = ag.logical_and(ag.le(self.low, value), ag.gt(self.high, value))
        return ag.where(inside, -ag.log(self.high - self.low), -math.inf)

    def entropy(self) -> Any:
        return ag.log(self.high - self.low)

    @property
    def mean(self) -> Any:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> Any:
        return (self.high - self.low) ** 2 / 12


class Exponential(Distribution):
    """Waiting times of events that come `rate` times in a unit of time."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = together(rate)
        super().__init__(self.rate.shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended(sample_shape)
        u = nc.rand(shape, dtype=self.rate.dtype, device=self.rate.device)
        return -ag.log1p(-u) / self.rate

    def log_prob(self, value: Any) -> Any:
        return ag.log(self.rate) - self.rate * value

    def entropy(self) -> Any:
        return 1 - ag.log(self.rate)

    @property
    def mean(self) -> Any:
        return 1 / self.rate

    @property
    def variance(self) -> Any:
        return self.rate**-2
