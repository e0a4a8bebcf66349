"""The JIT: a Python function of ops becomes a program of fused kernels.

Owns what a call's key is made of (`arguments`), what a function read besides (`guards`, with
`untraceable` and `guarded_values`), the run with symbols (`trace`) and how it goes on with data
(`resuming`), which nodes of a trace share a kernel (`partition`, `epilogues`), the program that
runs (`program`, `steps`), what is kept of it (`entries`), functions that run in parts (`parts`),
and its explanation. Imports `ops` and what lies below it.
"""

from __future__ import annotations

from typing import Any

from netcl_core.plugins.manager import absent


def __getattr__(name: str) -> Any:
    return absent("jit", name, ())
