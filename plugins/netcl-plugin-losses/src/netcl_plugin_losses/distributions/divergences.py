"""Kullback-Leibler divergences by the types of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_plugin_losses.distributions.base import Independent, summed
from netcl_plugin_losses.distributions.continuous import (
    HALF_LOG_TAU,
    Cauchy,
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
)
from netcl_plugin_losses.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Poisson,
)
from netcl_plugin_losses.distributions.gammas import Beta, Dirichlet, Gamma
from netcl_plugin_losses.distributions.multivariate import MultivariateNormal
from netcl_plugin_losses.distributions.transforms import TransformedDistribution

_KL: Final[dict[tuple[type, type], Callable[[Any, Any], Any]]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: a function of two distributions is `kl_divergence` of these types.

    >>> class Coin(nc.distributions.Bernoulli):
    ...     pass
    >>> @nc.distributions.register_kl(Coin, Coin)
    ... def between_coins(p, q):
    ...     return p.mean - q.mean
    >>> p, q = Coin(probs=nc.tensor(0.75)), Coin(probs=nc.tensor(0.5))
    >>> nc.distributions.kl_divergence(p, q).item()
    0.25

    Args:
        type_p: The class of p, and
        type_q: the class of q.
    """

    def register(function: Any) -> Any:
        _KL[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Any, q: Any) -> Any:
    """The Kullback-Leibler divergence of q from p in nats; NotImplementedError for other pairs.

    >>> p, q = nc.distributions.Gamma(2.0, 1.0), nc.distributions.Exponential(nc.tensor([1.0]))
    >>> [round(number, 4) for number in nc.distributions.kl_divergence(p, q).tolist()]
    [0.4228]
    """
    for one in type(p).__mro__:
        for other in type(q).__mro__:
            if (one, other) in _KL:
                return _KL[one, other](p, q)
    raise NotImplementedError(f"kl_divergence of {type(p).__name__} and {type(q).__name__}")


# -- of two different families: the mean of log p - log q under p -----------------------------


def _within(p: Any, low: float, high: float) -> Any:
    """Whether a distribution has no values outside of two ends."""
    if not isinstance(p, Uniform):
        return True
    return ag.logical_and(ag.ge(p.low, low), ag.le(p.high, high))


def _mean_log(p: Any) -> Any:
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.pair().mean_logs()[..., 0]
    if isinstance(p, Uniform):
        return (ag.xlogy(p.high, p.high) - ag.xlogy(p.low, p.low)) / (p.high - p.low) - 1
    shape = p.concentration if isinstance(p, Gamma) else ag.ones_like(p.rate)
    return ag.digamma(shape) - ag.log(p.rate)


def _mean_log_rest(p: Any) -> Any:
    """The mean of log(1 - x), of numbers between 0 and 1."""
    return _mean_log(
        Beta(p.concentration0, p.concentration1)
        if isinstance(p, Beta)
        else Uniform(1 - p.high, 1 - p.low)
    )


def _mean_exp(p: Any, t: Any) -> Any:
    """The mean of exp(t x), with t below 0."""
    if isinstance(p, Normal):
        return ag.exp(t * p.loc + (t * p.scale) ** 2 / 2)
    if isinstance(p, Uniform):
        return (ag.exp(t * p.high) - ag.exp(t * p.low)) / (t * (p.high - p.low))
    if isinstance(p, Gumbel):
        return ag.exp(t * p.loc + ag.lgamma(1 - t * p.scale))
    shape = p.concentration if isinstance(p, Gamma) else 1.0
    return (1 - t / p.rate) ** -shape


def _under_normal(p: Any, q: Any) -> Any:
    squares = p.variance + (p.mean - q.loc) ** 2
    return -squares / (2 * q.scale**2) - ag.log(q.scale) - HALF_LOG_TAU


def _under_exponential(p: Any, q: Any) -> Any:
    return ag.where(_within(p, 0, math.inf), ag.log(q.rate) - q.rate * p.mean, -math.inf)


def _under_gamma(p: Any, q: Any) -> Any:
    a, rate = q.concentration, q.rate
    divergence = a * ag.log(rate) - ag.lgamma(a) + (a - 1) * _mean_log(p) - rate * p.mean
    return ag.where(_within(p, 0, math.inf), divergence, -math.inf)


def _under_gumbel(p: Any, q: Any) -> Any:
    return (
        -ag.log(q.scale)
        - (p.mean - q.loc) / q.scale
        - ag.exp(q.loc / q.scale) * _mean_exp(p, -1 / q.scale)
    )


def _under_beta(p: Any, q: Any) -> Any:
    logs = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log_rest(p)
    return ag.where(_within(p, 0, 1), logs - q.pair()._log_norm(), -math.inf)


#: The family of q, the mean of log q under p, and the families of p that have it.
_UNDER: Final = (
    (Normal, _under_normal, (Beta, Exponential, Gamma, Gumbel, Laplace, Uniform)),
    (Exponential, _under_exponential, (Beta, Gamma, Uniform)),
    (Gamma, _under_gamma, (Beta, Exponential, Gamma, Uniform)),
    (Gumbel, _under_gumbel, (Exponential, Gamma, Normal, Gumbel, Uniform)),
    (Beta, _under_beta, (Beta, Uniform)),
)
for _q, _mean, _ps in _UNDER:
    for _p in _ps:
        _KL[_p, _q] = lambda p, q, mean=_mean: -p.entropy() - mean(p, q)  # type: ignore[misc]


# -- of one family ----------------------------------------------------------------------------


@register_kl(Normal, Normal)
def _of_normals(p: Normal, q: Normal) -> Any:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ag.log(ratio))


@register_kl(Normal, Laplace)
def _of_normal_and_laplace(p: Normal, q: Laplace) -> Any:
    """By the mean of |x - loc| of a normal number."""
    x = (p.loc - q.loc) / p.scale
    away = p.scale * (math.sqrt(2 / math.pi) * ag.exp(-x * x / 2) + x * ag.erf(x / math.sqrt(2)))
    return -p.entropy() + away / q.scale + ag.log(2 * q.scale)


@register_kl(HalfNormal, HalfNormal)
def _of_half_normals(p: HalfNormal, q: HalfNormal) -> Any:
    return _of_normals(p._normal(), q._normal())


@register_kl(MultivariateNormal, MultivariateNormal)
def _of_vectors(p: MultivariateNormal, q: MultivariateNormal) -> Any:
    apart = ag.unsqueeze(p.loc - q.loc, -1)
    both = ag.cat([ag.expand(p.scale_tril, (*apart.shape[:-1], p.event_shape[0])), apart], -1)
    squares = summed(q.whitened(both) ** 2, 2)
    return 0.5 * (squares - p.event_shape[0]) + q.half_log_det() - p.half_log_det()


@register_kl(Dirichlet, Dirichlet)
def _of_dirichlets(p: Dirichlet, q: Dirichlet) -> Any:
    apart = p.concentration - q.concentration
    return q._log_norm() - p._log_norm() + summed(apart * p.mean_logs(), 1)


@register_kl(Categorical, Categorical)
def _of_categories(p: Categorical, q: Categorical) -> Any:
    probs = p.probs
    return ag.sum(ag.where(ag.eq(probs, 0), 0.0, probs * (p.logits - q.logits)), -1)


@register_kl(Bernoulli, Bernoulli)
def _of_bernoullis(p: Bernoulli, q: Bernoulli) -> Any:
    return p.probs * (p.logits - q.logits) + ag.softplus(q.logits) - ag.softplus(p.logits)


@register_kl(Binomial, Binomial)
def _of_binomials(p: Binomial, q: Binomial) -> Any:
    if ag.any(ag.lt(p.total_count, q.total_count)).item():
        raise NotImplementedError("kl_divergence of a Binomial of fewer trials")
    divergence = p.total_count * _of_bernoullis(
        *(Bernoulli(logits=distribution.logits) for distribution in (p, q))
    )
    return ag.where(ag.gt(p.total_count, q.total_count), math.inf, divergence)


@register_kl(Geometric, Geometric)
def _of_geometrics(p: Geometric, q: Geometric) -> Any:
    return -p.entropy() - ag.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _of_poissons(p: Poisson, q: Poisson) -> Any:
    return p.rate * (ag.log(p.rate) - ag.log(q.rate)) - (p.rate - q.rate)


@register_kl(Bernoulli, Poisson)
def _of_bernoulli_and_poisson(p: Bernoulli, q: Poisson) -> Any:
    return -p.entropy() - (p.probs * ag.log(q.rate) - q.rate)


@register_kl(Exponential, Exponential)
def _of_waits(p: Exponential, q: Exponential) -> Any:
    ratio = q.rate / p.rate
    return ratio - 1 - ag.log(ratio)


@register_kl(Laplace, Laplace)
def _of_laplaces(p: Laplace, q: Laplace) -> Any:
    ratio, apart = p.scale / q.scale, ag.abs(p.loc - q.loc)
    return ratio * ag.exp(-apart / p.scale) + apart / q.scale - ag.log(ratio) - 1


@register_kl(Cauchy, Cauchy)
def _of_cauchies(p: Cauchy, q: Cauchy) -> Any:
    apart = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return ag.log(apart) - ag.log(4 * p.scale * q.scale)


@register_kl(Uniform, Uniform)
def _of_uniforms(p: Uniform, q: Uniform) -> Any:
    inside = ag.logical_and(ag.le(q.low, p.low), ag.ge(q.high, p.high))
    return ag.where(inside, ag.log((q.high - q.low) / (p.high - p.low)), math.inf)


@register_kl(Independent, Independent)
def _of_independents(p: Independent, q: Independent) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of events of other numbers of dimensions")
    return summed(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _of_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of values of other functions")
    return kl_divergence(p.base_dist, q.base_dist)
