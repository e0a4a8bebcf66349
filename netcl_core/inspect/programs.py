"""Compiled functions: the trace of a call, and the program of steps that it becomes.

`Jitted` is what `ag.jit_compile` returns. `traced` records a call of its function; the steps of a
`Program` are kernels of fused ops (`RegionStep`), ops by themselves (`OperatorStep`), and what
moves values between them. The namespace `fusion` may make one `Step` of a `Unit` and those beside
it. Training patterns make a `Rewritten` of the nodes of a trace, in which a `Span` tells which are
one op.
"""

from __future__ import annotations

from netcl_core.jit.arguments import Arguments as Arguments
from netcl_core.jit.guarded_values import same as same
from netcl_core.jit.guards import cell_contents as cell_contents
from netcl_core.jit.guards import names_of as names_of
from netcl_core.jit.jit import Jitted as Jitted
from netcl_core.jit.jit import entry_of as entry_of
from netcl_core.jit.jit import name_of as name_of
from netcl_core.jit.jit import traced as traced
from netcl_core.jit.jit import unfused as unfused
from netcl_core.jit.partition import Unit as Unit
from netcl_core.jit.partition import in_order as in_order
from netcl_core.jit.partition import is_cheap as is_cheap
from netcl_core.jit.partition import is_elementwise as is_elementwise
from netcl_core.jit.partition import is_fusible as is_fusible
from netcl_core.jit.partition import is_leaf as is_leaf
from netcl_core.jit.partition import live as live
from netcl_core.jit.partition import region_of as region_of
from netcl_core.jit.program import Program as Program
from netcl_core.jit.program import Rewritten as Rewritten
from netcl_core.jit.resuming import give_values as give_values
from netcl_core.jit.steps import DetachStep as DetachStep
from netcl_core.jit.steps import Group as Group
from netcl_core.jit.steps import Growing as Growing
from netcl_core.jit.steps import OperatorStep as OperatorStep
from netcl_core.jit.steps import PickStep as PickStep
from netcl_core.jit.steps import RegionStep as RegionStep
from netcl_core.jit.steps import Scalars as Scalars
from netcl_core.jit.steps import Step as Step
from netcl_core.tape.trace_node import CONSTANT as CONSTANT
from netcl_core.tape.trace_node import INPUT as INPUT
from netcl_core.tape.trace_node import RANDOM as RANDOM
from netcl_core.tape.trace_node import TraceBreak as TraceBreak
from netcl_core.tape.traced_number import TracedNumber as TracedNumber
from netcl_core.tape.tracing import Span as Span
from netcl_core.tape.tracing import owner_of as owner_of
