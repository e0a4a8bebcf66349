"""Runs examples written as `>>>` with their output: of docstrings, and of pages' `pycon` blocks.

They find `nc`, `ag` and `np`; docstrings also the namespaces (`nn`, `optim`, ...), and those of
the conformance kit its names. `...` in an output stands for anything.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag

_CELL = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
KIT = "netcl_plugin_kit.testing"
MPI = "netcl_core.distributed"
NAMESPACES = ("amp", "autodiff", "data", "distributed", "models", "nn", "optim")


def public(face: str) -> Iterator[tuple[str, Any]]:
    """The functions and classes of a face that can have a docstring of their own."""
    module = importlib.import_module(face)
    named = [each for each in getattr(module, "__all__", ()) if not each.startswith("_")]
    for name in named or [each for each in dir(module) if not each.startswith("_")]:
        value = getattr(module, name)
        own = hasattr(module, "__all__") or inspect.getmodule(value) is module
        if own and (inspect.isclass(value) or inspect.isroutine(value)):
            yield f"{face}.{name}", value


def check_face(face: str) -> None:
    """Run the examples of a module's public functions and classes, and of their methods."""
    finder = doctest.DocTestFinder()
    if face == MPI and find_spec("mpi4py") is None:
        return
    names = {name: getattr(nc, name) for name in NAMESPACES}
    names |= {thing.__name__: thing for _, thing in public(face)} if face == KIT else {}
    tests = [finder.find(thing, name, module=False) for name, thing in public(face)]
    _run(chain.from_iterable(tests), names)


def check_blocks(path: str) -> None:
    """Run the blocks of a page, each a list of its text, `python` or `pycon`, and its name.

    They write files where the list lies.
    """
    blocks = json.loads(Path(path).read_text(encoding="utf-8"))
    os.chdir(Path(path).parent)
    for text, kind, name in blocks:
        if kind == "pycon":
            _run([doctest.DocTestParser().get_doctest(text, {}, name, name, 0)], {})
        else:
            exec(compile(text, name, "exec"), {"__name__": "__main__"})


def check_tutorial(path: str) -> None:
    """Run a page as the notebook that it becomes, and compare what its cells print."""
    text, names, checker = (
        Path(path).read_text(encoding="utf-8"),
        {"__name__": "__main__"},
        doctest.OutputChecker(),
    )
    for cell in _CELL.finditer(text):
        line = text[: cell.start(1)].count("\n")
        with redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * line + cell[1], path, "exec"), names)
        if not checker.check_output(cell[2] or "", printed.getvalue(), doctest.ELLIPSIS):
            raise SystemExit(
                f"{path}:{line + 1} prints\n{printed.getvalue()}\nand the page says\n{cell[2]}"
            )


def _run(tests: Iterable[doctest.DocTest], names: dict[str, Any]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in tests:
        if "torch" in test.docstring and find_spec("torch") is None:
            continue
        test.globs = {"nc": nc, "ag": ag, "np": np, **names}
        runner.run(test)
    result = runner.summarize()
    if result.failed or not result.attempted:
        raise SystemExit(f"{result.failed} of {result.attempted} examples failed")
