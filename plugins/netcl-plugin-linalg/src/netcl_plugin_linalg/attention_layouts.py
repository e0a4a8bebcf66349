"""Where the rows of an attention's operands lie: heads cut out of one tensor need no copy.

Query, key and value are read by any strides whose features stand next to each other. Results lie
as the query does: with all heads of a row side by side, if it has them so, since that is what the
next product reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from netcl_plugin_tensor.views import whole

from netcl_core.autograd import Geometry, Request

#: Elements that GPUs load at once at most: rows begin at their multiples.
_ALIGNED: Final = 8
#: Query, key and value begin the inputs of both ops; the gradients' last are these.
OUT: Final = -3
GRAD: Final = -1


def reader(aligned: bool) -> Callable[[Request], Sequence[bool]]:
    """What an implementation reads as it lies; of `aligned` rows only those at multiples of 8."""

    def reads(request: Request) -> Sequence[bool]:
        layouts = request.layouts
        flags = [_has_rows(layout, aligned) if i < 3 else False for i, layout in enumerate(layouts)]
        if len(request.outputs) == 3:
            for i in (OUT, GRAD):
                flags[i] = heads_of(layouts[i]) is not None
        return flags

    return reads


def _has_rows(layout: Geometry | None, aligned: bool) -> bool:
    if layout is None or (layout.shape[-1] > 1 and layout.strides[-1] != 1):
        return False
    steps = layout.strides[:-1]
    if aligned and any(step % _ALIGNED for step in (*steps, layout.offset)):
        return False
    return min(steps) >= 0


def heads_of(layout: Geometry | None) -> int | None:
    """How many heads stand side by side in a tensor without gaps; None: it is another one."""
    if layout is None:
        return 1
    for heads in (1, layout.shape[-3] if len(layout.shape) > 2 else 1):
        own = side_by_side(layout.shape, heads)
        pairs = zip(layout.shape, layout.strides, own.strides, strict=True)
        if layout.offset == 0 and all(n == 1 or given == right for n, given, right in pairs):
            return heads
    return None


def side_by_side(shape: tuple[int, ...], heads: int) -> Geometry:
    """The geometry of (..., rows, features) with so many heads, or one, beside each other."""
    places = whole(shape)
    if heads == 1:
        return places
    features = shape[-1]
    return places._replace(strides=(*places.strides[:-3], features, heads * features, 1))


def heads_beside(query: Geometry | None, lead: Sequence[int]) -> int:
    """How many heads stand side by side in results: the query's, if its rows hold them so."""
    if query is None or not lead or len(query.shape) < 3 or query.shape[-3] != lead[-1]:
        return 1
    return lead[-1] if query.strides[-3] < query.strides[-2] else 1
