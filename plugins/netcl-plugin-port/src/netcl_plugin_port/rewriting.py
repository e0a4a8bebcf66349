"""A program's imports of PyTorch, as imports of netcl; and what it uses that is not there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import netcl_core as nc

#: A package -> what stands in its place.
PACKAGES: Final = {"torch": "netcl_core", "einops.layers.torch": "netcl_plugin_port.einops_layers"}
#: Packages of PyTorch's that have none, and what to do.
OTHERS: Final = {
    "ignite": "Write the loop: docs/training.md",
    "lightning": "Write the loop: docs/training.md",
    "pytorch_lightning": "Write the loop: docs/training.md",
    "torch_geometric": "Graphs are index_add and gather over lists of edges",
    "torchaudio": "Read files to arrays; the data goes through DataLoader",
    "torchmetrics": "Metrics are sums: scikit-learn has them for arrays",
    "torchtext": "docs/data.md has text files; a vocabulary is a dict",
    "torchvision": "Its data sets and transforms go through DataLoader; its models need torch",
}


class Absence(NamedTuple):
    """A name that a program uses and netcl does not have: where, and what to write."""

    line: int
    name: str
    why: str


def rewritten(source: str) -> str:
    """The program with its imports changed, and nothing else; lines keep their numbers.

    >>> print(nc.port.rewritten("import torch, os\\nimport torch.nn as nn\\nimport torch.optim"))
    import netcl_core as torch, os
    import netcl_core.nn as nn
    import netcl_core as torch, netcl_core.optim
    """
    text = source.encode()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in sorted(_imports(ast.parse(source)), key=lambda node: -node.lineno):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        text = text[:begin] + _changed(node, text[begin:end].decode()).encode() + text[end:]
    return text.decode()


def _imports(tree: ast.AST) -> Iterator[Any]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(_package(name.name) for name in node.names):
                yield node
        elif isinstance(node, ast.ImportFrom) and not node.level and _package(node.module or ""):
            yield node


def _package(path: str) -> str:
    """The package of a path that another one replaces; empty for others."""
    return next(
        (package for package in PACKAGES if path == package or path.startswith(f"{package}.")), ""
    )


def _path(path: str) -> str:
    package = _package(path)
    return PACKAGES[package] + path.removeprefix(package)


def _changed(node: ast.Import | ast.ImportFrom, text: str) -> str:
    if isinstance(node, ast.ImportFrom):
        assert node.module is not None
        return text.replace(node.module, _path(node.module), 1)
    return "import " + ", ".join(
        dict.fromkeys(part for name in node.names for part in _parts(name))
    )


def _parts(alias: ast.alias) -> Iterator[str]:
    """What an imported name becomes: `import torch.nn` binds `torch`, and finds `nn`."""
    if not _package(alias.name):
        yield alias.name + (f" as {alias.asname}" if alias.asname else "")
    elif alias.asname:
        yield f"{_path(alias.name)} as {alias.asname}"
    else:
        first, dot, _ = alias.name.partition(".")
        yield f"{PACKAGES[first]} as {first}" if first in PACKAGES else first
        if dot:
            yield _path(alias.name)


def absences(source: str) -> list[Absence]:
    """What a program for PyTorch uses that netcl does not have, in order of lines.

    >>> [(each.line, each.name) for each in nc.port.absences("import torch\\ntorch.hub.load('x')")]
    [(2, 'torch.hub')]
    """
    tree = ast.parse(source)
    bound: dict[str, str] = {}
    missing: dict[tuple[int, str], str] = {}
    for node in ast.walk(tree):
        for path, name in _bindings(node):
            if name:
                bound[name] = path
            _look(missing, node, path)
    for node in ast.walk(tree):
        path = _dotted(node, bound)
        if path:
            _look(missing, node, path)
    return sorted(Absence(line, name, why) for (line, name), why in missing.items())


def _bindings(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The paths that an import asks for, with the names that stand for them."""
    if isinstance(node, ast.Import):
        for name in node.names:
            first = name.name.partition(".")[0]
            if name.asname:
                yield name.name, name.asname
            else:
                yield name.name, ""
                yield first, first
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for name in node.names:
            path = node.module or ""
            yield path, ""
            if name.name != "*":
                yield f"{path}.{name.name}", name.asname or name.name


def _dotted(node: ast.AST, bound: dict[str, str]) -> str:
    """The path of PyTorch's that an expression such as `F.relu` names; else empty."""
    if isinstance(node, ast.Name):
        return bound.get(node.id, "")
    if isinstance(node, ast.Attribute):
        below = _dotted(node.value, bound)
        return f"{below}.{node.attr}" if below else ""
    return ""


def _look(missing: dict[tuple[int, str], str], node: Any, path: str) -> None:
    """Note the first part of a path that netcl does not have."""
    first, *rest = path.split(".")
    if first in OTHERS:
        missing.setdefault((node.lineno, first), OTHERS[first])
    if first != "torch":
        return
    value: Any = nc
    for i, name in enumerate(rest):
        try:
            value = getattr(value, name)
        except (AttributeError, ImportError) as error:
            if not _is_module(value):
                return  # of an object: only the running program knows
            gone = ".".join([first, *rest[: i + 1]])
            missing.setdefault((node.lineno, gone), _sentence(error))
            return


def _is_module(value: Any) -> bool:
    return type(value).__name__ in {"module", "Backend"}


def _sentence(error: Exception) -> str:
    """What to write, of an error that says so at its end."""
    _, _, why = str(error).rpartition(". ") if getattr(error, "told", False) else ("", "", "")
    return why or "netcl does not have it"
