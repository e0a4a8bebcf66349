"""Lines of code by room: without docstrings, comments and blank lines, and without tests.

python tests/support/sizes.py
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
     tokenize.ENDMARKER}
)  # fmt: skip


def code_lines(text: str) -> int:
    """The lines that hold a token of code.

    >>> code_lines("# a comment\\n\\ndef f():\\n    'A docstring.'\\n    return 1\\n")
    2
    """
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def room_of(path: Path) -> str:
    """The room of the core, the plugin, or the folder that a file lies in."""
    first, second = path.parts[0], path.parts[1]
    if first == "plugins" and second != "examples":
        return f"plugins/{second}"
    inner = len(path.parts) > 2
    return f"{first}/{second}" if inner else first


def main() -> None:
    """Print one line per room, the core's sum and that of all."""
    lines, files = Counter[str](), Counter[str]()
    for folder in ("netcl_core", "plugins", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            room = room_of(path.relative_to(ROOT))
            if "tests" not in path.parts[len(ROOT.parts) :]:
                lines[room] += code_lines(path.read_text(encoding="utf-8"))
                files[room] += 1
    for room, count in sorted(lines.items()):
        print(f"{count:7,} lines in {files[room]:3} files  {room}")
    core = sum(count for room, count in lines.items() if room.startswith("netcl_core"))
    print(f"{core:7,} lines in netcl_core, {lines.total():,} in all")


if __name__ == "__main__":
    main()
