"""Writes `pytorch.txt` of netcl-plugin-port: PyTorch's public names with their arguments.

    python tests/support/pytorch_signatures.py [--check]

A line is a name with its arguments, `conv1d(input, weight, bias=None, stride=1)`; where PyTorch has
several forms of one function, they are joined by ` | `. What a layer is called with stands behind
an arrow: `ReLU(inplace=False) -> (input)`. Functions that are compiled have no
signature that Python could ask for: theirs are in the stubs that PyTorch ships.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import netcl_plugin_port

FILE = Path(netcl_plugin_port.__file__ or "").with_name("pytorch.txt")
#: The places whose names are told, and what each is called in code.
PLACES = (
    "torch",
    "Tensor",
    "nn",
    "nn.functional",
    "nn.init",
    "nn.utils",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "utils.data",
    "amp",
    "autograd",
    "cuda",
)
_STUBS = {"torch": "_VariableFunctions.pyi", "Tensor": "__init__.pyi"}
#: What PyTorch offers for its own machinery, or for what no dense tensor is.
_INTERNAL = ("_", "sym_", "fbgemm_", "quantize", "q_", "sparse_", "dequantize", "miopen_", "cudnn_")


def main(check: bool) -> int:
    """Write the file, or say whether it is what PyTorch has."""
    text = "\n".join(lines()) + "\n"
    if check:
        return int(FILE.read_text(encoding="utf-8") != text)
    FILE.write_text(text, encoding="utf-8")
    return 0


def lines() -> Iterator[str]:
    """The lines of the file."""
    torch = importlib.import_module("torch")
    yield f"# PyTorch {torch.__version__.partition('+')[0]}"
    for place in PLACES:
        yield f"[{place}]"
        owner = where(torch, place)
        for name in sorted(_public(owner, place)):
            yield name + " | ".join(_forms(owner, place, name)) + _called(getattr(owner, name))


def where(torch: Any, place: str) -> Any:
    """The module, or the class, that has the names of a place."""
    if place == "Tensor":
        return torch.Tensor
    return torch if place == "torch" else importlib.import_module(f"torch.{place}")


def _public(owner: Any, place: str) -> Iterator[str]:
    listed = getattr(owner, "__all__", None)
    stubs = set(_stubs(place)) if place in _STUBS else set()
    names = set(dir(owner)) if place in {"Tensor", "cuda"} or not listed else set(listed)
    for name in names | (stubs & set(dir(owner))):
        value = getattr(owner, name, None)
        if name.startswith(_INTERNAL) or inspect.ismodule(value):
            continue
        module = getattr(value, "__module__", None) or "torch"
        if place != "Tensor" and (not callable(value) or not str(module).startswith("torch")):
            continue
        yield name


def _called(value: Any) -> str:
    """What a layer's `forward` takes."""
    if not isinstance(value, type) or not issubclass(
        value, importlib.import_module("torch").nn.Module
    ):
        return ""
    parameters = inspect.signature(value.forward).parameters.values()
    forms = [_one(parameter) for parameter in parameters if parameter.name != "self"]
    return f" -> ({', '.join(forms)})"


def _forms(owner: Any, place: str, name: str) -> list[str]:
    value = getattr(owner, name)
    if place in _STUBS and name in _stubs(place):
        return _stubs(place)[name]
    if not callable(value):
        return [""]
    if isinstance(value, type) and issubclass(value, BaseException):
        return [""]
    try:
        signature_of = inspect.signature(value)
    except (TypeError, ValueError):
        stub = _stubs("torch").get(name)
        return stub or [""]
    parts = [
        _one(parameter)
        for parameter in signature_of.parameters.values()
        if parameter.name != "self"
    ]
    return [f"({', '.join(parts)})"]


def _one(parameter: inspect.Parameter) -> str:
    star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    if parameter.default is parameter.empty:
        return star + parameter.name
    default = parameter.default
    plain = isinstance(default, (int, float, str, tuple, list, type(None)))
    return f"{parameter.name}={default!r}" if plain else f"{parameter.name}=..."


@cache
def _stubs(place: str) -> dict[str, list[str]]:
    """Name -> the forms of a compiled function, from the stubs."""
    folder = Path(importlib.import_module("torch").__file__ or "").parent / "_C"
    tree: Any = ast.parse((folder / _STUBS[place]).read_text(encoding="utf-8"))
    body = tree.body
    if place == "Tensor":
        body = [
            statement
            for top in body
            if isinstance(top, ast.ClassDef) and top.name in {"TensorBase", "_TensorBase"}
            for statement in top.body
        ]
    forms_of: dict[str, list[str]] = {}
    for statement in body:
        if isinstance(statement, ast.FunctionDef):
            form = f"({', '.join(_of_stub(statement.args))})"
            forms = forms_of.setdefault(statement.name, [])
            if form not in forms:
                forms.append(form)
    return forms_of


def _of_stub(args: ast.arguments) -> Iterator[str]:
    every = [*args.posonlyargs, *args.args]
    defaults: list[Any] = [None] * (len(every) - len(args.defaults)) + list(args.defaults)
    for one, default in zip(every, defaults, strict=True):
        if one.arg != "self":
            yield one.arg + ("" if default is None else f"={ast.unparse(default)}")
    if args.vararg or args.kwonlyargs:
        yield "*" + (args.vararg.arg if args.vararg else "")
    for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield one.arg + ("" if default is None else f"={ast.unparse(default)}")


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))
