"""The namespace `netcl_core.autodiff`: every public name of this plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netcl_core.errors import missing_name
from netcl_plugin_autodiff import func, functional, grad_manager
from netcl_plugin_autodiff.anomaly import detect_anomaly, set_detect_anomaly
from netcl_plugin_autodiff.checkpoint import checkpoint
from netcl_plugin_autodiff.function import Function, FunctionCtx, once_differentiable
from netcl_plugin_autodiff.grad_manager import AttachSpec, GradManager, GradManagerGroup
from netcl_plugin_autodiff.gradcheck import gradcheck, gradgradcheck
from netcl_plugin_autodiff.recording import get_backwarding_grad_manager
from netcl_plugin_autodiff.suspended import held_while_running as held_while_running

__all__ = [
    "AttachSpec",
    "Function",
    "FunctionCtx",
    "GradManager",
    "GradManagerGroup",
    "checkpoint",
    "detect_anomaly",
    "func",
    "functional",
    "get_backwarding_grad_manager",
    "grad_manager",
    "gradcheck",
    "gradgradcheck",
    "once_differentiable",
    "set_detect_anomaly",
]

if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        raise missing_name("netcl_core.autodiff", name, __all__)
