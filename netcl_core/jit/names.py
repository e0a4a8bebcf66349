"""Names: what the bytecode of a function says that it reads."""

from __future__ import annotations

import dis
import functools
from types import CodeType
from typing import TypeAlias

_Names: TypeAlias = tuple[frozenset[str], frozenset[str], frozenset[tuple[int, str]]]


@functools.lru_cache(maxsize=1024)
def names_of(code: CodeType) -> _Names:
    """The names of globals that code reads, all it uses, and the modules that it imports."""
    read: set[str] = set()
    used: set[str] = set()
    imported: set[tuple[int, str]] = set()
    stack = [code]
    while stack:
        code = stack.pop()
        level = 0
        for step in dis.get_instructions(code):
            if step.opcode in dis.hasname and not step.opname.startswith(("STORE_", "DELETE_")):
                used.add(step.argval)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                read.add(step.argval)
            elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and type(step.argval) is int:
                level = step.argval  # the level of an import stands before its name
            elif step.opname == "IMPORT_NAME":
                parts = step.argval.split(".")
                used.update(parts)
                imported |= {(level, step.argval), (level, parts[0])}
        stack += [const for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(read), frozenset(used), frozenset(imported)
