"""The compiler's public names, under the path that the documentation gives them."""

from __future__ import annotations

from netcl_core.codegen.primitives import AutogradPrimitive as AutogradPrimitive
from netcl_core.jit.jit import jit_compile as jit_compile
from netcl_core.ops.registrars import register_primitive as register_primitive
from netcl_core.tape.trace_node import TraceNode as TraceNode
from netcl_core.tape.tracing import TracingContext as TracingContext
