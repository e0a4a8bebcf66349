"""debug_tape: the active tape, for looking at it in the middle of a forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from netcl_core.tape.tape import Tape, get_current_tape


@contextmanager
def debug_tape(tape: Tape | None = None) -> Iterator[Tape]:
    """Yield `tape` (default: the current one), recording on it inside the block.

    >>> with ag.debug_tape(ag.Tape()) as tape:
    ...     y = ag.tensor([1.0], requires_grad=True) + 1
    >>> tape.nodes[0].op_name
    'add'
    """
    chosen = get_current_tape() if tape is None else tape
    if chosen is get_current_tape():
        yield chosen
    else:
        with chosen:
            yield chosen
