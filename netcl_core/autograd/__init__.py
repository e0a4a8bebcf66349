"""netcl_core.autograd: tapes, nodes, gradients, and `ag.<op>` for every installed op.

import netcl_core.autograd as ag
"""

from __future__ import annotations

from typing import Final

from netcl_core.autograd.compiler import (
    AutogradPrimitive,
    TraceNode,
    TracingContext,
    jit_compile,
    register_primitive,
)
from netcl_core.autograd.debug import debug_tape
from netcl_core.autograd.function import Function, once_differentiable
from netcl_core.autograd.graph import CompiledGraph, capture
from netcl_core.autograd.training_compiler import (
    Captured,
    MatchedOp,
    TrainingGraphCompiler,
    TrainingPattern,
    get_training_compiler,
    planned,
)
from netcl_core.codegen.inline import NO_SLOTS, Slots, inlined
from netcl_core.codegen.reduction import (
    SUM,
    Combine,
    reduction_kernels,
    reduction_reads,
    reduction_stretch,
)
from netcl_core.codegen.reduction_numpy import tree_sum
from netcl_core.codegen.teams import RowTeams, group_items, load_width, row_teams
from netcl_core.ops.amp_policies import AmpPolicy
from netcl_core.ops.casting import amp_policy, casting, named_policy
from netcl_core.ops.functions import CORE as _CORE
from netcl_core.ops.functions import __dir__ as _op_names
from netcl_core.ops.functions import face_of as _face_of
from netcl_core.ops.implementations import (
    Implementation,
    Request,
    Requirements,
    Saved,
    Settings,
    Space,
)
from netcl_core.ops.operator_function import as_operand, as_operands
from netcl_core.ops.operators import Operator, composite
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.recording import check_data
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import Spread, is_one
from netcl_core.tape.hooks import when_backward_ends
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
from netcl_core.tensors.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from netcl_core.tensors.storage import copy_by, written_back
from netcl_core.tensors.suspects import check_at_nan

__all__ = [
    "NO_SLOTS",
    "SUM",
    "AmpPolicy",
    "AutogradPrimitive",
    "Captured",
    "Combine",
    "CompiledGraph",
    "Geometry",
    "Function",
    "Implementation",
    "MatchedOp",
    "Node",
    "Operator",
    "Request",
    "Requirements",
    "RowTeams",
    "Saved",
    "Settings",
    "Slots",
    "Space",
    "Spread",
    "Tape",
    "TraceNode",
    "TracingContext",
    "TrainingGraphCompiler",
    "TrainingPattern",
    "accumulate_grad",
    "amp_policy",
    "apply_op",
    "arange",
    "as_operand",
    "as_operands",
    "as_tensor",
    "backward",
    "capture",
    "casting",
    "check_at_nan",
    "check_data",
    "composite",
    "copy_by",
    "debug_tape",
    "detect_anomaly",
    "empty",
    "empty_like",
    "enable_grad",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "get_current_tape",
    "get_training_compiler",
    "grad",
    "group_items",
    "inlined",
    "is_grad_enabled",
    "is_one",
    "jit_compile",
    "linspace",
    "load_width",
    "named_policy",
    "no_grad",
    "once_differentiable",
    "ones",
    "ones_like",
    "planned",
    "reduction_kernels",
    "reduction_reads",
    "reduction_stretch",
    "register_primitive",
    "row_teams",
    "set_current_tape",
    "set_detect_anomaly",
    "set_grad_enabled",
    "tensor",
    "tree_sum",
    "when_backward_ends",
    "written_back",
    "zeros",
    "zeros_like",
]


#: The modules below this one that the documents name.
_SUBMODULES: Final = (
    "engine",
    "compiler",
    "function",
    "graph",
    "training_compiler",
    "debug",
    "ops",
)
__getattr__ = _face_of(globals(), "autograd")


def __dir__() -> list[str]:
    return sorted({*__all__, *_op_names()})


#: What no op can be called: `ag.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_CORE, *_SUBMODULES})
