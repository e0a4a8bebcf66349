"""Invertible functions of numbers, and distributions of their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_losses.distributions import constraints
from netcl_plugin_losses.distributions.base import EPS, Distribution, Independent, summed
from netcl_plugin_losses.distributions.continuous import HALF_LOG_TAU, Normal


class Transform:
    """A function with an inverse, and the logarithm of its slope.

    >>> y = nc.distributions.transforms.ExpTransform()(nc.tensor([0.0, 1.0]))
    >>> nc.distributions.transforms.ExpTransform().inv(y).numpy().round(4)
    array([0., 1.], dtype=float32)

    A subclass gives `_call`, `_inverse` and `log_abs_det_jacobian`. With `cache_size=1` the inverse
    of the last result is the argument that it came from.
    """

    #: How many dimensions an argument has that belong together.
    event_dim: int = 0
    #: The attributes that make two of one class the same function.
    params: ClassVar[Sequence[str]] = ()
    #: Whether it rises (1) or falls (-1), or a tensor of both.
    sign: Any = 1
    #: The values of an argument, and of a result.
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._last: tuple[Any, Any] = (None, None)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same function, with equal parameters."""
        return type(self) is type(other) and all(
            np.array_equal(np.asarray(getattr(self, name)), np.asarray(getattr(other, name)))
            for name in self.params
        )

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        """The value."""
        if x is not None and x is self._last[0]:
            return self._last[1]
        y = self._call(x)
        self._last = (x, y) if self._cache_size else self._last
        return y

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        return _Inverse(self)

    def _inv_call(self, y: Any) -> Any:
        return self._last[0] if y is not None and y is self._last[1] else self._inverse(y)

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """log |dy/dx|, summed over the dimensions of an event."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the value of an argument of some shape."""
        return tuple(shape)


class _Inverse(Transform):
    params = ("inv",)

    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._of, self.event_dim, self.sign = of, of.event_dim, of.sign
        self.domain, self.codomain = of.codomain, of.domain

    def __call__(self, x: Any) -> Any:
        return self._of._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._of(y)

    @property
    def inv(self) -> Transform:
        return self._of

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._of.forward_shape(shape)


class ComposeTransform(Transform):
    """Several, the first one first.

    >>> T = nc.distributions.transforms
    >>> to = T.ComposeTransform([T.AffineTransform(0.0, 2.0), T.ExpTransform()])
    >>> to(nc.tensor([0.5])).numpy().round(4)
    array([2.7183], dtype=float32)

    Args:
        parts: The transforms, the first one first.
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    params = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.event_dim = max((part.event_dim for part in self.parts), default=0)
        self.sign = 1
        for part in self.parts:
            self.sign = self.sign * part.sign
        if self.parts:
            self.domain, self.codomain = self.parts[0].domain, self.parts[-1].codomain

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        total: Any = 0.0
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            slope = part.log_abs_det_jacobian(x, after)
            total, x = summed(slope, self.event_dim - part.event_dim) + total, after
        return total if self.parts else ag.zeros_like(x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)


class AffineTransform(Transform):
    """loc + scale * x; the last `event_dim` dimensions are one event.

    `loc`, `scale` and x broadcast.

    >>> to = nc.distributions.AffineTransform(loc=1.0, scale=2.0)
    >>> to(nc.tensor([3.0])).tolist(), to.inv(nc.tensor([7.0])).tolist()
    ([7.0], [3.0])

    Args:
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    params = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        return ag.sign(self.scale) if isinstance(self.scale, nc.Tensor) else np.sign(self.scale)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return summed(ag.log(ag.abs(self.scale + ag.zeros_like(y))), self.event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        shapes = (tuple(getattr(number, "shape", ())) for number in (self.loc, self.scale))
        return tuple(np.broadcast_shapes(tuple(shape), *shapes))


class ExpTransform(Transform):
    """exp(x).

    >>> nc.distributions.ExpTransform()(nc.tensor([0.0, 1.0])).numpy().round(4)
    array([1.    , 2.7183], dtype=float32)

    Args:
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return ag.exp(x)

    def _inverse(self, y: Any) -> Any:
        return ag.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x ** exponent of positive numbers.

    >>> to = nc.distributions.PowerTransform(nc.tensor(2.0))
    >>> to(nc.tensor([3.0])).tolist(), to.inv(nc.tensor([9.0])).tolist()
    ([9.0], [3.0])

    Args:
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    params = ("exponent",)
    domain = codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return ag.log(ag.abs(self.exponent * y / x))


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)).

    >>> nc.distributions.SigmoidTransform()(nc.tensor([0.0, 2.0])).numpy().round(4)
    array([0.5   , 0.8808], dtype=float32)

    Args:
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return ag.clamp(ag.sigmoid(x), 2.0**-126, 1 - EPS[x.dtype])

    def _inverse(self, y: Any) -> Any:
        inside = ag.clamp(y, 2.0**-126, 1 - EPS[y.dtype])
        return ag.log(inside) - ag.log1p(-inside)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -ag.softplus(-x) - ag.softplus(x)


class TanhTransform(Transform):
    """tanh(x).

    >>> nc.distributions.TanhTransform()(nc.tensor([0.0, 1.0])).numpy().round(4)
    array([0.    , 0.7616], dtype=float32)

    Args:
        cache_size: 1 keeps the last pair of an argument and its result.
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return ag.tanh(x)

    def _inverse(self, y: Any) -> Any:
        return ag.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return 2 * (math.log(2) - x - ag.softplus(-2 * x))


class TransformedDistribution(Distribution):
    """The values of functions of another distribution's samples.

    >>> t = nc.distributions
    >>> squashed = t.TransformedDistribution(t.Normal(0.0, 1.0), [t.TanhTransform()])
    >>> round(squashed.log_prob(nc.tensor(0.5)).item(), 4)
    -0.7821

    Args:
        base_distribution: The distribution of what comes in.
        transforms: A transform or a list of them, the first one first.
    """

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        base, whole = base_distribution, ComposeTransform(self.transforms)
        shape = whole.forward_shape(base.batch_shape + base.event_shape)
        inner = len(base.event_shape)
        if shape != base.batch_shape + base.event_shape:
            base = base.expand(shape[: len(shape) - inner])
        if whole.event_dim > inner:
            base = Independent(base, whole.event_dim - inner)
        self.base_dist, self._whole, self.has_rsample = base, whole, base.has_rsample
        super().__init__(base.batch_shape, base.event_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        """The values of the last function, or of the base distribution without one."""
        constraint = self._whole.codomain if self.transforms else self.base_dist.support
        return constraints.independent(constraint, len(self.event_shape) - constraint.event_dim)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return TransformedDistribution(self.base_dist.expand(batch_shape), self.transforms)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._whole(self.base_dist.rsample(sample_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with nc.no_grad():
            return self._whole(self.base_dist.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        x = self._whole.inv(*ag.as_operands(value))
        slope = self._whole.log_abs_det_jacobian(x, value)
        count = len(self.event_shape) - self._whole.event_dim
        return self.base_dist.log_prob(x) - summed(slope, count)

    def _turned(self, value: Any) -> Any:
        """The probability of a smaller value, where the functions fall instead of rise."""
        sign = self._whole.sign
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        return self._turned(self.base_dist.cdf(self._whole.inv(*ag.as_operands(value))))

    def icdf(self, value: Any) -> Any:
        return self._whole(self.base_dist.icdf(self._turned(value)))


class LogNormal(TransformedDistribution):
    """exp of normal numbers of mean `loc` and standard deviation `scale`.

    The shapes of both broadcast.

    >>> d = nc.distributions.LogNormal(nc.tensor(0.0), nc.tensor(1.0))
    >>> round(d.mean.item(), 4)
    1.6487
    """

    has_rsample = True
    arg_constraints = Normal.arg_constraints
    support = constraints.positive
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        wide = self.base_dist.expand(batch_shape)
        return LogNormal(wide.loc, wide.scale)

    @property
    def loc(self) -> Any:
        """The mean of the logarithms."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """The standard deviation of the logarithms."""
        return self.base_dist.scale

    def entropy(self) -> Any:
        return 0.5 + HALF_LOG_TAU + ag.log(self.scale) + self.loc

    mean = property(lambda self: ag.exp(self.loc + self.scale**2 / 2))
    mode = property(lambda self: ag.exp(self.loc - self.scale**2))
    variance = property(lambda self: ag.expm1(self.scale**2) * ag.exp(2 * self.loc + self.scale**2))
