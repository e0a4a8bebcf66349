"""A record as a drawing: a bar per case, to the left where ours is faster than the best peer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import jinja2

from harness.records import RaceRecord, RaceResult
from harness.table import heading, libraries

_FOLDER: Final = Path(__file__).parent
#: The axis goes from 1/16 to 16, each doubling as wide as the next.
_DOUBLINGS: Final = 4


def place(ratio: float) -> float:
    """Where a ratio stands on the axis: -1 at its left end, 0 where both are equal, 1 at the right.

    >>> place(1.0), place(0.25), place(1000.0)
    (0.0, -0.5, 1.0)
    """
    return max(-1.0, min(1.0, math.log2(ratio) / _DOUBLINGS))


def svg(record: RaceRecord) -> str:
    """The drawing; cases without a time of ours are left out."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    ticks = [(place(2.0**k), _tick(k)) for k in range(-_DOUBLINGS, _DOUBLINGS + 1)]
    shown = [_bar(result) for result in record.results if result.best(True)]
    template = environment.get_template("bars.svg.j2")
    return template.render(title=heading(record), about=libraries(record), bars=shown, ticks=ticks)


def _tick(power: int) -> str:
    return str(2**power) if power >= 0 else f"1/{2**-power}"


def _bar(result: RaceResult) -> dict[str, object]:
    ratio, limit = result.ratio(), result.of_limit()
    rival = f"of {result.best(False)}" if ratio is not None else "no peer"
    return {
        "name": f"{result.item}/{result.case}",
        "place": None if ratio is None else place(ratio),
        "text": rival if ratio is None else f"{ratio:.2f} {rival}",
        "limit": None if limit is None else place(limit),
        "limit_text": "" if limit is None else f"{limit:.2f} of the limit ({result.limit})",
    }
