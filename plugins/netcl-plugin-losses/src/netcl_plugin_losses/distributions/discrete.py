"""Distributions of outcomes and of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_losses.distributions import constraints
from netcl_plugin_losses.distributions.base import EPS, Distribution, summed, together


class _Discrete(Distribution):
    """Distributions that are told by `probs` or by `logits`, of which exactly one is given.

    As in PyTorch, probabilities come no nearer to 0 and 1 than the dtype's epsilon in `logits`.
    """

    #: How many dimensions the probabilities of an event have.
    kinds: ClassVar[int] = 0
    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs: Any, logits: Any, *others: Any, validate_args: Any = None) -> None:
        if (probs is None) == (logits is None):
            who, given = type(self).__name__, "both" if probs is not None else "neither"
            raise ArgumentError(message(who, f"{given} of probs and logits", "one of them"))
        self._told, *self._others = together(logits if probs is None else probs, *others)
        self._is_logits = probs is None
        if self._told.ndim < self.kinds:
            who, given = type(self).__name__, "a tensor without dimensions"
            raise AttributeValueError(message(who, given, "probabilities (..., K)"))
        super().__init__(self._told.shape[: self._told.ndim - self.kinds])
        if validate_args:
            for name, value in _Discrete._named(self).items():
                self._validate(name, value)

    def _named(self) -> dict[str, Any]:
        return {"logits" if self._is_logits else "probs": self._told}

    def _given(self) -> dict[str, tuple[Any, int]]:
        return {name: (x, self.kinds) for name, x in self._named().items()}

    @property
    def probs(self) -> Any:
        """The probability of 1."""
        return ag.sigmoid(self._told) if self._is_logits else self._told

    @property
    def logits(self) -> Any:
        """log(probs / (1 - probs))."""
        if self._is_logits:
            return self._told
        probs = _inside(self._told)
        return ag.log(probs) - ag.log1p(-probs)

    def _draws(self, sample_shape: Sequence[int], make: Any) -> Any:
        with nc.no_grad():
            return make(ag.expand(self.probs, self._extended(sample_shape)))


def _inside(probs: Any) -> Any:
    return ag.clamp(probs, EPS[probs.dtype], 1 - EPS[probs.dtype])


class Bernoulli(_Discrete):
    """1 with probability `probs`, else 0.

    The parameters may have any shape; several broadcast.

    >>> d = nc.distributions.Bernoulli(probs=nc.tensor([0.25]))
    >>> d.mean.tolist(), d.log_prob(nc.tensor([1.0])).exp().tolist()
    ([0.25], [0.25])

    Args:
        logits: their logarithms, or log-odds: one of the two is given.
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._draws(sample_shape, ag.bernoulli)

    def log_prob(self, value: Any) -> Any:
        return value * self.logits - ag.softplus(self.logits)

    def entropy(self) -> Any:
        return ag.softplus(self.logits) - self.probs * self.logits

    mean = property(lambda self: self.probs)

    @property
    def mode(self) -> Any:
        return ag.where(ag.eq(self.probs, 0.5), math.nan, ag.ge(self.probs, 0.5).astype("float32"))

    variance = property(lambda self: self.probs * (1 - self.probs))
    support = constraints.boolean


class Geometric(_Discrete):
    """How many trials fail before one of probability `probs` succeeds.

    The parameters may have any shape; several broadcast.

    >>> d = nc.distributions.Geometric(probs=nc.tensor(0.25))
    >>> d.mean.item(), round(d.log_prob(nc.tensor(1.0)).exp().item(), 4)
    (3.0, 0.1875)

    Args:
        logits: their logarithms, or log-odds: one of the two is given.
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        u = self._noise(nc.rand, sample_shape, self._told)
        return self._draws(sample_shape, lambda p: ag.floor(ag.log1p(-u) / ag.log1p(-p)))

    def log_prob(self, value: Any) -> Any:
        return ag.xlog1py(value, -self.probs) + ag.log(self.probs)

    def entropy(self) -> Any:
        return (ag.softplus(self.logits) - self.probs * self.logits) / self.probs

    support = constraints.nonnegative_integer
    mean = property(lambda self: 1 / self.probs - 1)
    mode = property(lambda self: ag.zeros_like(self.probs))
    variance = property(lambda self: (1 / self.probs - 1) / self.probs)


class Binomial(_Discrete):
    """How many of `total_count` trials succeed, each with probability `probs`.

    The parameters may have any shape; several broadcast.

    >>> d = nc.distributions.Binomial(4, probs=nc.tensor(0.25))
    >>> d.mean.item(), d.variance.item()
    (1.0, 0.75)

    Args:
        logits: their logarithms, or log-odds: one of the two is given.
    """

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        super().__init__(probs, logits, total_count, validate_args=validate_args)
        self.total_count = self._others[0].astype(self._told.dtype)

    def _named(self) -> dict[str, Any]:
        return {"total_count": self.total_count, **super()._named()}

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        count = ag.expand(self.total_count, self._extended(sample_shape))
        return self._draws(sample_shape, lambda p: ag.binomial(count, p))

    def log_prob(self, value: Any) -> Any:
        (k,) = ag.as_operands(value)
        n = self.total_count
        ways = ag.lgamma(n + 1) - ag.lgamma(k + 1) - ag.lgamma(n - k + 1)
        return ways + k * self.logits - n * ag.softplus(self.logits)

    def _support(self) -> Any:
        """All numbers of successes, along a first dimension."""
        most = self.total_count.to_host()
        if most.size and (most != most.reshape(-1)[0]).any():
            raise NotImplementedError("Binomial has no entropy for different total_count")
        support = ag.arange(int(most.max(initial=0)) + 1, device=self._told.device)
        return support.reshape((-1, *[1] * self.total_count.ndim)).astype(self._told.dtype)

    def entropy(self) -> Any:
        logs = self.log_prob(self._support())
        return -ag.sum(ag.exp(logs) * logs, 0)

    support = constraints.dependent_property(
        lambda self: constraints.integer_interval(0, self.total_count), is_discrete=True
    )
    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.mean * (1 - self.probs))


class Poisson(Distribution):
    """How many events there are in a time in which `rate` are expected.

    `rate` may have any shape.

    >>> d = nc.distributions.Poisson(nc.tensor(2.0))
    >>> d.mean.item(), round(d.log_prob(nc.tensor(0.0)).item(), 4)
    (2.0, -2.0)
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Any

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._set(rate, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with nc.no_grad():
            return ag.poisson(ag.expand(self.rate, self._extended(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        (k,) = ag.as_operands(value)
        return ag.xlogy(k, self.rate) - self.rate - ag.lgamma(k + 1)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: ag.floor(self.rate))
    variance = property(lambda self: self.rate)


class _Outcomes(_Discrete):
    """Distributions of K outcomes, by probabilities along the last axis."""

    kinds = 1
    arg_constraints: ClassVar = {
        "probs": constraints.independent(constraints.nonnegative, 1),
        "logits": constraints.real_vector,
    }

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return ag.log_softmax(self._told, -1) if self._is_logits else ag.log(_inside(self.probs))

    @property
    def probs(self) -> Any:
        """The probabilities, whose sum is 1."""
        if self._is_logits:
            return ag.softmax(self._told, -1)
        return self._told / ag.sum(self._told, -1, True)


class Categorical(_Outcomes):
    """A number from 0 to K - 1, by probabilities along the last axis.

    >>> policy = nc.distributions.Categorical(logits=nc.tensor([[0.0, 0.0]]))
    >>> policy.sample().shape, round(policy.entropy().item(), 4)
    ((1,), 0.6931)

    Args:
        probs: The probabilities, or
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits, validate_args=validate_args)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with nc.no_grad():
            kinds, count = self._told.shape[-1], math.prod(sample_shape)
            rows, shape = ag.reshape(self.probs, (-1, kinds)), (*sample_shape, *self.batch_shape)
            if not count or not rows.shape[0]:
                return nc.zeros(shape, dtype="int64", device=rows.device)
            return ag.reshape(ag.transpose(ag.multinomial(rows, count, True)), shape)

    def log_prob(self, value: Any) -> Any:
        (number,) = ag.as_operands(value)
        logits = self.logits
        shape = np.broadcast_shapes(number.shape, logits.shape[:-1])
        wide = ag.expand(logits, (*shape, logits.shape[-1]))
        place = ag.unsqueeze(ag.expand(number, shape).astype("int64"), -1)
        return ag.squeeze(ag.gather(wide, -1, place), -1)

    def entropy(self) -> Any:
        return -ag.sum(self.probs * self.logits, -1)

    support: Any = constraints.dependent_property(
        lambda self: constraints.integer_interval(0, self._told.shape[-1] - 1), is_discrete=True
    )
    mode = property(lambda self: ag.argmax(self.probs, -1))


class OneHotCategorical(Categorical):
    """The same as vectors with a 1 in the place of the number.

    >>> d = nc.distributions.OneHotCategorical(probs=nc.tensor([0.25, 0.75]))
    >>> d.mean.tolist(), d.sample().sum().item()
    ([0.25, 0.75], 1.0)

    Args:
        logits: their logarithms, or log-odds: one of the two is given.
    """

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        super().__init__(probs, logits, validate_args=validate_args)
        self.event_shape = self._told.shape[-1:]

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = ag.one_hot(super().sample(sample_shape), self.event_shape[0])
        return drawn.astype(self._told.dtype)

    def log_prob(self, value: Any) -> Any:
        return super().log_prob(ag.argmax(value, -1))

    @property
    def mode(self) -> Any:
        return ag.one_hot(super().mode, self.event_shape[0]).astype(self._told.dtype)

    support = constraints.one_hot
    mean, variance = Bernoulli.mean, Bernoulli.variance


class Multinomial(_Outcomes):
    """How often each of K outcomes comes in `total_count` trials.

    `probs` or `logits` have the shape (..., K).

    >>> d = nc.distributions.Multinomial(4, probs=nc.tensor([0.25, 0.75]))
    >>> d.mean.tolist(), d.sample().sum().item()
    ([1.0, 3.0], 4.0)

    Args:
        logits: their logarithms, or log-odds: one of the two is given.
    """

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        super().__init__(probs, logits, validate_args=validate_args)
        self.total_count, self.event_shape = int(total_count), self._told.shape[-1:]

    def _one(self) -> Categorical:
        return Categorical(**self._named())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        ((name, x),) = self._named().items()
        wide = ag.expand(x, (*batch_shape, *self.event_shape))
        return Multinomial(self.total_count, **{name: wide})

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = self._one().sample((self.total_count, *sample_shape))
        counts = ag.sum(ag.one_hot(drawn, self.event_shape[0]), 0)
        return counts.astype(self._told.dtype)

    def log_prob(self, value: Any) -> Any:
        (x,) = ag.as_operands(value)
        ways = ag.lgamma(ag.sum(x, -1) + 1) - ag.sum(ag.lgamma(x + 1), -1)
        return ways + summed(x * self.logits, 1)

    def entropy(self) -> Any:
        n = self.total_count
        each = Binomial(n, self.probs)
        support = each._support()
        ways = ag.sum(ag.exp(each.log_prob(support)) * ag.lgamma(support + 1), (0, -1))
        return n * self._one().entropy() - math.lgamma(n + 1) + ways

    support = constraints.dependent_property(
        lambda self: constraints.multinomial(self.total_count), is_discrete=True, event_dim=1
    )
    mean = property(lambda self: self.total_count * self.probs)
    variance = property(lambda self: self.mean * (1 - self.probs))
