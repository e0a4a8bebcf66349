"""Says why a kernel does not take what it is given: by its signature in the source."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from netcl_core.errors import DeviceError, message

_KERNEL: Final = re.compile(
    r"\b(?:__)?kernel\b[^;{(]*?(?:__attribute__\s*\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(([^)]*)\)", re.S
)
_COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)


def kernels_in(source: str) -> dict[str, str]:
    """The kernels of an OpenCL C source, each with its parameters on one line."""
    matches = _KERNEL.findall(_COMMENT.sub(" ", source))
    return {name: " ".join(parameters.split()) for name, parameters in matches}


@lru_cache(maxsize=1024)
def read_only(source: str, entry: str) -> tuple[bool, ...]:
    """Of each parameter of a kernel, whether it is a pointer to what the kernel cannot write."""
    parameters = kernels_in(source).get(entry, "").split(",")
    return tuple(
        ["*" in parameter and "const" in parameter.partition("*")[0] for parameter in parameters]
    )


def misfit(who: str, source: str, entry: str, problem: object) -> DeviceError:
    """The error for a kernel that cannot be prepared or launched.

    Args:
        who: The op.
        source: The rendered OpenCL C.
        entry: The name of the kernel that was asked for.
        problem: What the runtime says, or what is given.
    """
    there = kernels_in(source)
    if entry in there:
        return DeviceError(
            message(
                who,
                f"the kernel {entry!r} cannot be used: {problem}",
                f"its parameters ({there[entry]}), in this order",
                "Compare the plan's arguments with the template's parameters",
            )
        )
    close = get_close_matches(entry, there, n=1)
    remedy = f"Did you mean {close[0]}?" if close else "Name the kernel as its template does"
    expected = f"one of {', '.join(there)}" if there else ""
    return DeviceError(message(who, f"there is no kernel {entry!r} ({problem})", expected, remedy))
