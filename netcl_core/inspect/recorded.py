"""What a tape has recorded: its calls as a graph, who made them, and how they are differentiated.

`origin` gives the node with the record of the call behind a value. A call is a `RegionCall`
(fused elementwise ops), an `OperatorCall`, a `FunctionCall` or a plugin's; `line_of`
says where the user wrote it. Who has a call of his own, which computes its forward again for the
gradients, runs that under `forward_again`, with the random states `noted` the first time
`given_again`. The graph has a `MetaTensor` for what no gradient
reads. A call may change its inputs: `former_of` is what one was before, and `becomes` lets it
be a result. Who decides in which dtypes ops compute enters a `Casting` as `thread.amp`. `hook_rows`
has the hooks of gradients, and `move_hooks` lets them go along with a record.
"""

from __future__ import annotations

from netcl_core.ops.casting import Casts as Casts
from netcl_core.ops.casting import cast as cast
from netcl_core.ops.in_place import becomes as becomes
from netcl_core.ops.in_place import former_of as former_of
from netcl_core.ops.operator_call import OperatorCall as OperatorCall
from netcl_core.ops.residuals import is_given_away as is_given_away
from netcl_core.tape.apply import PlainCall as PlainCall
from netcl_core.tape.apply import apply as apply
from netcl_core.tape.apply import recorded_again as recorded_again
from netcl_core.tape.apply import result_nodes as result_nodes
from netcl_core.tape.computations import cast_region as cast_region
from netcl_core.tape.computations import run_plan as run_plan
from netcl_core.tape.frames import anomaly as anomaly
from netcl_core.tape.frames import describe_frame as describe_frame
from netcl_core.tape.frames import line_of as line_of
from netcl_core.tape.frames import trace_of as trace_of
from netcl_core.tape.function_call import FunctionCall as FunctionCall
from netcl_core.tape.gradients import checked as checked
from netcl_core.tape.gradients import no_second_derivative as no_second_derivative
from netcl_core.tape.gradients import refuse_unrecorded as refuse_unrecorded
from netcl_core.tape.gradients import whole as whole
from netcl_core.tape.held import held as held
from netcl_core.tape.hooks import hook_rows as hook_rows
from netcl_core.tape.hooks import move_hooks as move_hooks
from netcl_core.tape.node import Target as Target
from netcl_core.tape.node import leaf_node as leaf_node
from netcl_core.tape.node import next_number as next_number
from netcl_core.tape.node import origin as origin
from netcl_core.tape.node import target_of as target_of
from netcl_core.tape.node import user_frame as user_frame
from netcl_core.tape.recorded_gradients import forward_again as forward_again
from netcl_core.tape.recorded_gradients import gradients_of as gradients_of
from netcl_core.tape.recorded_gradients import recomputed_gradients as recomputed_gradients
from netcl_core.tape.region_call import RegionCall as RegionCall
from netcl_core.tape.region_call import plan_gradients as plan_gradients
from netcl_core.tape.state import Entries as Entries
from netcl_core.tape.state import casting_by as casting_by
from netcl_core.tape.state import process as process
from netcl_core.tape.state import thread as thread
from netcl_core.tape.tracing import apart as apart
from netcl_core.tensors.operand import times_told as times_told
from netcl_core.tensors.random_state import given_again as given_again
from netcl_core.tensors.random_state import noted as noted
from netcl_core.tensors.tensor import MetaTensor as MetaTensor
