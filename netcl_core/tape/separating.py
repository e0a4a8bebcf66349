"""Results of one kernel, of which one follows from another: who tells them apart for the tape."""

from __future__ import annotations

from typing import Any

from netcl_core import plugins
from netcl_core.tape.node import Node


def separate(x: Any) -> None:
    """Let what a kernel has computed from a result beside it be recorded as computed from it.

    Raises MissingNamespaceError where a kernel has several results and nothing tells them apart.
    """
    node = x if isinstance(x, Node) else x.graph
    call: Any = None if node is None else node.call
    if hasattr(call, "region_of") and len(call.results) > 1:
        who = f"a gradient for one of several results of {node.op_name}"
        plugins.namespace("fusion", who).separate(node)
