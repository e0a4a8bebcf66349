"""`netcl_core.distributions`: probability distributions with PyTorch's names, as formulas of ops.

Their parameters broadcast. `sample` draws without a gradient, `rsample` as a function of the
parameters, through which gradients flow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, message, missing_name

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace",
           "Normal", "OneHotCategorical", "Uniform", "kl_divergence", "register_kl"]  # fmt: skip

_HALF_LOG_TAU: Final = 0.5 * math.log(2 * math.pi)


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


def _together(*given: Any) -> list[Any]:
    """Parameters as tensors of one shape."""
    device = next((x.device for x in given if isinstance(x, nc.Tensor)), None)
    found = [ag.as_operand(x, device or nc.default_device()) for x in given]
    shape = np.broadcast_shapes(*(x.shape for x in found))
    return [ag.expand(x, shape) for x in found]


class _Located(Distribution):
    """Distributions of numbers with two parameters, by PyTorch's names of these."""

    has_rsample = True
    names: ClassVar[tuple[str, str]] = ("loc", "scale")

    def __init__(self, first: Any, second: Any, validate_args: bool | None = None) -> None:
        for name, value in zip(self.names, _together(first, second), strict=True):
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
        (self.rate,) = _together(rate)
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


class _Discrete(Distribution):
    """Distributions that are told by `probs` or by `logits`, of which exactly one is given."""

    def __init__(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            who, given = type(self).__name__, "both" if probs is not None else "neither"
            raise ArgumentError(message(who, f"{given} of probs and logits", "one of them"))
        (self._given,) = _together(logits if probs is None else probs)
        self._is_logits = probs is None


class Bernoulli(_Discrete):
    """1 with probability `probs`, else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits)
        Distribution.__init__(self, self._given.shape)

    @property
    def probs(self) -> Any:
        """The probability of 1."""
        return ag.sigmoid(self._given) if self._is_logits else self._given

    @property
    def logits(self) -> Any:
        """log(probs / (1 - probs))."""
        return self._given if self._is_logits else ag.log(self._given) - ag.log1p(-self._given)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with ag.no_grad():
            shape, probs = self._extended(sample_shape), self.probs
            u = nc.rand(shape, dtype=probs.dtype, device=probs.device)
            return ag.lt(u, probs).astype(probs.dtype)

    def log_prob(self, value: Any) -> Any:
        return value * self.logits - ag.softplus(self.logits)

    def entropy(self) -> Any:
        return ag.softplus(self.logits) - self.probs * self.logits

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)


class Categorical(_Discrete):
    """A number from 0 to K - 1, by probabilities along the last axis.

    >>> policy = nc.distributions.Categorical(logits=nc.tensor([[0.0, 0.0]]))
    >>> policy.sample().shape, round(policy.entropy().item(), 4)
    ((1,), 0.6931)
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits)
        if not self._given.ndim:
            given = "a tensor without dimensions"
            raise AttributeValueError(message("Categorical", given, "probabilities (..., K)"))
        Distribution.__init__(self, self._given.shape[:-1])

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        if self._is_logits:
            return ag.log_softmax(self._given, -1)
        return ag.log(self.probs)

    @property
    def probs(self) -> Any:
        """The probabilities, whose sum is 1."""
        if self._is_logits:
            return ag.softmax(self._given, -1)
        return self._given / ag.sum(self._given, -1, True)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with ag.no_grad():
            kinds, count = self._given.shape[-1], math.prod(sample_shape)
            rows = ag.reshape(self.probs, (-1, kinds))
            if not count or not rows.shape[0]:
                return nc.zeros(self._extended(sample_shape), dtype="int64", device=rows.device)
            found = ag.multinomial(rows, count, True)
            return ag.reshape(ag.transpose(found), self._extended(sample_shape))

    def log_prob(self, value: Any) -> Any:
        (number,) = _together(value)
        logits = self.logits
        shape = np.broadcast_shapes(number.shape, logits.shape[:-1])
        wide = ag.expand(logits, (*shape, logits.shape[-1]))
        place = ag.unsqueeze(ag.expand(number, shape).astype("int64"), -1)
        return ag.squeeze(ag.gather(wide, -1, place), -1)

    def entropy(self) -> Any:
        logits, probs = self.logits, self.probs
        return -ag.sum(ag.where(ag.eq(probs, 0), 0.0, probs * logits), -1)


class OneHotCategorical(Categorical):
    """The same as vectors with a 1 in the place of the number."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits)
        self.event_shape = self._given.shape[-1:]

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        plain = Categorical(**{"logits" if self._is_logits else "probs": self._given})
        return ag.one_hot(plain.sample(sample_shape), self.event_shape[0]).astype(self._given.dtype)

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(ag.argmax(value, -1))

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)


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


# -- divergences -------------------------------------------------------------------------

_KL: Final[dict[tuple[type, type], Callable[[Any, Any], Any]]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: a function of two distributions is `kl_divergence` of these types."""

    def register(function: Any) -> Any:
        _KL[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of q from p in nats; NotImplementedError for other pairs."""
    for one in type(p).__mro__:
        for other in type(q).__mro__:
            if (one, other) in _KL:
                return _KL[one, other](p, q)
    raise NotImplementedError(f"kl_divergence of {type(p).__name__} and {type(q).__name__}")


@register_kl(Normal, Normal)
def _of_normals(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ag.log(ratio))


@register_kl(Categorical, Categorical)
def _of_categories(p: Categorical, q: Categorical) -> Any:
    probs = p.probs
    return ag.sum(ag.where(ag.eq(probs, 0), 0.0, probs * (p.logits - q.logits)), -1)


@register_kl(Bernoulli, Bernoulli)
def _of_bernoullis(p: Bernoulli, q: Bernoulli) -> Any:
    return p.probs * (p.logits - q.logits) + ag.softplus(q.logits) - ag.softplus(p.logits)


@register_kl(Exponential, Exponential)
def _of_waits(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ag.log(ratio)


@register_kl(Laplace, Laplace)
def _of_laplaces(p: Laplace, q: Laplace) -> Any:
    ratio, apart = p.scale / q.scale, ag.abs(p.loc - q.loc)
    return ratio * ag.exp(-apart / p.scale) + apart / q.scale - ag.log(ratio) - 1


@register_kl(Uniform, Uniform)
def _of_uniforms(p: Uniform, q: Uniform) -> Any:
    inside = ag.logical_and(ag.le(q.low, p.low), ag.ge(q.high, p.high))
    return ag.where(inside, ag.log((q.high - q.low) / (p.high - p.low)), math.inf)


@register_kl(Independent, Independent)
def _of_independents(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of events of other numbers of dimensions")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))


def __getattr__(name: str) -> Any:
    raise missing_name("netcl_core.distributions", name, __all__)
