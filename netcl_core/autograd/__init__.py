"""netcl_core.autograd: tapes, nodes, gradients, and `ag.<op>` for every installed op.

import netcl_core.autograd as ag
"""

from __future__ import annotations

from typing import Any, Final

from netcl_core.autograd.compiler import (
    AutogradPrimitive,
    TraceNode,
    TracingContext,
    jit_compile,
    register_primitive,
)
from netcl_core.autograd.debug import debug_tape
from netcl_core.autograd.graph import CompiledGraph, capture
from netcl_core.codegen.inline import NO_SLOTS, Slots
from netcl_core.codegen.reduction import SUM, Combine, reduction_kernels, reduction_stretch
from netcl_core.codegen.reduction_numpy import tree_sum
from netcl_core.codegen.teams import RowTeams, row_teams
from netcl_core.jit.patterns import MatchedOp, TrainingPattern
from netcl_core.ops.amp_policies import AmpPolicy
from netcl_core.ops.functions import CORE as _CORE
from netcl_core.ops.functions import __dir__ as _op_names
from netcl_core.ops.functions import __getattr__ as _op
from netcl_core.ops.implementations import Implementation, Request, Requirements, Saved
from netcl_core.ops.operator_function import as_operand
from netcl_core.ops.operators import Operator, composite
from netcl_core.plugins.registry import registry as _registry
from netcl_core.runtime.recording import check_data
from netcl_core.tape.checkpoint import checkpoint
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import Spread
from netcl_core.tape.modes import (
    detect_anomaly,
    enable_grad,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from netcl_core.tape.node import Node
from netcl_core.tape.recorded_gradients import accumulate_grad, grad
from netcl_core.tape.tape import (
    Tape,
    backward,
    get_current_tape,
    set_current_tape,
    tensor,
)

__all__ = [
    "NO_SLOTS",
    "SUM",
    "AmpPolicy",
    "AutogradPrimitive",
    "Combine",
    "CompiledGraph",
    "Implementation",
    "MatchedOp",
    "Node",
    "Operator",
    "Request",
    "Requirements",
    "RowTeams",
    "Saved",
    "Slots",
    "Spread",
    "Tape",
    "TraceNode",
    "TracingContext",
    "TrainingPattern",
    "accumulate_grad",
    "apply_op",
    "as_operand",
    "backward",
    "capture",
    "check_data",
    "checkpoint",
    "composite",
    "debug_tape",
    "detect_anomaly",
    "enable_grad",
    "get_current_tape",
    "grad",
    "is_grad_enabled",
    "jit_compile",
    "no_grad",
    "reduction_kernels",
    "reduction_stretch",
    "register_primitive",
    "row_teams",
    "set_current_tape",
    "set_detect_anomaly",
    "set_grad_enabled",
    "tensor",
    "tree_sum",
]


#: The modules below this one that the documents name; not all of them are there yet.
_SUBMODULES: Final = ("engine", "compiler", "graph", "training_compiler", "debug", "ops")
_found: set[str] = set()


def __getattr__(name: str) -> Any:
    version = _registry.version
    found = _op(name)
    with _registry.lock:
        if _registry.version == version:  # else a plugin came or went meanwhile
            globals()[name] = found
            _found.add(name)
    return found


def _forget() -> None:
    while _found:
        globals().pop(_found.pop(), None)


_registry.on_change(_forget)


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})


#: What no op can be called: `ag.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_CORE, *_SUBMODULES})
