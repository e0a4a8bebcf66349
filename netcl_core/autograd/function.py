"""Function, under the path that PyTorch gives it."""

from __future__ import annotations

from netcl_core.ops.autograd_function import Function, FunctionCtx, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
