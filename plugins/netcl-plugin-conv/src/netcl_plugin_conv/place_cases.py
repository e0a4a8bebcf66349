"""The cases of what takes elements from places, or puts them there: folds, grids, unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import FLOATS, INTEGERS, Case, normal, uniform

import netcl_core.autograd as ag
from netcl_plugin_conv.pool_cases import BOXES, LINES, PLANES, X, pooled

ALL = ("bool", *INTEGERS, *FLOATS)
#: Of a product with a weight of 0, or of elements that are not taken.
ZEROS = {"non-finite": "an infinite element times a weight of 0 is NaN in one order or the other"}


def folded(op: str, shapes: Sequence[Any], note: str, *args: Any) -> Case:
    """F.unfold or F.fold."""
    name = "unfold" if op == "im2col" else op
    return Case(op, (X,), lambda t, x: getattr(t.nn.functional, name)(x, *args), note=note,
                call=lambda x: getattr(ag, op)(x, *args), shapes=[[shape] for shape in shapes],
                dtypes=("bool", *FLOATS) if op == "im2col" else FLOATS,
                skip={"refusal": "integers are taken"})  # fmt: skip


FOLDED: Sequence[Case] = [
    folded("im2col", ((2, 3, 7, 9), (3, 5, 41)), "3", (3, 2), 1, 1, 2),
    folded("im2col", ((2, 3, 7, 9),), "apart", 2, (2, 3), 0, (1, 2)),
    folded("fold", ((2, 18, 6), (18, 6)), "3", (4, 5), (3, 2), 1, 1, 2),
    folded("fold", ((2, 12, 24),), "apart", (6, 9), 2, (2, 3), 0, 1),
]


def sampled(note: str, shape: Any, places: Any, **attrs: Any) -> Case:
    """grid_sample, with places inside and outside."""
    return Case("grid_sample", (X, uniform(-1.4, 1.4)), note=note, shapes=[[shape, places]],
                torch=lambda t, x, g: t.nn.functional.grid_sample(x, g, **attrs), attrs=attrs,
                dtypes=("float32", "float64"), gradients=[0, 1] if note != "nearest" else [0],
                tolerance=30.0, because="a place times a size loses digits behind the point",
                skip=ZEROS | {"refusal": "16-bit places are taken"})  # fmt: skip


GRIDS: Sequence[Case] = [
    sampled("plain", (2, 3, 5, 7), (2, 4, 3, 2)),
    sampled("corners", (2, 3, 5, 7), (2, 4, 3, 2), align_corners=True),
    sampled("border", (1, 2, 5, 7), (1, 4, 3, 2), padding_mode="border"),
    sampled("reflection", (1, 2, 5, 7), (1, 4, 3, 2), padding_mode="reflection"),
    sampled("mirror", (1, 2, 5, 1), (1, 4, 3, 2), padding_mode="reflection", align_corners=True),
    sampled("nearest", (2, 3, 5, 7), (2, 4, 3, 2), mode="nearest"),
    sampled("bicubic", (1, 2, 5, 7), (1, 4, 3, 2), mode="bicubic", padding_mode="border"),
    sampled("volume", (1, 2, 3, 4, 5), (1, 2, 2, 3, 3)),
    *(Case("affine_grid", (X,), note=f"{len(size)}{aligned}", shapes=[[theta]],
           torch=lambda t, x, size=size, aligned=aligned:
               t.nn.functional.affine_grid(x, list(size), align_corners=aligned),
           attrs={"size": size, "align_corners": aligned},
           skip={"non-finite": "products in another order"})
      for size, theta in (((2, 1, 3, 5), (2, 2, 3)), ((1, 2, 3, 1, 4), (1, 3, 4)))
      for aligned in (False, True)),
]  # fmt: skip
#: Two planes of four elements at places of nine.
TAKEN = np.array([[[0, 8, 3, 4]], [[2, 1, 7, 5]]]).reshape(2, 1, 2, 2)


def unpooled(count: int, shape: tuple[int, ...], *args: Any) -> Case:
    """Elements at indices that max pooling gives."""
    index = TAKEN.reshape(shape)
    return Case(f"max_unpool{count}d", (X,), shapes=[[shape]], dtypes=FLOATS,
                torch=lambda t, x: getattr(t.nn.functional, f"max_unpool{count}d")(
                    x, t.tensor(index), *args),
                call=lambda x: getattr(ag, f"max_unpool{count}d")(x, index, *args))  # fmt: skip


#: Where the windows of (2, 3) and (1, 2) planes lie.
SAMPLES = np.linspace(0, 0.95, 18).reshape(2, 3, 3)


def fractional(count: int, shape: Any, note: str, size: Any) -> Case:
    """Windows at given places."""
    name, samples = f"fractional_max_pool{count}d", SAMPLES[..., :count]

    def theirs(t: Any, x: Any) -> Any:
        given = t.tensor(samples, dtype=x.dtype)[: len(x) if x.ndim == count + 2 else 1]
        return getattr(t.nn.functional, name)(x, 2, size, _random_samples=given)

    def ours(x: Any) -> Any:
        given = samples[: len(x) if x.ndim == count + 2 else 1]
        drawn = ag.as_operand(given, x.device).astype(x.dtype)
        return getattr(ag, name)(x, 2, size, _random_samples=drawn)

    return Case(name, (X,), theirs, call=ours, shapes=[[shape]], note=note,
                dtypes=("float32", "float64"),
                skip={"refusal": "16-bit samples lie elsewhere"})  # fmt: skip


PLACED: Sequence[Case] = [
    *FOLDED,
    *GRIDS,
    unpooled(1, (2, 1, 4), 2, 3),
    unpooled(2, (2, 1, 2, 2), 2, 1),
    unpooled(3, (2, 1, 1, 2, 2), (1, 2, 2), 1, 0, (1, 3, 3)),
    fractional(2, (2, 3, 7, 9), "batch", (3, 4)),
    fractional(2, (3, 6, 5), "plain", 1),
    fractional(3, (2, 3, 5, 4, 7), "batch", (2, 2, 4)),
    pooled("lp_pool3d", BOXES[:1] + BOXES[3:], "squares", 2.0, 2, 2),
    *(Case("local_response_norm", (normal(),), "nn.functional.local_response_norm",
           {"size": size, "alpha": 0.5}, note=f"{size}{len(shapes[0])}",
           shapes=[[shape] for shape in shapes],
           skip={"non-finite": "infinity over infinity"})
      for size, shapes in ((3, LINES[:3]), (2, PLANES[:2]), (3, BOXES[:1]))),
]  # fmt: skip
