"""Reads a package's imports and says which of them break the order of its layers.

Every `import` counts, wherever it stands: at the top of a file, inside a function,
under TYPE_CHECKING. `from package import name` is resolved to the module of that
name where there is one.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One import: the module that it stands in, what it names, and where."""

    source: str
    target: str
    line: int
    in_function: bool


def modules_of(package: Path) -> dict[str, Path]:
    """Dotted name -> file of every module of a package folder."""
    paths: dict[str, Path] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


@functools.cache
def imports_of(package: Path) -> list[Import]:
    """Every import of every module; third-party ones by their full dotted name.

    A call of `import_module` counts too: with its literal argument, or as `?` where the
    argument is computed.
    """
    modules = modules_of(package)
    imports: list[Import] = []
    for source, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        home = source if path.name == "__init__.py" else source.rpartition(".")[0]
        for node, inside in _walk(tree, False):
            for target in _targets(node, home, modules):
                imports.append(Import(source, target, node.lineno, inside))
    return imports


def private(package: Path, core: Path, public: Sequence[str]) -> set[str]:
    """The core's modules that another package imports, but for the public ones."""
    modules = modules_of(core)
    targets: set[str] = set()
    for source, path in modules_of(package).items():
        for node, _ in _walk(ast.parse(path.read_text(encoding="utf-8")), False):
            targets |= set(_targets(node, source, modules))
    return {target for target in targets if target in modules and target not in public}


def _walk(node: ast.AST, inside: bool) -> Iterator[tuple[ast.stmt | ast.expr, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.expr)):
            yield child, inside
        function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        yield from _walk(child, inside or function)


def _targets(node: ast.AST, home: str, modules: dict[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = home.split(".")
            parts = parts[: len(parts) - node.level + 1]
            base = ".".join([*parts, base] if base else parts)
        for alias in node.names:
            name = f"{base}.{alias.name}"
            yield name if name in modules else base
    elif isinstance(node, ast.Call) and _is_import_call(node.func):
        first = node.args[0] if node.args else None
        literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
        yield first.value if literal else "?"


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def layer_of(module: str, layers: Sequence[Sequence[str]]) -> int | None:
    """The index of a module's layer: that of the longest name that it equals or lies below."""
    best: tuple[int, int] | None = None
    for index, names in enumerate(layers):
        for name in names:
            exact = module == name or (name.endswith(".*") and module.startswith(name[:-1]))
            if exact and (best is None or len(name) > best[0]):
                best = (len(name), index)
    return None if best is None else best[1]


def upward(package: Path, layers: Sequence[Sequence[str]]) -> list[str]:
    """One line per import that points up, and per module that has no layer."""
    complaints = [
        f"{module} has no layer"
        for module in modules_of(package)
        if layer_of(module, layers) is None
    ]
    for one in imports_of(package):
        below, above = layer_of(one.source, layers), layer_of(one.target, layers)
        if below is not None and above is not None and above > below:
            complaints.append(f"{one.source}:{one.line} imports {one.target}, which lies above it")
    return complaints


def cycles(package: Path) -> list[list[str]]:
    """Every group of modules that import each other in a circle, each group sorted."""
    graph: dict[str, set[str]] = {module: set() for module in modules_of(package)}
    for one in imports_of(package):
        if one.target in graph and one.target != one.source:
            graph[one.source].add(one.target)
    reach = {module: _reachable(graph, module) for module in graph}
    groups = {
        tuple(sorted({module, *(other for other in reach[module] if module in reach[other])}))
        for module in graph
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph[module]
    return seen


def in_functions(package: Path) -> set[tuple[str, str]]:
    """(module, target) of every import inside a function."""
    return {(one.source, one.target) for one in imports_of(package) if one.in_function}
