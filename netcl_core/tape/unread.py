"""What no gradient reads: a graph keeps the way through it, and lets go of its elements.

The sum of two layers' results, say: the gradient of `add` reads neither, so both are freed as
soon as the program has them no longer, although the graph leads through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import Any, TypeAlias

from netcl_core.tape import hooks
from netcl_core.tape.grad_fn import living
from netcl_core.tape.node import Node
from netcl_core.tape.state import process
from netcl_core.tensors.tensor import MetaTensor, meta

#: The numbers of operands, and those of results that were kept for the gradients.
Unread: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]


def let_go(
    unread: Unread, operands: Sequence[Any], kept: Any, name: str
) -> tuple[Sequence[Any], Any]:
    """The operands and what was kept, as a graph has them that does not read some of them."""
    places, results = unread
    if places:
        operands = list(operands)
        for i in places:
            operands[i] = _without_elements(operands[i])
    if results:
        kept = list(kept)
    for i in results:
        kept[i] = meta(kept[i].shape, kept[i].dtype, kept[i].device, f"result {i} of {name}")
    return operands, kept


def _without_elements(x: Any) -> Any:
    """What stands for an operand in a graph that does not read it: a leaf itself."""
    if type(x) is not Node or x.call is None:
        return x
    with process.moving:
        owner = x if x.source is None else x.source
        if type(owner.value) is not MetaTensor:
            if not _may_move(owner):
                return x
            owner = owner.leave_record()
    return owner if owner.index == x.index else x.without_elements()


def _may_move(owner: Node) -> bool:
    """Whether nobody knows the record by the node that holds it."""
    mine = get_ident()
    if any(thread != mine or owner.number < first for thread, first in [*process.passes]):
        return False
    known = [rows for rows in (hooks.hook_rows, living) if rows]
    return not any(
        (id(owner), i) in rows for rows in known for i in range(len(owner.call.results or (0,)))
    )
