"""What docstrings of public functions and classes leave out: parameters, errors, shapes, dtypes.

A parameter is named in the docstring, or in one that it refers to ("as of `max_pool2d`" or
": `cat`"), or it is one of docs/tensors.md's table of arguments that mean the same in all
functions. What takes a tensor tells its shape. An op tells dtypes if its manifest lists only
floating ones, or none.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import examples

from netcl_core import nn

ROOT: Final = Path(__file__).resolve().parents[2]
#: They are made by netcl alone; their docstrings tell the attributes that others read.
MADE_BY_NETCL: Final = """CheckRecord Node Plugin NamespaceRegistrar OperatorRegistrar
PatternRegistrar PrimitiveRegistrar Tensor"""
#: Parameters that are tensors, or what becomes one.
TENSORS: Final = """x input self tensor tensors y other target weight A a b src source input1 input2
query probs logits loc scale rate concentration df"""
#: Of a function that has one of them the table of docs/tensors.md says: any shape with that axis.
ALONG: Final = frozenset({"dim", "dims", "axis", "axes"})
#: `shape`, `(N, C, L)`, `(..., n, n)`, `matrices`, `two dimensions`: how a shape is told.
_SHAPE: Final = re.compile(
    r"\b[Ss]hapes?\b|(?<!\w)\((?:[A-Za-z]\w*(?: [*/] \w+)?|\.\.\.|\*),|\b[Bb]roadcast"
    r"|\b[Mm]atri|\b[Vv]ector|\b[0-5]-d\b|\b(?:one|two|three|four|five|[2-5]) (?:dimensions|axes)\b"
)
_DTYPE: Final = re.compile(r"\b[Dd]types?\b|[Ff]loat|[Ii]nteger|\bbool|\bint\d|whole|[Ii]ndices")
_REFERENCE: Final = re.compile(r"(?:\bas (?:of|for|in|by)\s+|: )`(?:\w+\.)*(\w+)`", re.IGNORECASE)


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


def shapeless(face: str, known: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """What takes a tensor, as an argument or a layer's input, and tells no shape."""
    for name, each in examples.public(face):
        if name.rpartition(".")[2] in MADE_BY_NETCL.split():
            continue
        try:
            taken = {*inspect.signature(each).parameters}
        except (TypeError, ValueError):  # a class of Python's own, as warnings are
            continue
        along = taken & ALONG
        if inspect.isclass(each) and getattr(each, "forward", None) not in (
            None,
            nn.Module.forward,
        ):
            taken, along = taken | {*inspect.signature(each.forward).parameters}, set()
        if taken & {*TENSORS.split()} and not along and not _SHAPE.search(text(each, known)):
            yield name


def dtypeless(known: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Ops of tensors whose manifest lists floating dtypes alone, or none, and which tell none."""
    rows = [
        row
        for path in ROOT.glob("plugins/*/src/*/netcl_plugin.toml")
        for row in tomllib.loads(path.read_text(encoding="utf-8")).get("provides", ())
    ]
    few = {
        row["name"] for row in rows if len({"float" in each for each in row.get("dtypes", ())}) == 1
    }
    for name, each in examples.public("netcl_core.autograd.ops"):
        op, taken = name.rpartition(".")[2], {*inspect.signature(each).parameters}
        if op in few and taken & {*TENSORS.split()} and not _DTYPE.search(text(each, known)):
            yield op


def _raises(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and node.exc is not None
