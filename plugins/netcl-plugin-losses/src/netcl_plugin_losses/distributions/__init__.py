"""`netcl_core.distributions`: probability distributions with PyTorch's names, as formulas of ops.

Their parameters broadcast. `sample` draws without a gradient, `rsample` as a function of the
parameters, through which gradients flow.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from netcl_core.plugins import absent
from netcl_plugin_losses.distributions import constraints, transforms
from netcl_plugin_losses.distributions.base import Distribution, Independent
from netcl_plugin_losses.distributions.continuous import (
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
    Multinomial,
    OneHotCategorical,
    Poisson,
)
from netcl_plugin_losses.distributions.divergences import kl_divergence, register_kl
from netcl_plugin_losses.distributions.gammas import Beta, Chi2, Dirichlet, Gamma, StudentT
from netcl_plugin_losses.distributions.multivariate import MixtureSameFamily, MultivariateNormal
from netcl_plugin_losses.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    LogNormal,
    PowerTransform,
    SigmoidTransform,
    TanhTransform,
    Transform,
    TransformedDistribution,
)

__all__ = ["AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
           "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma",
           "Geometric", "Gumbel", "HalfNormal", "Independent", "Laplace", "LogNormal",
           "MixtureSameFamily", "Multinomial", "MultivariateNormal", "Normal", "OneHotCategorical",
           "Poisson", "PowerTransform", "SigmoidTransform", "StudentT", "TanhTransform",
           "Transform", "TransformedDistribution", "Uniform", "constraints", "kl_divergence",
           "register_kl",
           "transforms"]  # fmt: skip


#: PyTorch's files, each of which is this module: `from torch.distributions.normal import Normal`.
_FILES: Final = """bernoulli beta binomial categorical cauchy chi2 dirichlet distribution
exponential gamma geometric gumbel half_normal independent kl laplace log_normal
mixture_same_family multinomial multivariate_normal normal one_hot_categorical
poisson studentT transformed_distribution uniform"""


def __getattr__(name: str) -> Any:
    if name in _FILES.split():
        return sys.modules[__name__]
    return absent("distributions", name, __all__)
