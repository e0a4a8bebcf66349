"""The JIT: a Python function of ops becomes a program of fused kernels.

Owns what a call's key is made of (`arguments`), what a function read besides (`guards`, with
`impure` and `watch`), the run with symbols (`trace`) and how it goes on with data (`resuming`),
the groups of ops that training patterns take (`patterns` are the records, `pattern_rows` which of
them may apply, `readings` a trace as calls of ops, `matching` and `rewriting` the search and what
follows from it, `training` the face of it), which nodes of a trace share a kernel (`partition`,
`neighbours`), the program that runs, what is kept of it (`entries`), and its explanation. Beside
it `capture`: a block of code as the list of the device's commands, replayed with other inputs
(`graph_inputs`, `graph_outputs`). Imports `ops` and what lies below it.
"""

from __future__ import annotations

from typing import Any

from netcl_core.plugins.manager import absent


def __getattr__(name: str) -> Any:
    return absent("jit", name, ())
