"""Kullback-Leibler divergences by the types of the two distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_plugin_losses.distributions.base import Independent
from netcl_plugin_losses.distributions.continuous import Exponential, Laplace, Normal, Uniform
from netcl_plugin_losses.distributions.discrete import Bernoulli, Categorical

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
