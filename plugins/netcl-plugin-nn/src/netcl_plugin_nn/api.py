"""The namespace `netcl_core.nn`: every public name of this plugin, and the submodule `init`."""

from __future__ import annotations

from netcl_plugin_nn import init
from netcl_plugin_nn.activations import (
    ELU,
    GELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from netcl_plugin_nn.containers import ModuleList, Sequential
from netcl_plugin_nn.linear import Flatten, Identity, Linear
from netcl_plugin_nn.losses import CrossEntropyLoss, MSELoss
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter
from netcl_plugin_nn.state import LoadReport, StateError

__all__ = [
    "Module",
    "Parameter",
    "Sequential",
    "ModuleList",
    "Linear",
    "Identity",
    "Flatten",
    "ReLU",
    "LeakyReLU",
    "PReLU",
    "ELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Softmax",
    "LogSoftmax",
    "MSELoss",
    "CrossEntropyLoss",
    "LoadReport",
    "StateError",
    "init",
]
