"""The namespace `netcl_core.optim.lr_scheduler`: all schedules of learning rates."""

from __future__ import annotations

from typing import Any

from netcl_core.plugins import absent
from netcl_plugin_optim.combined import ChainedScheduler, SequentialLR
from netcl_plugin_optim.cosines import CosineAnnealingLR, CosineAnnealingWarmRestarts
from netcl_plugin_optim.cyclic import CyclicLR
from netcl_plugin_optim.factors import (
    ConstantLR,
    ExponentialLR,
    LinearLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from netcl_plugin_optim.lambdas import LambdaLR, MultiplicativeLR
from netcl_plugin_optim.one_cycle import OneCycleLR
from netcl_plugin_optim.plateau import ReduceLROnPlateau
from netcl_plugin_optim.schedules import LRScheduler

__all__ = [
    "LRScheduler",
    "StepLR",
    "MultiStepLR",
    "ExponentialLR",
    "ConstantLR",
    "LinearLR",
    "PolynomialLR",
    "LambdaLR",
    "MultiplicativeLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "OneCycleLR",
    "SequentialLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
]


def __getattr__(name: str) -> Any:
    return absent("optim.lr_scheduler", name, __all__)
