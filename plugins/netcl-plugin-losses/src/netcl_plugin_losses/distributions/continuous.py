"""Distributions of numbers by an inverse of their probability, or by a normal number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_losses.distributions import constraints
from netcl_plugin_losses.distributions.base import EPS, Distribution

HALF_LOG_TAU: Final = 0.5 * math.log(2 * math.pi)
#: Euler's constant.
EULER: Final = 0.5772156649015329


class _Located(Distribution):
    """Distributions with a place and a width."""

    has_rsample = True
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    loc: Any
    scale: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._set(loc, scale, validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    def _standard(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        u = self._noise(nc.rand, sample_shape, self.loc)  # above 0, so that no sample is infinite
        return self.icdf(ag.clamp(u, min=EPS[u.dtype] / 4))


class Normal(_Located):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    The shapes of both broadcast.

    >>> normal = nc.distributions.Normal(0.0, nc.tensor([1.0, 2.0]))
    >>> [round(number, 4) for number in normal.log_prob(nc.tensor(0.0)).tolist()]
    [-0.9189, -1.6121]
    """

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.loc + self._noise(nc.randn, sample_shape, self.loc) * self.scale

    def log_prob(self, value: Any) -> Any:
        return -(self._standard(value) ** 2) / 2 - ag.log(self.scale) - HALF_LOG_TAU

    def entropy(self) -> Any:
        return 0.5 + HALF_LOG_TAU + ag.log(self.scale)

    def cdf(self, value: Any) -> Any:
        return 0.5 * (1 + ag.erf(self._standard(value) / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * ag.erfinv(2 * value - 1) * math.sqrt(2)

    variance = property(lambda self: self.scale**2)


class HalfNormal(Distribution):
    """The size of a normally distributed number of mean 0 and standard deviation `scale`.

    `scale` may have any shape.

    >>> d = nc.distributions.HalfNormal(nc.tensor(1.0))
    >>> round(d.mean.item(), 4), d.sample((3,)).min().item() >= 0
    (0.7979, True)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"scale": constraints.positive}
    support = constraints.nonnegative
    scale: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._set(scale, validate_args=validate_args)

    def _normal(self) -> Normal:
        return Normal(ag.zeros_like(self.scale), self.scale)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return ag.abs(self._normal().rsample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        (x,) = ag.as_operands(value)
        return ag.where(ag.ge(x, 0), self._normal().log_prob(x) + math.log(2), -math.inf)

    def entropy(self) -> Any:
        return self._normal().entropy() - math.log(2)

    def cdf(self, value: Any) -> Any:
        return 2 * self._normal().cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self._normal().icdf((value + 1) / 2)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: ag.zeros_like(self.scale))
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi))


class Laplace(_Located):
    """The double exponential distribution around `loc`.

    >>> d = nc.distributions.Laplace(nc.tensor(0.0), nc.tensor(1.0))
    >>> d.log_prob(nc.tensor(0.0)).exp().item(), d.variance.item()
    (0.5, 2.0)

    Args:
        scale: The width, positive, broadcast with the others.
    """

    def log_prob(self, value: Any) -> Any:
        return -ag.abs(self._standard(value)) - ag.log(2 * self.scale)

    def entropy(self) -> Any:
        return 1 + ag.log(2 * self.scale)

    def cdf(self, value: Any) -> Any:
        x = self._standard(value)
        return 0.5 - 0.5 * ag.sign(x) * ag.expm1(-ag.abs(x))

    def icdf(self, value: Any) -> Any:
        u = value - 0.5
        return self.loc - self.scale * ag.sign(u) * ag.log1p(-2 * ag.abs(u))

    variance = property(lambda self: 2 * self.scale**2)


class Cauchy(_Located):
    """The Cauchy, or Lorentz, distribution around `loc`; it has no mean.

    >>> d = nc.distributions.Cauchy(nc.tensor(0.0), nc.tensor(1.0))
    >>> d.cdf(nc.tensor([0.0, 1.0])).numpy().round(4)
    array([0.5 , 0.75], dtype=float32)

    Args:
        scale: The width, positive, broadcast with the others.
    """

    def log_prob(self, value: Any) -> Any:
        return -math.log(math.pi) - ag.log(self.scale) - ag.log1p(self._standard(value) ** 2)

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + ag.log(self.scale)

    def cdf(self, value: Any) -> Any:
        return ag.atan(self._standard(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return ag.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    mean = property(lambda self: ag.full_like(self.loc, math.nan))
    variance = property(lambda self: ag.full_like(self.loc, math.inf))


class Gumbel(_Located):
    """The distribution of the largest of many numbers.

    >>> d = nc.distributions.Gumbel(nc.tensor(0.0), nc.tensor(1.0))
    >>> round(d.mean.item(), 4)
    0.5772

    Args:
        loc: The place, floating.
        scale: The width, positive, broadcast with the others.
    """

    def log_prob(self, value: Any) -> Any:
        x = self._standard(value)
        return -x - ag.exp(-x) - ag.log(self.scale)

    def entropy(self) -> Any:
        return ag.log(self.scale) + (1 + EULER)

    def cdf(self, value: Any) -> Any:
        return ag.exp(-ag.exp(-self._standard(value)))

    def icdf(self, value: Any) -> Any:
        return self.loc - self.scale * ag.log(-ag.log(value))

    mean = property(lambda self: self.loc + self.scale * EULER)
    variance = property(lambda self: math.pi**2 / 6 * self.scale**2)


class Uniform(Distribution):
    """Numbers from `low` (included) to `high` (excluded).

    >>> d = nc.distributions.Uniform(nc.tensor(0.0), nc.tensor(4.0))
    >>> d.mean.item(), d.log_prob(nc.tensor(1.0)).exp().item()
    (2.0, 0.25)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"low": constraints.real, "high": constraints.real}
    low: Any
    high: Any

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._set(low, high, validate_args=validate_args)
        if validate_args and not bool(ag.all(ag.lt(self.low, self.high))):
            given = f"low={self.low.tolist()}, high={self.high.tolist()}"
            raise AttributeValueError(message("Uniform", given, "a low below high"))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(self._noise(nc.rand, sample_shape, self.low))

    def log_prob(self, value: Any) -> Any:
        inside = ag.logical_and(ag.le(self.low, value), ag.gt(self.high, value))
        return ag.where(inside, -ag.log(self.high - self.low), -math.inf)

    def entropy(self) -> Any:
        return ag.log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        return ag.clamp((value - self.low) / (self.high - self.low), 0, 1)

    def icdf(self, value: Any) -> Any:
        return self.low + value * (self.high - self.low)

    support = constraints.dependent_property(lambda self: constraints.interval(self.low, self.high))
    mean = property(lambda self: (self.low + self.high) / 2)
    mode = property(lambda self: ag.full_like(self.low, math.nan))
    variance = property(lambda self: (self.high - self.low) ** 2 / 12)


class Exponential(Distribution):
    """Waiting times of events that come `rate` times in a unit of time.

    >>> d = nc.distributions.Exponential(nc.tensor(2.0))
    >>> d.mean.item(), d.sample((3,)).shape
    (0.5, (3,))
    """

    has_rsample = True
    arg_constraints: ClassVar = {"rate": constraints.positive}
    support = constraints.nonnegative
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(rate, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(self._noise(nc.rand, sample_shape, self.rate))

    def log_prob(self, value: Any) -> Any:
        return ag.log(self.rate) - self.rate * value

    def entropy(self) -> Any:
        return 1 - ag.log(self.rate)

    def cdf(self, value: Any) -> Any:
        return -ag.expm1(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -ag.log1p(-value) / self.rate

    mean = property(lambda self: 1 / self.rate)
    mode = property(lambda self: ag.zeros_like(self.rate))
    variance = property(lambda self: self.rate**-2)
