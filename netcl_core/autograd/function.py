"""Function, under the path that PyTorch gives it."""

from __future__ import annotations

from netcl_core.ops.autograd_function import Function as Function
from netcl_core.ops.autograd_function import FunctionCtx as FunctionCtx
from netcl_core.ops.autograd_function import once_differentiable as once_differentiable
