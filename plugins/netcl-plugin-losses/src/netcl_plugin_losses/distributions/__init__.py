"""`netcl_core.distributions`: probability distributions with PyTorch's names, as formulas of ops.

Their parameters broadcast. `sample` draws without a gradient, `rsample` as a function of the
parameters, through which gradients flow.
"""

from __future__ import annotations

from typing import Any

from netcl_core.errors import missing_name
from netcl_plugin_losses.distributions.base import Distribution, Independent
from netcl_plugin_losses.distributions.continuous import Exponential, Laplace, Normal, Uniform
from netcl_plugin_losses.distributions.discrete import Bernoulli, Categorical, OneHotCategorical
from netcl_plugin_losses.distributions.divergences import kl_divergence, register_kl

__all__ = ["Bernoulli", "Categorical", "Distribution", "Exponential", "Independent", "Laplace",
           "Normal", "OneHotCategorical", "Uniform", "kl_divergence", "register_kl"]  # fmt: skip


def __getattr__(name: str) -> Any:
    raise missing_name("netcl_core.distributions", name, __all__)
