"""Prints, as JSON, the files of the core that are entered by what its one argument names.

A file is entered when one of its functions runs, not when it is imported. What each scene has done
before it is watched stands in docs/architecture.md. Without an OpenCL device: nothing.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag

ROOT = Path(nc.__file__).parent


@functools.cache
def name_of(file: str) -> str:
    """A file's path below `netcl_core`; nothing for others."""
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def entered(scene: Callable[[], Any]) -> list[str]:
    """The files whose functions run, in order of the first that does, below `netcl_core`."""
    seen: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and name_of(code.co_filename):
            seen[name_of(code.co_filename)] = None

    sys.setprofile(note)
    try:
        scene()
    finally:
        sys.setprofile(None)
    return list(seen)


def leaf() -> Any:
    return nc.tensor([-1.0, 0.0, 1.0], requires_grad=True)


def call() -> dict[str, list[str]]:
    x, gelu = leaf(), ag.gelu
    return {"first call": entered(lambda: gelu(x)), "later calls": entered(lambda: gelu(x))}


def gradient() -> dict[str, list[str]]:
    x, frames = leaf(), {}
    for scene in ("first gradient", "later gradients"):
        x.grad = None
        y = ag.sum(ag.gelu(x))
        frames[scene] = entered(y.backward)
    return frames


def trace() -> dict[str, list[str]]:
    x, gelu, add = leaf(), ag.gelu, ag.add
    nc.plugins.list()  # loads all of them, which is a scene of its own
    chain = ag.jit_compile(lambda x: add(gelu(x), x))
    return {
        "first compiled call": entered(lambda: chain(x)),
        "later compiled calls": entered(lambda: chain(x)),
    }


def plugin() -> dict[str, list[str]]:
    nc.plugins.register  # noqa: B018 -- imports what loads plugins, which is not what is asked
    return {"a plugin": entered(lambda: ag.gelu)}


if __name__ == "__main__":
    scene = {each.__name__: each for each in (call, gradient, trace, plugin)}[sys.argv[1]]
    usable = scene is plugin or nc.default_device().backend == "opencl"
    print(json.dumps(scene() if usable else {}))
