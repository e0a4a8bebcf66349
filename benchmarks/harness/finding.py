"""Items: the files of a folder that have a function `cases`, and their cases that were asked for.

Other files there, such as scripts, are read and not imported.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from harness.cases import RaceCase
from netcl_core.errors import ArgumentError, message

#: Gives the cases for a kind of device, `cpu` or `gpu`.
Cases: TypeAlias = Callable[[str], Iterable[RaceCase]]
_FUNCTION: Final = "cases"


def items_in(folders: Sequence[Path]) -> dict[str, Path]:
    """The name of each item, that of its file, and the file; later folders win."""
    return {
        path.stem: path
        for folder in folders
        for path in sorted(folder.glob("*.py"))
        if _has_cases(path)
    }


def _has_cases(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return any(
        isinstance(statement, ast.FunctionDef) and statement.name == _FUNCTION
        for statement in tree.body
    )


def chosen(
    items: dict[str, Path], wanted: Sequence[str], kind: str
) -> Iterator[tuple[str, RaceCase]]:
    """(item, case) of all items, or of those that were asked for.

    Args:
        items: As `items_in` gives them.
        wanted: Names of items, or `ITEM/TEXT`: its cases with that text in their name; empty: all.
        kind: That of the device.
    """
    parts = [each.partition("/") for each in wanted] or [(name, "", "") for name in items]
    for name, _, _ in parts:
        if name not in items:
            raise _unknown(name, items)
    for name in dict.fromkeys(name for name, _, _ in parts):
        texts = [text for other, _, text in parts if other == name]
        cases = [case for case in _cases(items[name])(kind) if any(t in case.name for t in texts)]
        if not cases:
            given = f"no case of {name} has {' or '.join(map(repr, texts))} in its name"
            raise ArgumentError(message("bench", given))
        yield from ((name, case) for case in cases)


def _unknown(name: str, items: Iterable[str]) -> ArgumentError:
    near = difflib.get_close_matches(name, [*items], 1)
    expected = f"one of {', '.join(items) or 'none: no file here has a function cases(kind)'}"
    remedy = f"Did you mean {near[0]}" if near else ""
    return ArgumentError(message("bench", f"there is no item {name!r}", expected, remedy))


def _cases(path: Path) -> Cases:
    """The function of a file, which may import its neighbours."""
    name = f"_benchmark_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, path
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        given = f"importing {path} raised {type(error).__name__}: {error}"
        raise ArgumentError(message("bench", given)) from error
    finally:
        sys.path[:] = before
    return module.cases  # type: ignore[no-any-return]
