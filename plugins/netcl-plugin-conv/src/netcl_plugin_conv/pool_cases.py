"""The cases of pooling and interpolation: all are PyTorch's functions of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import Case, normal

import netcl_core.autograd as ag

X = normal()
Shape = tuple[int, ...]
#: One axis, two and three of them: odd sizes, one element, none, vectors and what is left of them.
LINES: tuple[Shape, ...] = ((4, 3, 17), (1, 1, 3), (0, 3, 5), (3, 67))
PLANES: tuple[Shape, ...] = ((2, 3, 7, 9), (1, 1, 3, 3), (0, 3, 5, 5), (3, 5, 41), (1, 2, 4, 70))
BOXES: tuple[Shape, ...] = ((2, 3, 5, 4, 7), (1, 1, 3, 3, 3), (0, 3, 5, 5, 5), (2, 3, 4, 35))


def pooled(op: str, shapes: Sequence[Shape], note: str, *args: Any, **rest: Any) -> Case:
    """A pooling op with positional arguments, here and in PyTorch."""
    return Case(op, (X,), lambda t, x: getattr(t.nn.functional, op)(x, *args), note=note,
                call=lambda x: getattr(ag, op)(x, *args),
                shapes=[[shape] for shape in shapes], **rest)  # fmt: skip


MAXIMA: Sequence[Case] = [
    pooled("max_pool1d", LINES, "3", 3, 2, 1),
    pooled("max_pool2d", PLANES, "3", 3, 2, 1),
    pooled("max_pool2d", PLANES, "2", 2),
    pooled("max_pool2d", PLANES, "dense", 3, 1, 1, 1, True),
    pooled("max_pool2d", PLANES[:1] + PLANES[3:], "dilated", (2, 3), (3, 1), (1, 0), (1, 2), True),
    pooled("max_pool2d", PLANES[3:], "apart", 1, 2),
    Case("max_pool2d", (X,), call=lambda x: ag.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
         torch=lambda t, x: t.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
         shapes=[[shape] for shape in PLANES[:2] + PLANES[3:]], note="indices",
         differentiable=False),
    pooled("max_pool3d", BOXES, "3", 3, 2, 1),
    pooled("adaptive_max_pool1d", LINES, "3", 3),
    pooled("adaptive_max_pool2d", PLANES, "odd", (2, 3)),
    pooled("adaptive_max_pool3d", BOXES, "odd", (2, None, 3)),
]  # fmt: skip
AVERAGES: Sequence[Case] = [
    pooled("avg_pool1d", LINES, "3", 3, 2, 1),
    pooled("avg_pool2d", PLANES, "2", 2),
    pooled("avg_pool2d", PLANES, "padded", 3, 2, 1),
    pooled("avg_pool2d", PLANES, "inside", 3, 2, 1, True, False),
    pooled("avg_pool2d", PLANES[:1] + PLANES[3:], "divisor", (2, 3), (1, 2), 1, True, True, 5),
    pooled("avg_pool3d", BOXES, "3", 3, 2, 1, True, False),
    pooled("adaptive_avg_pool1d", LINES, "3", 3),
    pooled("adaptive_avg_pool2d", PLANES, "odd", (2, 3)),
    pooled("adaptive_avg_pool2d", PLANES, "one", 1),
    pooled("adaptive_avg_pool3d", BOXES, "odd", (2, None, 3)),
    Case("global_avg_pool2d", (X,), lambda t, x: x.mean((-2, -1), keepdim=True),
         shapes=[[shape] for shape in PLANES]),
    pooled("lp_pool1d", LINES[:1] + LINES[3:], "squares", 2.0, 3, 2),
    pooled("lp_pool2d", PLANES[:1] + PLANES[3:], "squares", 2.0, 2, 2),
]  # fmt: skip


#: Of a cubic mode: beyond the border the last element stands in.
ONE_BY_ONE = {
    "non-finite": "PyTorch multiplies a border element with each of its weights, which differ in "
    "sign, so that an infinite one gives NaN; here they are added up first"
}


def resized(mode: str, shapes: Sequence[Shape], note: str, **given: Any) -> Case:
    """interpolate with a mode."""
    return Case("interpolate", (X,), call=lambda x: ag.interpolate(x, mode=mode, **given),
                torch=lambda t, x: t.nn.functional.interpolate(x, mode=mode, **given),
                note=f"{mode}-{note}", shapes=[[shape] for shape in shapes],
                skip=ONE_BY_ONE if mode == "bicubic" else {})  # fmt: skip


SIGNALS: Sequence[Shape] = ((4, 3, 17), (1, 1, 3), (0, 3, 5))
IMAGES: Sequence[Shape] = ((2, 3, 7, 9), (1, 1, 3, 3), (0, 3, 5, 5), (1, 2, 4, 35))
RESIZED: Sequence[Case] = [
    resized("nearest", IMAGES, "twice", scale_factor=2),
    resized("nearest", IMAGES, "smaller", scale_factor=0.7),
    resized("nearest-exact", IMAGES, "size", size=(11, 5)),
    resized("linear", SIGNALS, "size", size=23),
    resized("bilinear", IMAGES, "twice", scale_factor=2),
    resized("bilinear", IMAGES, "corners", size=(5, 40), align_corners=True),
    resized("bicubic", IMAGES, "size", size=(9, 40)),
    resized("bicubic", IMAGES, "corners", scale_factor=(1.5, 0.7), align_corners=True),
    resized("trilinear", ((2, 3, 5, 4, 7), (1, 1, 3, 3, 3)), "factor", scale_factor=1.5),
    resized("area", IMAGES, "size", size=(2, 3)),
]
CASES: Sequence[Case] = [*MAXIMA, *AVERAGES, *RESIZED]
