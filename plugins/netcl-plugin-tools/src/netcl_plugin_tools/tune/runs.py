"""What `netcl tune` runs beside ops: a function of a file."""

from __future__ import annotations

import contextlib
import sys

from netcl_plugin_kit.testing.op_runs import with_gradients

from netcl_core.errors import ArgumentError, message
from netcl_plugin_tools.graph.target import (
    function_of,
    inputs_of,
    load,
    path_of,
    take_gradients,
    told,
)

WHO = "tune"


def run_function(target: str, shapes: str | None, dtype: str, backward: bool) -> None:
    """Call a function of a file; raises ArgumentError where that raises."""
    with contextlib.redirect_stdout(sys.stderr), path_of(WHO, target) as (path, name):
        module = load(WHO, path)
        function = function_of(WHO, module, path, name)
        given = inputs_of(WHO, module, function, name, shapes, dtype)
        if backward:
            take_gradients(given, shapes is not None)
        try:
            result = function(*given.args, **given.kwargs)
            if backward:
                with_gradients(lambda: result)
        except Exception as error:
            raise ArgumentError(message(WHO, f"{name} raised {told(error)}")) from error
