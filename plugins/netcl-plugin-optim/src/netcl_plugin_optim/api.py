"""The namespace `netcl_core.optim`: every public name of this plugin."""

from __future__ import annotations

from netcl_plugin_optim.adam import Adam
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.sgd import SGD
from netcl_plugin_optim.slabs import OptimizerStateError

__all__ = ["Optimizer", "SGD", "Adam", "OptimizerStateError"]
