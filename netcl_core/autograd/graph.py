"""CompiledGraph, under the path that the documentation gives it, and the function beside it."""

from __future__ import annotations

from netcl_core.jit.capture import CompiledGraph as CompiledGraph
from netcl_core.jit.capture import capture as capture
