"""The namespace `netcl_core.optim`: every public name of this plugin, and `lr_scheduler`."""

from __future__ import annotations

from netcl_plugin_optim import lr_scheduler
from netcl_plugin_optim.adam import Adam, AdamW
from netcl_plugin_optim.clipping import clip_grad_norm_, clip_grad_value_
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.rmsprop import RMSprop
from netcl_plugin_optim.sgd import SGD
from netcl_plugin_optim.slabs import OptimizerStateError

__all__ = [
    "Optimizer",
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "OptimizerStateError",
    "clip_grad_norm_",
    "clip_grad_value_",
    "lr_scheduler",
]
