"""Writes files that are generated, or with --check names the ones that are outdated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(outdated: Callable[[], dict[Path, str]]) -> None:
    """Write or name the outdated files, which come with their new text."""
    check = "--check" in sys.argv[1:]
    pages = outdated()
    for path, text in pages.items():
        print(f"{'outdated' if check else 'wrote'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    sys.exit(1 if check and pages else 0)
