"""The cases of second names, of ops that are one or two others, of closeness and of grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import INTEGERS, Case

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_tensor.more_cases import ALL, COMMON, FEW, PAIRS, X, of

AT_NAN = {
    "gradient at NaN": "PyTorch's own depends on whether its vector or its scalar code met it"
}
JOINED: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3), (2, 3)], [(1, 5), (0, 5)]]
SIDE: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3), (4, 2)], [(7,), (2,)], [(3, 0), (3, 5)]]
MATRICES: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3)], [(1, 1)], [(0, 5)], [(33, 17)]]


def joined(op: str, shapes: Any, *args: Any) -> Case:
    """A case of two tensors in a list."""
    return Case(
        op,
        (X, X),
        lambda t, x, y: getattr(t, op)([x, y], *args),
        call=lambda x, y: getattr(ag, op)([x, y], *args),
        shapes=shapes,
        dtypes=ALL,
    )


def told(op: str, inputs: Any, note: str = "") -> Case:
    """A case of an op that gives Python's bool for a tensor and a copy of it, or another one."""
    return Case(op, inputs, lambda t, x, y: t.tensor([getattr(t, op)(x, y), getattr(t, op)(x, x)]),
                call=lambda x, y: nc.tensor([getattr(ag, op)(x, y), getattr(ag, op)(x, x)],
                device=x.device), shapes=PAIRS, dtypes=ALL, differentiable=False, note=note,
                skip={"non-finite": "the host reads it"})  # fmt: skip


AXES: Sequence[Case] = [
    of("swapaxes", 0, 2, dtypes=ALL),
    of("swapdims", -1, 1, dtypes=ALL),
    of("t", dtypes=ALL, shapes=[*MATRICES, [(7,)], [()]]),
    of("movedim", 0, -1, dtypes=ALL),
    of("movedim", (0, 2), (2, 1), dtypes=ALL),
    of("moveaxis", 1, 0, dtypes=ALL),
    of("ravel", dtypes=ALL),
    of("unflatten", -1, (1, -1), dtypes=ALL),
    of("fliplr", dtypes=ALL, shapes=MATRICES),
    of("flipud", dtypes=ALL, shapes=MATRICES),
    of("select", 1, 0, dtypes=ALL),
    of("select", -2, -1, dtypes=ALL),
    of("narrow", 2, 1, 2, dtypes=ALL, shapes=[[(4, 3, 5)], [(0, 3, 5)], [(3, 17, 31)]]),
    of("narrow", 0, -3, 2, dtypes=ALL, shapes=[[(4, 3, 5)], [(3, 17, 31)]]),
    of("diagonal", 1, 2, 0, dtypes=ALL),
    Case("windows", (X,), lambda t, x: x.unfold(1, 2, 1), call=lambda x: x.unfold(1, 2, 1),
         dtypes=ALL, shapes=[[(4, 3, 5)], [(0, 3, 5)], [(3, 17, 31)]]),
    Case("as_strided", (X,), lambda t, x: x.as_strided((2, 3), (1, 2), 1),
         call=lambda x: ag.as_strided(x, (2, 3), (1, 2), 1), dtypes=ALL,
         shapes=[[(4, 3, 5)], [(7,)]], skip={"strided": "its places are those of the memory"}),
    Case("unbind", (X,), lambda t, x: x.unbind(1)[-1], call=lambda x: ag.unbind(x, 1)[-1],
         dtypes=ALL, shapes=[[(4, 3, 5)], [(0, 3, 5)], [(2, 1)]]),
]  # fmt: skip
TOGETHER: Sequence[Case] = [
    joined("concat", JOINED),
    joined("concatenate", SIDE[:1], 1),
    joined("hstack", SIDE),
    joined("vstack", [*JOINED, [(5,), (5,)]]),
    of("tile", (2, 3), dtypes=ALL),
    of("tile", (2, 1, 1, 3), dtypes=ALL, shapes=[[(3, 5)], [()], [(0,)]]),
    of("repeat", (2, 1, 3), dtypes=ALL, torch=lambda t, x: x.repeat(2, 1, 3),
       shapes=[[(4, 3, 5)], [(0, 3, 5)], [(7,)]]),
]  # fmt: skip
COUNTED: Sequence[Case] = [
    of("count_nonzero", inputs=FEW, dtypes=ALL, differentiable=False),
    of("count_nonzero", 1, inputs=FEW, dtypes=ALL, differentiable=False),
    of("nansum", dtypes=ALL),
    of("nansum", 1, True, dtypes=ALL),
    of("nanmean", shapes=COMMON[:2], skip={"refusal": "the mean of whole numbers is a float"}),
    of("nanmean", 1, True, shapes=COMMON[:2], skip={"refusal": "as above"}),
]
SLOPES: Sequence[Case] = [
    of("softmin", 1, torch=lambda t, x: t.nn.functional.softmin(x, 1)),
    of("rrelu", torch=lambda t, x: t.nn.functional.rrelu(x), skip=AT_NAN, dtypes=ALL),
    of("rrelu", 0.25, 0.25, True, torch=lambda t, x: t.nn.functional.rrelu(x, 0.25, 0.25, True),
       skip=AT_NAN),
]  # fmt: skip
CLOSE: Sequence[Case] = [
    Case("isclose", (FEW, FEW), "isclose", shapes=PAIRS, dtypes=ALL, differentiable=False),
    Case("isclose", (X, X), "isclose", {"rtol": 0.5, "atol": 0.1, "equal_nan": True},
         shapes=PAIRS, dtypes=(*INTEGERS[1:], "float32", "float64"), differentiable=False,
         skip={"refusal": "every dtype is taken"}),
    told("allclose", (FEW, FEW)),
    told("equal", (FEW, FEW)),
]  # fmt: skip
ARRANGED: Sequence[Case] = [
    *(Case("meshgrid", (X, X), lambda t, x, y, i=i, how=how: t.meshgrid(x, y, indexing=how)[i],
           call=lambda x, y, i=i, how=how: ag.meshgrid(x, y, indexing=how)[i], note=f"{i}-{how}",
           gradients=[i], shapes=[[(4,), (3,)], [(1,), (17,)], [(0,), (5,)]], dtypes=ALL)
      for i, how in ((0, "ij"), (1, "ij"), (0, "xy"))),
    of("repeat_interleave", 3, dtypes=ALL),
    of("repeat_interleave", 2, 1, dtypes=ALL),
    of("diag", dtypes=ALL, shapes=[*MATRICES, [(5,)], [(1,)]]),
    of("diag", 2, dtypes=ALL, shapes=[*MATRICES, [(5,)], [(0,)]]),
    of("diag", -1, dtypes=ALL, shapes=[*MATRICES, [(5,)], [(0,)]]),
    of("trace", dtypes=ALL[1:], shapes=MATRICES, skip={"refusal": "bools are counted"}),
    of("pixel_shuffle", 2, dtypes=ALL, shapes=[[(1, 8, 3, 5)], [(4, 1, 1)]]),
    of("pixel_unshuffle", 2, dtypes=ALL, shapes=[[(1, 3, 4, 6)], [(1, 2, 2)]]),
]  # fmt: skip
ROWS = [3, 0, 3]
READ = {"non-finite": "the host reads it"}
PICKED: Sequence[Case] = [
    of("nonzero", inputs=FEW, dtypes=ALL, differentiable=False, skip=READ),
    of("argwhere", inputs=FEW, dtypes=ALL, differentiable=False, skip=READ),
    Case("masked_select", (X, X), lambda t, x, y: x.masked_select(y > 0),
         call=lambda x, y: ag.masked_select(x, y > 0), shapes=[[(4, 3), (4, 3)], [(4, 3), (3,)]],
         gradients=[0], dtypes=ALL, skip=READ),
    Case("index_add", (X, X), lambda t, x, s: x.index_add(0, t.tensor(ROWS), s, alpha=2),
         call=lambda x, s: ag.index_add(x, 0, ROWS, s, alpha=2), dtypes=ALL[1:],
         shapes=[[(5, 6), (3, 6)], [(4,), (3,)]]),
    Case("index_copy", (X, X), lambda t, x, s: x.index_copy(1, t.tensor(ROWS[:2]), s), dtypes=ALL,
         call=lambda x, s: ag.index_copy(x, 1, ROWS[:2], s), shapes=[[(3, 5), (3, 2)]]),
    Case("index_fill", (X,), lambda t, x: x.index_fill(-1, t.tensor(ROWS), 2), dtypes=ALL,
         call=lambda x: ag.index_fill(x, -1, ROWS, 2), shapes=[[(3, 5)], [(4,)]]),
]  # fmt: skip
COMPOSED = (*PICKED, *AXES, *TOGETHER, *COUNTED, *SLOPES, *CLOSE, *ARRANGED)
