"""What docstrings of public functions and classes leave out: parameters, and errors they raise.

A parameter is named in the docstring, or in one that it refers to ("as of `max_pool2d`"), or it is
one of docs/tensors.md's table of arguments that mean the same in all functions.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import examples

ROOT: Final = Path(__file__).resolve().parents[2]
#: They are made by netcl alone; their docstrings tell the attributes that others read.
MADE_BY_NETCL: Final = """CheckRecord Node Plugin NamespaceRegistrar OperatorRegistrar
PatternRegistrar PrimitiveRegistrar Tensor"""
#: Their docstrings are made by code, or their errors come from a function that many share: they do
#: not tell of them yet. A new name is no reason to add one here.
SILENT: Final = """bmm broadcast_to cat constant_pad_nd diagonal dropout1d dropout2d dropout3d
expand fft_c2c fft_c2r fft_r2c flatten linalg_pinv linalg_qr linalg_solve linalg_svd permute
pixel_shuffle pixel_unshuffle repeat_interleave roll t transpose tril_indices triu_indices windows
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w
hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p
shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w"""
_REFERENCE: Final = re.compile(r"\bas (?:of|for|in|by)\s+`(?:\w+\.)*(\w+)`", re.IGNORECASE)


def common() -> set[str]:
    """The arguments of the table in docs/tensors.md."""
    page = (ROOT / "docs" / "tensors.md").read_text(encoding="utf-8")
    table = page.partition("## Arguments that many functions have")[2].partition("\n## ")[0]
    return {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row[1:-1].split("` `")
    }


def everything(faces: Sequence[str]) -> dict[str, list[Any]]:
    """Last part of a name -> what is called so."""
    places: dict[str, list[Any]] = {}
    for face in faces:
        for name, thing in examples.public(face):
            places.setdefault(name.rpartition(".")[2], []).append(thing)
    return places


def text(thing: Any, known: Mapping[str, Sequence[Any]], depth: int = 3) -> str:
    """A docstring, with those that it refers to."""
    doc = inspect.getdoc(thing) or ""
    if depth:
        for name in _REFERENCE.findall(doc):
            doc += "".join(text(x, known, depth - 1) for x in known.get(name, ()) if x is not thing)
    return doc


def unnamed(face: str, known: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Parameters of a face's functions and classes that no text names."""
    usual = {"self", "args", "kwargs", *common()}
    for name, thing in examples.public(face):
        if name.rpartition(".")[2] in MADE_BY_NETCL.split():
            continue
        try:
            parameters = inspect.signature(thing).parameters
        except (TypeError, ValueError):  # a class of Python's own, as warnings are
            continue
        said = text(thing, known)
        for parameter in parameters:
            usually = parameter in usual or parameter.startswith("_")
            if not usually and not re.search(rf"\b{re.escape(parameter)}\b", said):
                yield f"{name}: {parameter}"


def unsaid(face: str) -> Iterator[str]:
    """Functions that raise by themselves, and whose docstring has not a word of it."""
    for name, thing in examples.public(face):
        function = inspect.unwrap(thing) if inspect.isroutine(thing) else None
        try:
            source = textwrap.dedent(inspect.getsource(function)) if function else ""
        except (OSError, TypeError):
            continue
        told = re.search(r"\braises?\b|\w+Error\b|\brefused\b", inspect.getdoc(thing) or "", re.I)
        if not told and any(_raises(node) for node in ast.walk(ast.parse(source or "0"))):
            yield name


def _raises(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and node.exc is not None
