"""What `netcl plugins new` starts: for each KIND a row of the table of kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from netcl_core.plugins.protocol import KINDS, SHORT_ROAD, RecordKind

_ROWS: Final = ("primitive", "operator", "implementation", "pattern", "amp_policy")
SCAFFOLDS: Final[dict[str, RecordKind]] = {
    **{name.replace("_", "-"): KINDS[name] for name in _ROWS},
    "short": replace(
        KINDS[SHORT_ROAD],
        brings="one elementwise op by its entry point alone: no hooks, no manifest",
        keys=("templates",),
    ),
}


def scaffold_of(kind: RecordKind) -> str:
    """The KIND of a row, and the folder of its project's templates."""
    return next(name for name, row in SCAFFOLDS.items() if row == kind)
