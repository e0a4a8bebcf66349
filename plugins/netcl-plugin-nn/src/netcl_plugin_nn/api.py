"""The namespace `netcl_core.nn`: every public name of this plugin, and the submodule `init`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.errors import missing_name
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
from netcl_plugin_nn.batch_norms import BatchNorm1d, BatchNorm2d
from netcl_plugin_nn.containers import ModuleList, Sequential
from netcl_plugin_nn.dropout import Dropout
from netcl_plugin_nn.embedding import Embedding
from netcl_plugin_nn.linear import Flatten, Identity, Linear
from netcl_plugin_nn.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.norms import GroupNorm, LayerNorm, RMSNorm
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
    "Embedding",
    "Dropout",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "BatchNorm1d",
    "BatchNorm2d",
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
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "NLLLoss",
    "KLDivLoss",
    "LoadReport",
    "StateError",
    "init",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        raise missing_name("netcl_core.nn", name, __all__)
