"""What was kept for a backward alone, given away: a gradient that the forward has written.

A backward may return a residual as it is. From then on it belongs to whoever gets it, a leaf's
`grad` say, and may be written to; a second pass over the same graph computes it again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from netcl_core.runtime.recording import made_before
from netcl_core.tape.gradients import Spread

#: Held while it is found out who gets a residual: two threads may pass the same graph.
_giving: Final = threading.Lock()


def is_given_away(kept: Sequence[Any]) -> bool:
    """Whether something that was kept is there no longer."""
    return None in kept


def give_away(kept: Any, results: int, residuals: Sequence[Any], parts: list[Any]) -> None:
    """Take those residuals out of what is kept, behind the results, that are among gradients.

    What another thread has got meanwhile, or what a capture would give away once for all of its
    replays, is copied.
    """
    for place, residual in enumerate(residuals, start=results):
        for i, part in enumerate(parts):
            if part is None or type(part) is Spread or part.value.memory is not residual.memory:
                continue
            with _giving:
                owned = kept[place] is residual and not made_before(residual.memory)
                if owned:
                    kept[place] = None
            if not owned:
                parts[i] = part.value.duplicate()
