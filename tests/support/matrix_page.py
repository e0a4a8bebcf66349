"""Writes the board of docs/matrix.md from the records of a matrix.

    python tests/support/matrix_page.py RECORDS

The records come from `netcl matrix run` over the wheels of several cores and of all our plugins,
which takes about an hour; CONTRIBUTING.md has the commands.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from netcl_plugin_tools.matrix.board import board
from netcl_plugin_tools.matrix.exports import markdown
from netcl_plugin_tools.matrix.records import load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "matrix.md"
_PART = re.compile(r"(<!-- from records -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW = re.compile(
    r"^\| (netcl-plugin-[\w-]+) (\S+) \| (\d[\w.-]*)(?:, [^|]+)? \| (.*) \|$", re.MULTILINE
)
_HEADER = re.compile(r"^\| plugin \| core \| (.*) \|$", re.MULTILINE)


def published() -> dict[tuple[str, str], dict[str, str]]:
    """(plugin, core) -> column, such as `intel 3.11` -> sign, as the page has them.

    Of several versions of a dependency a sign counts that is not green.
    """
    text = PAGE.read_text(encoding="utf-8")
    header = _HEADER.search(text)
    columns = header[1].split(" | ") if header else []
    board: dict[tuple[str, str], dict[str, str]] = {}
    for plugin, _, core, signs in _ROW.findall(text):
        row = dict(zip(columns, signs.split(" | "), strict=True))
        known = board.setdefault((plugin, core), row)
        known.update({name: sign for name, sign in row.items() if known[name] == "✓"})
    return board


def main() -> None:
    """Rewrite the page's board."""
    records, broken = load(Path(sys.argv[1]))
    if broken or not records:
        sys.exit(f"no matrix: {broken or 'there is no record'}")
    text = markdown(board(records)).partition("\n")[2].strip()
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PART.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page), "utf-8")


if __name__ == "__main__":
    main()
