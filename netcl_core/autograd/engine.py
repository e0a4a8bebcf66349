"""The engine's public names, under the path that the documentation gives them."""

from __future__ import annotations

from typing import Any

from netcl_core.plugins.manager import namespace
from netcl_core.tape.function_call import apply_op as apply_op
from netcl_core.tape.modes import is_grad_enabled as is_grad_enabled
from netcl_core.tape.modes import no_grad as no_grad
from netcl_core.tape.modes import set_grad_enabled as set_grad_enabled
from netcl_core.tape.node import Node as Node
from netcl_core.tape.recorded_gradients import grad as grad
from netcl_core.tape.tape import Tape as Tape
from netcl_core.tape.tape import backward as backward
from netcl_core.tape.tape import get_current_tape as get_current_tape
from netcl_core.tape.tape import set_current_tape as set_current_tape
from netcl_core.tape.tape import tensor as tensor


def __getattr__(name: str) -> Any:
    if name not in ("detect_anomaly", "set_detect_anomaly"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(namespace("autodiff"), name)
