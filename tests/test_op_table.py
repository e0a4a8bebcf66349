"""Every registered op has a row in docs/ops.md, and no row has a failing cell."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import generate

from netcl_core.plugins.kinds import OP_KINDS
from netcl_core.plugins.registry import registry

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ops.md"


def test_every_op_of_ours_has_a_row() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.load()
    ours = generate.first_party()
    rows = [row for kind in OP_KINDS for row in registry.rows(kind) if row.provider in ours]
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {row.record.name for row in rows} - listed == set(), "run `make op-table`"


def test_no_cell_fails() -> None:
    cells = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    assert [line for line in cells if "**" in line or "| none" in line] == []
