"""The namespace `netcl_core.optim.lr_scheduler`: all schedules of learning rates."""

from __future__ import annotations

from netcl_plugin_optim.one_cycle import OneCycleLR
from netcl_plugin_optim.plateau import ReduceLROnPlateau
from netcl_plugin_optim.schedules import CosineAnnealingLR, LinearLR, LRScheduler, StepLR

__all__ = [
    "LRScheduler",
    "StepLR",
    "CosineAnnealingLR",
    "LinearLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
]
