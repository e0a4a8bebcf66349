"""Distributions of outcomes that are told by their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_losses.distributions.base import Distribution, together


class _Discrete(Distribution):
    """Distributions that are told by `probs` or by `logits`, of which exactly one is given."""

    def __init__(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            who, given = type(self).__name__, "both" if probs is not None else "neither"
            raise ArgumentError(message(who, f"{given} of probs and logits", "one of them"))
        (self._given,) = together(logits if probs is None else probs)
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
        (number,) = together(value)
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

    mean, variance = Bernoulli.mean, Bernoulli.variance
