"""The normal distribution of vectors, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_losses.distributions import constraints
from netcl_plugin_losses.distributions.base import Distribution, summed
from netcl_plugin_losses.distributions.continuous import HALF_LOG_TAU
from netcl_plugin_losses.distributions.discrete import Categorical


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`, by one of three matrices.

    >>> normal = nc.distributions.MultivariateNormal(nc.zeros(2), nc.eye(2))
    >>> normal.sample((5,)).shape, round(normal.log_prob(nc.zeros(2)).item(), 4)
    ((5, 2), -1.8379)

    Args:
        loc: The mean (..., n).
        covariance_matrix: The covariances (..., n, n).
        precision_matrix: Or their inverse.
        scale_tril: Or their Cholesky factor, a lower triangle.
        validate_args: Whether to look at the mean and the factor.

    The factorization is `nc.linalg`'s, of netcl-plugin-linalg.
    """

    has_rsample = True
    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        told = [x for x in (covariance_matrix, precision_matrix, scale_tril) if x is not None]
        if len(told) != 1:
            expected = "one of covariance_matrix, precision_matrix and scale_tril"
            raise ArgumentError(message("MultivariateNormal", f"{len(told)} matrices", expected))
        mean, matrix = ag.as_operands(loc, told[0])
        if not mean.ndim or matrix.ndim < 2 or matrix.shape[-2:] != 2 * mean.shape[-1:]:
            given = f"loc of shape {mean.shape} and a matrix of shape {matrix.shape}"
            raise AttributeValueError(message("MultivariateNormal", given, "(..., n), (..., n, n)"))
        if precision_matrix is not None:
            matrix = nc.linalg.inv(matrix)
        tril = matrix if scale_tril is not None else nc.linalg.cholesky(matrix)
        batch = ag.broadcast_shapes(mean.shape[:-1], tril.shape[:-2])
        self.loc = ag.expand(mean, (*batch, *mean.shape[-1:]))
        self.scale_tril = ag.expand(tril, (*batch, *tril.shape[-2:]))
        super().__init__(batch, mean.shape[-1:], validate_args)

    @property
    def covariance_matrix(self) -> Any:
        """The covariances."""
        return ag.matmul(self.scale_tril, ag.transpose(self.scale_tril, -1, -2))

    @property
    def precision_matrix(self) -> Any:
        """Their inverse."""
        return nc.linalg.inv(self.covariance_matrix)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        noise = self._noise(nc.randn, sample_shape, self.loc)
        return self.loc + ag.squeeze(ag.matmul(self.scale_tril, ag.unsqueeze(noise, -1)), -1)

    def half_log_det(self) -> Any:
        """Half the logarithm of the determinant of the covariances."""
        return summed(ag.log(ag.diagonal(self.scale_tril, 0, -2, -1)), 1)

    def whitened(self, x: Any) -> Any:
        """Matrices (..., n, m) times the inverse of the Cholesky factor."""
        tril = ag.expand(self.scale_tril, (*x.shape[:-1], x.shape[-2]))
        return nc.linalg.solve_triangular(tril, x, upper=False)

    def log_prob(self, value: Any) -> Any:
        apart = value - self.loc
        squares = summed(self.whitened(ag.unsqueeze(apart, -1)) ** 2, 2)
        return -0.5 * squares - self.half_log_det() - self.event_shape[0] * HALF_LOG_TAU

    def entropy(self) -> Any:
        return self.half_log_det() + self.event_shape[0] * (0.5 + HALF_LOG_TAU)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: summed(self.scale_tril**2, 1))


class MixtureSameFamily(Distribution):
    """One of K components, drawn by a Categorical.

    >>> D = nc.distributions
    >>> halves = D.Categorical(probs=nc.tensor([0.5, 0.5]))
    >>> d = D.MixtureSameFamily(halves, D.Normal(nc.tensor([-1.0, 3.0]), nc.ones(2)))
    >>> d.mean.item(), d.sample((4,)).shape
    (1.0, (4,))

    Args:
        mixture_distribution: A Categorical of batch_shape (...), whose weights have K elements.
        component_distribution: Any distribution of batch_shape (..., K).
        validate_args: Has no effect.
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: Any = None
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            given = f"a mixture_distribution {type(mixture).__name__}"
            raise ArgumentError(message("MixtureSameFamily", given, "a Categorical"))
        if component.batch_shape[-1:] != mixture.probs.shape[-1:]:
            given = f"components of batch_shape {component.batch_shape}"
            expected = f"(..., {mixture.probs.shape[-1]})"
            raise AttributeValueError(message("MixtureSameFamily", given, expected))
        self.mixture_distribution, self.component_distribution = mixture, component
        super().__init__(component.batch_shape[:-1], component.event_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        inner = self.component_distribution.expand(
            (*batch_shape, *self.component_distribution.batch_shape[-1:])
        )
        return MixtureSameFamily(self.mixture_distribution.expand(batch_shape), inner)

    def _over(self, x: Any) -> Any:
        """Along the components, which stand before an event's dimensions."""
        return ag.unsqueeze(x, -1 - len(self.event_shape))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with nc.no_grad():
            count = len(self.event_shape)
            chosen = self.mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            place = chosen.reshape((*chosen.shape, 1, *[1] * count))
            place = ag.expand(place, (*chosen.shape, 1, *self.event_shape))
            return ag.squeeze(ag.gather(drawn, -1 - count, place), -1 - count)

    def _weighted(self, x: Any) -> Any:
        """The mean of the components' values."""
        probs = self.mixture_distribution.probs
        probs = probs.reshape((*probs.shape, *[1] * len(self.event_shape)))
        return ag.sum(probs * x, -1 - len(self.event_shape))

    def log_prob(self, value: Any) -> Any:
        logs = self.component_distribution.log_prob(self._over(*ag.as_operands(value)))
        return ag.logsumexp(logs + ag.log_softmax(self.mixture_distribution.logits, -1), -1)

    def cdf(self, value: Any) -> Any:
        below = self.component_distribution.cdf(self._over(*ag.as_operands(value)))
        return ag.sum(below * self.mixture_distribution.probs, -1)

    support = constraints.dependent_property(lambda self: self.component_distribution.support)
    mean = property(lambda self: self._weighted(self.component_distribution.mean))

    @property
    def variance(self) -> Any:
        """The mean of the variances, and the variance of the means."""
        apart = self.component_distribution.mean - self._over(self.mean)
        return self._weighted(self.component_distribution.variance + apart**2)
