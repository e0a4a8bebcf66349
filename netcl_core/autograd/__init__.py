"""netcl_core.autograd: tapes, nodes, gradients, and `ag.<op>` for every installed op.

import netcl_core.autograd as ag
"""

from __future__ import annotations

from typing import Final

from netcl_core.autograd import graph as graph
from netcl_core.autograd import training_compiler as training_compiler
from netcl_core.autograd.compiler import AutogradPrimitive as AutogradPrimitive
from netcl_core.autograd.compiler import TraceNode as TraceNode
from netcl_core.autograd.compiler import TracingContext as TracingContext
from netcl_core.autograd.compiler import jit_compile as jit_compile
from netcl_core.autograd.compiler import register_primitive as register_primitive
from netcl_core.autograd.debug import debug_tape as debug_tape
from netcl_core.ops.functions import CORE as _CORE
from netcl_core.ops.functions import __dir__ as _op_names
from netcl_core.ops.functions import face_of as _face_of
from netcl_core.ops.host_operands import as_operand as as_operand
from netcl_core.ops.host_operands import as_operands as as_operands
from netcl_core.ops.implementations import NO_SLOTS as NO_SLOTS
from netcl_core.ops.implementations import Implementation as Implementation
from netcl_core.ops.implementations import Request as Request
from netcl_core.ops.implementations import Requirements as Requirements
from netcl_core.ops.implementations import Saved as Saved
from netcl_core.ops.implementations import Settings as Settings
from netcl_core.ops.implementations import Slots as Slots
from netcl_core.ops.implementations import Space as Space
from netcl_core.ops.in_place import hand_over as hand_over
from netcl_core.ops.operator_plan import kernels_of as kernels_of
from netcl_core.ops.operators import Operator as Operator
from netcl_core.ops.operators import composite as composite
from netcl_core.runtime.geometry import Geometry as Geometry
from netcl_core.runtime.recording import check_data as check_data
from netcl_core.tape.function_call import apply_op as apply_op
from netcl_core.tape.gradients import Added as Added
from netcl_core.tape.gradients import Spread as Spread
from netcl_core.tape.gradients import is_one as is_one
from netcl_core.tape.hooks import when_backward_ends as when_backward_ends
from netcl_core.tape.modes import enable_grad as enable_grad
from netcl_core.tape.modes import is_grad_enabled as is_grad_enabled
from netcl_core.tape.modes import no_grad as no_grad
from netcl_core.tape.modes import set_grad_enabled as set_grad_enabled
from netcl_core.tape.node import Node as Node
from netcl_core.tape.recorded_gradients import accumulate_grad as accumulate_grad
from netcl_core.tape.recorded_gradients import grad as grad
from netcl_core.tape.tape import Tape as Tape
from netcl_core.tape.tape import backward as backward
from netcl_core.tape.tape import get_current_tape as get_current_tape
from netcl_core.tape.tape import set_current_tape as set_current_tape
from netcl_core.tape.tape import tensor as tensor
from netcl_core.tensors.creation import empty as empty
from netcl_core.tensors.creation import empty_like as empty_like
from netcl_core.tensors.creation import full as full
from netcl_core.tensors.creation import full_like as full_like
from netcl_core.tensors.creation import ones as ones
from netcl_core.tensors.creation import ones_like as ones_like
from netcl_core.tensors.creation import zeros as zeros
from netcl_core.tensors.creation import zeros_like as zeros_like
from netcl_core.tensors.operand import check_at_nan as check_at_nan
from netcl_core.tensors.storage import copy_by as copy_by
from netcl_core.tensors.storage import written_back as written_back

#: The modules below this one that the documents name.
_SUBMODULES: Final = (
    "engine",
    "compiler",
    "graph",
    "training_compiler",
    "debug",
    "ops",
)
__all__ = sorted(
    name
    for name in {*globals()} - {"Final", "annotations", *_SUBMODULES}
    if not name.startswith("_")
)
#: Names that stand in a namespace, and are handed out by that.
_NAMESPACES: Final = {
    "amp": "AmpPolicy amp_policy casting named_policy",
    "autodiff": "Function detect_anomaly once_differentiable set_detect_anomaly",
    "capture": "CompiledGraph auto_replay capture",
    "creation": "arange eye linspace",
    "fusion": "inlined",
    "patterns": (
        "Captured MatchedOp TrainingGraphCompiler TrainingPattern get_training_compiler planned"
    ),
    "reductions": (
        "SUM Combine RowTeams group_items load_width reduction_kernels reduction_reads "
        "reduction_stretch row_teams tree_sum"
    ),
}
_SHORT: Final = {name: space for space, names in _NAMESPACES.items() for name in names.split()}
__getattr__ = _face_of(globals(), "autograd", _SHORT)


def __dir__() -> list[str]:
    return sorted({*__all__, *_SHORT, *_op_names()})


#: What no op can be called: `ag.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_CORE, *_SHORT, *_SUBMODULES})
