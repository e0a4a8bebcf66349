"""The engine's public names, under the path that the documentation gives them."""

from __future__ import annotations

from netcl_core.tape.function_call import apply_op
from netcl_core.tape.modes import (
    detect_anomaly,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from netcl_core.tape.node import Node
from netcl_core.tape.recorded_gradients import grad
from netcl_core.tape.tape import (
    Tape,
    backward,
    get_current_tape,
    set_current_tape,
    tensor,
)

__all__ = [
    "Node",
    "Tape",
    "apply_op",
    "backward",
    "detect_anomaly",
    "get_current_tape",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "set_current_tape",
    "set_detect_anomaly",
    "set_grad_enabled",
    "tensor",
]
