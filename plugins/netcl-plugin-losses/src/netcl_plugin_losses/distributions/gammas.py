"""Gamma's distribution, and those that are made of it: chi-square, beta, Dirichlet, Student's t.

A sample's gradient by its concentration is the implicit one (Figurnov, Mohamed, Mnih 2018,
arXiv:1805.08498): dz/da = -(dF/da) / p, where F is the probability of a smaller sample and p the
density of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from netcl_plugin_autodiff.function import Function, once_differentiable

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_plugin_losses.distributions import constraints
from netcl_plugin_losses.distributions.base import Distribution, summed, together
from netcl_plugin_losses.distributions.continuous import Normal

#: Where a function that falls exponentially is summed up, by Takahasi and Mori's formula (1974).
_STEP: Final = 0.15
_PLACES: Final = np.arange(-3.3, 4.3, _STEP)
_NODES: Final = np.exp(_PLACES - np.exp(-_PLACES))
_WEIGHTS: Final = _STEP * (1 + np.exp(-_PLACES)) * _NODES
#: A sample that would be 0 is this.
_LEAST: Final = 2.0**-126


def slope(a: Any, log_z: Any) -> Any:
    """d(log z)/da of samples z, by the integral of the density's derivative.

    With z e^t for the variable it is sign * int exp(a t - z (e^t - 1)) (log z + t - digamma(a)) dt
    over t from 0 to sign * infinity; the sign leads away from the peak, so that nothing cancels.
    """
    z = ag.exp(log_z)
    above = ag.gt(z, a)
    apart = ag.abs(a - z)
    # a distance at which the integrand has fallen to about 1/e
    b = 1 - 2 * apart
    root = ag.sqrt(b * b + 8 * a)
    down = ag.where(ag.gt(b, 0), (b + root) / (2 * a), 4 / (root - ag.minimum(b, 0.0)))
    up = ag.minimum(2 / (apart + ag.sqrt(apart * apart + 2 * z)), ag.log1p(1 / z + 2 / ag.sqrt(z)))
    far = ag.where(above, up, down)
    sign = ag.where(above, 1.0, -1.0).astype(a.dtype)
    nodes, weights = (
        Tensor.from_host(array.reshape((-1, *[1] * a.ndim)), a.device, a.dtype)
        for array in (_NODES, _WEIGHTS)
    )
    t = nodes * (sign * far)
    fallen = ag.exp((a - z) * t - z * (ag.expm1(t) - t))
    return ag.sum(fallen * (log_z - ag.digamma(a) + t) * weights, 0) * far * sign


class _LogSample(Function):
    """Logarithms of samples of concentrations; the gradient can not be differentiated again."""

    @staticmethod
    def forward(ctx: Any, a: Any) -> Any:
        logs = ag.random_log_gamma(a)
        ctx.save_for_backward(a, logs)
        return logs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * slope(*ctx.saved_tensors)


def log_sample(a: Any, sample_shape: Sequence[int]) -> Any:
    """Logarithms of samples (*sample_shape, *a.shape), computed in float32 at least."""
    wide = ag.expand(a, (*sample_shape, *a.shape)).astype(DTYPES[a.dtype].wide)
    return _LogSample.apply(wide).astype(a.dtype)


class Gamma(Distribution):
    """Positive numbers: waiting times for `concentration` events that come `rate` times in a unit.

    The shapes of both broadcast.

    >>> gamma = nc.distributions.Gamma(nc.tensor([2.0]), 3.0)
    >>> [round(number, 4) for number in gamma.log_prob(nc.tensor(1.0)).tolist()]
    [-0.8028]
    """

    has_rsample = True
    arg_constraints: ClassVar = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    concentration: Any
    rate: Any

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._set(concentration, rate, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = ag.exp(log_sample(self.concentration, sample_shape)) / self.rate
        return ag.clamp(drawn, min=_LEAST) if drawn.dtype in ("float32", "float64") else drawn

    def log_prob(self, value: Any) -> Any:
        a, rate = self.concentration, self.rate
        return ag.xlogy(a, rate) + ag.xlogy(a - 1, value) - rate * value - ag.lgamma(a)

    def entropy(self) -> Any:
        a = self.concentration
        return a - ag.log(self.rate) + ag.lgamma(a) + (1 - a) * ag.digamma(a)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ag.clamp((self.concentration - 1) / self.rate, min=0))
    variance = property(lambda self: self.concentration / self.rate**2)


class Chi2(Gamma):
    """Sums of the squares of `df` normal numbers.

    `df` may have any shape.

    >>> d = nc.distributions.Chi2(nc.tensor(3.0))
    >>> d.mean.item(), d.variance.item()
    (3.0, 6.0)
    """

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (given,) = together(df)
        self.concentration, self.rate = given / 2, ag.full_like(given, 0.5)
        Distribution.__init__(self, given.shape, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self.concentration * 2


class Dirichlet(Distribution):
    """Vectors of positive numbers whose sum is 1, by concentrations along the last axis.

    >>> d = nc.distributions.Dirichlet(nc.tensor([1.0, 3.0]))
    >>> d.mean.tolist(), round(d.sample().sum().item(), 4)
    ([0.25, 0.75], 1.0)

    Args:
        concentration: The concentrations (..., K), positive.
    """

    has_rsample = True
    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        (self.concentration,) = together(concentration)
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return ag.softmax(log_sample(self.concentration, sample_shape), -1)

    def log_prob(self, value: Any) -> Any:
        a = self.concentration
        return ag.sum(ag.xlogy(a - 1, value), -1) - self._log_norm()

    def _log_norm(self) -> Any:
        """The sum of the logarithms of gamma, less that of the sum."""
        a = self.concentration
        return ag.sum(ag.lgamma(a), -1) - ag.lgamma(ag.sum(a, -1))

    def mean_logs(self) -> Any:
        """The means of the logarithms of the elements."""
        a = self.concentration
        return ag.digamma(a) - ag.digamma(ag.sum(a, -1, True))

    def entropy(self) -> Any:
        return self._log_norm() - summed((self.concentration - 1) * self.mean_logs(), 1)

    mean = property(lambda self: self.concentration / ag.sum(self.concentration, -1, True))

    @property
    def variance(self) -> Any:
        total = ag.sum(self.concentration, -1, True)
        return self.mean * (1 - self.mean) / (total + 1)


class Beta(Distribution):
    """Numbers between 0 and 1, with density in proportion to x^(a - 1) (1 - x)^(b - 1).

    >>> d = nc.distributions.Beta(nc.tensor(2.0), nc.tensor(6.0))
    >>> d.mean.item(), d.sample((3,)).shape
    (0.25, (3,))

    Args:
        concentration1: The first exponent, positive.
        concentration0: The second one, broadcast with it.
    """

    has_rsample = True
    arg_constraints: ClassVar = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    concentration1: Any
    concentration0: Any

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._set(concentration1, concentration0, validate_args=validate_args)

    def pair(self) -> Dirichlet:
        """The distribution of (x, 1 - x)."""
        return Dirichlet(ag.stack([self.concentration1, self.concentration0], -1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.pair().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        (x,) = ag.as_operands(value)
        return self.pair().log_prob(ag.stack([x, 1 - x], -1))

    def entropy(self) -> Any:
        return self.pair().entropy()

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))

    @property
    def variance(self) -> Any:
        return self.mean * (1 - self.mean) / (self.concentration1 + self.concentration0 + 1)


class StudentT(Distribution):
    """Student's t: normal numbers over the root of a chi-square's mean of `df` degrees.

    >>> d = nc.distributions.StudentT(nc.tensor(5.0))
    >>> d.mean.item(), round(d.variance.item(), 4)
    (0.0, 1.6667)

    Args:
        loc: The place, floating.
        scale: The width, positive, broadcast with the others.
    """

    has_rsample = True
    arg_constraints: ClassVar = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    df: Any
    loc: Any
    scale: Any

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._set(df, loc, scale, validate_args=validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        normal = Normal(ag.zeros_like(self.df), ag.ones_like(self.df)).rsample(sample_shape)
        log_z = log_sample(self.df / 2, sample_shape) + math.log(2) - ag.log(self.df)
        return self.loc + self.scale * normal * ag.exp(-log_z / 2)

    def _log_norm(self) -> Any:
        half = self.df / 2
        gammas = ag.lgamma(half) - ag.lgamma(half + 0.5)
        return ag.log(self.scale) + 0.5 * ag.log(self.df) + 0.5 * math.log(math.pi) + gammas

    def log_prob(self, value: Any) -> Any:
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * ag.log1p(y * y / self.df) - self._log_norm()

    def entropy(self) -> Any:
        half = (self.df + 1) / 2
        return half * (ag.digamma(half) - ag.digamma(self.df / 2)) + self._log_norm()

    mean = property(lambda self: ag.where(ag.gt(self.df, 1), self.loc, math.nan))
    mode = property(lambda self: self.loc)

    @property
    def variance(self) -> Any:
        df = self.df
        variance = ag.where(
            ag.gt(df, 2), self.scale**2 * df / ag.where(ag.gt(df, 2), df - 2, 1.0), math.inf
        )
        return ag.where(ag.gt(df, 1), variance, math.nan)
