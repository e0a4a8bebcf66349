"""The cases of what is true of elements, of moved ones, of norms, and of orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import FLOATS, INTEGERS, Case, indices, masks, normal, whole

import netcl_core.autograd as ag

X = normal()
FEW = whole(-1, 1)
ALL = ("bool", *INTEGERS, *FLOATS)
Shapes = Sequence[Sequence[tuple[int, ...]]]
COMMON: Shapes = [[(4, 3, 5)], [(1, 1, 1)], [(0, 3, 5)], [(2, 3, 1, 5, 7)], [(3, 17, 31)]]


def of(
    op: str, *args: Any, note: str = "", inputs: Any = X, torch: Any = None, **rest: Any
) -> Case:
    """A case of one tensor and further arguments that are the same in PyTorch."""
    named = rest.pop("named", {})
    there = torch or (lambda t, x: getattr(t, op)(x, *args, **named))
    words = note or "-".join([*map(str, args), *(f"{k}={v}" for k, v in named.items())])
    return Case(op, (inputs,), there, call=lambda x: getattr(ag, op)(x, *args, **named),
                note=words.replace(" ", ""), **{"shapes": COMMON, **rest})  # fmt: skip


LOGIC: Sequence[Case] = [
    of(op, *dims, inputs=FEW, dtypes=ALL, differentiable=False,
       torch=None if dims else lambda t, x, op=op: getattr(t, op)(x))
    for op in ("any", "all") for dims in ((), (1,), (-1, True))
]  # fmt: skip
MOVED: Sequence[Case] = [
    of("roll", 2, 1, dtypes=ALL),
    of("roll", -3, dtypes=ALL),
    of("roll", (1, -2, 4), (0, 2, 0), dtypes=ALL),
    *(of(op, k, dtypes=ALL) for op in ("tril", "triu") for k in (0, -1, 2)),
    of("diff", dtypes=ALL),
    of("diff", 2, 1, dtypes=ALL),
    Case("diff", (X, X), lambda t, x, y: t.diff(x, dim=0, prepend=y),
         call=lambda x, y: ag.diff(x, dim=0, prepend=y), note="prepend", dtypes=ALL,
         shapes=[[(4, 3), (2, 3)], [(1, 5), (0, 5)]]),
]  # fmt: skip
PAIRS: Shapes = [[(4, 3, 5)] * 2, [(2, 7), (1, 7)], [(1, 1)] * 2, [(2, 3, 1, 5, 7)] * 2]
#: Integers are taken as floats, where PyTorch refuses them.
CONVERTED = {"refusal": "integers become float32"}
TRUNCATED = {"refusal": "floats are cut to integers first"}
#: Where a norm is not finite.
OVERFLOWS = {"non-finite": "PyTorch's slope there is inf / inf"}
#: A norm of zeros, whose gradient is 0 as PyTorch has it.
KINK = {"gradient": "a norm has a kink at 0"}
NORMS: Sequence[Case] = [
    of("norm", skip=OVERFLOWS),
    of("norm", 2, 1),
    of("norm", 3.5, (0, 2), skip=OVERFLOWS),
    of("norm", 1, -1, True),
    of("norm", 0.5, -1, shapes=COMMON[:3]),
    of("norm", math.inf, 1, shapes=[COMMON[0], COMMON[3]]),
    of("norm", -math.inf, 1, shapes=[COMMON[0], COMMON[3]]),
    of("norm", 0, 1, inputs=FEW, differentiable=False),
    of("norm", 2, 1, note="2-zeros", inputs=FEW, shapes=[[(31, 1)]], skip=KINK),
    of("norm", 3, 1, note="3-zeros", inputs=FEW, shapes=[[(31, 1)]], skip=KINK),
    Case("normalize", (X,), "nn.functional.normalize", shapes=[COMMON[0], COMMON[3]]),
    Case("normalize", (X,), "nn.functional.normalize", {"p": 1.0, "dim": -1}, shapes=COMMON[:3]),
    Case("normalize", (X,), "nn.functional.normalize", {"p": 3.0, "dim": 0, "eps": 2.0},
         shapes=COMMON[:3]),
    Case("cosine_similarity", (X, X), "cosine_similarity", shapes=PAIRS),
    Case("cosine_similarity", (X, X), "cosine_similarity", {"dim": -1}, shapes=PAIRS),
    Case("pairwise_distance", (X, X), "pairwise_distance", shapes=PAIRS, skip=CONVERTED),
    Case("cdist", (X, X), "cdist", shapes=[[(4, 3), (5, 3)], [(2, 1, 3), (7, 3)], [(0, 3), (2, 3)]],
         skip=CONVERTED),
    of("cumprod", 0, dtypes=ALL, shapes=[[(5,)], [(4, 3)], [(0, 3)], [(9, 2)]]),
    *(Case(op, (X,), lambda t, x, op=op, args=args: getattr(t, op)(x, *args).values,
           call=lambda x, op=op, args=args: getattr(ag, op)(x, *args).values, dtypes=ALL,
           note=note, shapes=[[(4, 3, 5)], [(1, 7)], [(3, 70)]])
      for op, args, note in (("kthvalue", (2, -1), ""), ("median", (-1,), "axis"))),
    Case("median", (X,), lambda t, x: x.median(), dtypes=ALL, shapes=[[(4, 3)], [(7,)]]),
    Case("pairwise_distance", (X, X), "pairwise_distance", {"p": 1.0, "keepdim": True},
         shapes=PAIRS, skip=CONVERTED),
    of("glu", torch=lambda t, x: t.nn.functional.glu(x), skip=CONVERTED,
       shapes=[[(4, 3, 6)], [(2,)], [(3, 0)]]),
    of("glu", 1, torch=lambda t, x: t.nn.functional.glu(x, 1), skip=CONVERTED,
       shapes=[[(4, 6, 5)], [(1, 2)]]),
]  # fmt: skip
#: What ops take beside the arguments of their first cases.
ARGUMENTS: Sequence[Case] = [
    of("sum", named={"dtype": "int32"}, dtypes=("bool", *INTEGERS), differentiable=False,
       inputs=FEW, torch=lambda t, x: t.sum(x, dtype=t.int32), skip=TRUNCATED),
    of("cumsum", 1, named={"dtype": "float32"}, dtypes=ALL,
       torch=lambda t, x: t.cumsum(x, 1, dtype=t.float32),
       skip={"gradient": "it is computed in float32"}),
    of("prod", 1, named={"dtype": "int64"}, dtypes=("bool", *INTEGERS), differentiable=False,
       inputs=FEW, torch=lambda t, x: t.prod(x, 1, dtype=t.int64), skip=TRUNCATED),
    of("var", named={"unbiased": False}, shapes=[[(17,)], [(4, 3, 5)]]),
    of("std", 1, named={"unbiased": True}, shapes=[[(4, 3, 5)]]),
    of("logsumexp", 1, note="empty", shapes=[[(3, 0, 2)], [(0, 0)]], dtypes=ALL,
       differentiable=False),
    Case("cat", (X, whole(-3, 3), masks()), lambda t, *x: t.cat(x, 1), note="mixed",
         call=lambda *x: ag.cat(x, 1), dtypes=ALL, shapes=[[(2, 3), (2, 1), (2, 4)]]),
    Case("embedding", (indices(11), X), note="padding", dtypes=ALL,
         torch=lambda t, i, w: t.nn.functional.embedding(i, w, 3),
         call=lambda i, w: ag.embedding(i, w, 3),
         skip={"gradient": "the padding's row gets none"},
         shapes=[[(4, 5), (11, 6)], [(31,), (11, 2)]]),
]  # fmt: skip
#: Lines below, of and above the blocks that are ordered by insertion.
LINES: Shapes = [[(5, 17, 3)], [(1,)], [(2, 32)], [(0, 3)], [(2, 33, 3)], [(3, 331)]]
TIES = whole(-4, 4)


def in_order(t: Any, x: Any, dim: int, descending: bool) -> Any:
    """PyTorch's values in order, of equal ones the first first."""
    return t.sort(x, dim=dim, descending=descending, stable=True).values


ORDERED: Sequence[Case] = [
    *(Case("sort", (X,), lambda t, x, dim=dim, down=down: in_order(t, x, dim, down), dtypes=ALL,
           call=lambda x, dim=dim, down=down: ag.sort(x, dim, down).values, shapes=LINES,
           note=f"{dim}{down}") for dim, down in ((-1, False), (0, True))),
    *(Case(op, (TIES,), lambda t, x: t.argsort(x, dim=0, stable=True), dtypes=ALL,
           shapes=LINES,
           call=(lambda x: ag.argsort(x, 0)) if op == "argsort" else lambda x: x.sort(0).indices,
           note="ties", differentiable=False) for op in ("sort", "argsort")),
    Case("topk", (X,), lambda t, x: in_order(t, x, -1, False)[..., :40], note="many", dtypes=ALL,
         call=lambda x: ag.topk(x, 40, -1, False).values, shapes=[[(3, 331)], [(2, 40)]]),
]  # fmt: skip
#: Places along axis 0 of at least 5, none twice in a line.
PLACES = np.array([[3, 1, 0, 4], [0, 4, 2, 1], [1, 0, 4, 2]])
TWICE = np.array([[1, 0, 3], [1, 4, 4], [0, 0, 1], [1, 2, 3]])
SCATTERED: Sequence[Case] = [
    Case("scatter", (X, X), lambda t, x, s: x.scatter(0, t.tensor(PLACES), s[:3, :4]), dtypes=ALL,
         call=lambda x, s: ag.scatter(x, 0, PLACES, s),
         shapes=[[(5, 6), (3, 4)], [(7, 4), (4, 5)]]),
    Case("scatter", (X,), lambda t, x: x.scatter(1, t.tensor(PLACES), 2), note="number",
         call=lambda x: ag.scatter(x, 1, PLACES, 2), shapes=[[(5, 6)]], dtypes=ALL),
    Case("scatter_add", (X, X), lambda t, x, s: x.scatter_add(1, t.tensor(TWICE), s[:4, :3]),
         dtypes=ALL, call=lambda x, s: ag.scatter_add(x, 1, TWICE, s),
         shapes=[[(4, 6), (4, 3)], [(7, 5), (5, 5)]]),
]  # fmt: skip


def drawn(x: Any) -> Any:
    """Places drawn among those of the largest elements, which is one in each row."""
    largest = ag.one_hot(ag.argmax(x, -1), x.shape[-1])
    return ag.multinomial(largest.astype("float32"), 7, replacement=True)


COUNTED: Sequence[Case] = [
    Case("unique", (FEW,), lambda t, x: t.unique(x, return_inverse=True, return_counts=True),
         {"return_inverse": True, "return_counts": True}, shapes=COMMON, dtypes=ALL,
         differentiable=False, skip={"non-finite": "PyTorch's order of NaNs is another"}),
    Case("bincount", (indices(7), X), "bincount", shapes=[[(31,), (31,)], [(1,), (1,)]],
         dtypes=("float32", "float64"), differentiable=False,
         skip={"refusal": "other weights are summed in float64"}),
    Case("multinomial", (X,), lambda t, x: x.argmax(-1, True).expand(*x.shape[:-1], 7),
         call=drawn, shapes=[[(3, 5)], [(31,)]], differentiable=False,
         skip={"non-finite": "weights have to be finite", "refusal": "whole numbers are ties"}),
]  # fmt: skip
MORE = [*LOGIC, *MOVED, *NORMS, *ARGUMENTS, *ORDERED, *SCATTERED, *COUNTED]
