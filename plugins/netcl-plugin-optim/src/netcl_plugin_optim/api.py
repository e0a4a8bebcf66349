"""The namespace `netcl_core.optim`: every public name of this plugin, and `lr_scheduler`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from netcl_core.plugins import absent
from netcl_plugin_optim import lr_scheduler
from netcl_plugin_optim.adam import Adam, Adamax, AdamW, RAdam
from netcl_plugin_optim.clipping import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    unscale_grads_,
)
from netcl_plugin_optim.ema import EMA
from netcl_plugin_optim.lbfgs import LBFGS
from netcl_plugin_optim.matrices import Adafactor, Muon
from netcl_plugin_optim.nadam import NAdam
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.sgd import ASGD, SGD
from netcl_plugin_optim.signs import Lion, Rprop
from netcl_plugin_optim.slabs import OptimizerStateError
from netcl_plugin_optim.squares import Adadelta, Adagrad, RMSprop

__all__ = [
    "Optimizer",
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "NAdam",
    "RAdam",
    "Lion",
    "ASGD",
    "Rprop",
    "LBFGS",
    "Adafactor",
    "Muon",
    "EMA",
    "OptimizerStateError",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "unscale_grads_",
    "lr_scheduler",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        if name == "swa_utils":  # it is made of modules, which netcl-plugin-nn brings
            return importlib.import_module("netcl_plugin_optim.swa_utils")
        return absent("optim", name, __all__)
