"""The cases of the convolutions: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import Case, normal

import netcl_core.autograd as ag

X = normal(0.5)
#: Odd sizes around the tiles, a kernel as large as the padded picture, one element, no batch.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = [
    [(2, 3, 7, 9), (5, 3, 3, 3)],
    [(1, 33, 5, 19), (34, 33, 3, 2)],
    [(3, 2, 4, 4), (3, 2, 6, 6)],
    [(2, 1, 1, 1), (1, 1, 1, 1)],
    [(0, 3, 5, 5), (4, 3, 3, 3)],
    [(3, 7, 9), (5, 3, 3, 3)],
]


def _case(op: str, note: str, shapes: Any, biased: bool = False, **attrs: Any) -> Case:
    """An op with its settings; with a bias, of a number per output channel."""
    name = op.removeprefix("depthwise_")

    def there(t: Any, x: Any, w: Any, b: Any = None) -> Any:
        extra = {"groups": x.shape[-3]} if op != name else {}
        return getattr(t.nn.functional, name)(x, w, b, **attrs, **extra)

    def call(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(ag, op)(x, w, b, **attrs)

    inputs = (X,) * (3 if biased else 2)
    return Case(op, inputs, there, call=call, shapes=shapes, note=note, skip=_excuses(op, note))


def _excuses(op: str, note: str) -> dict[str, str]:
    """Zeros beyond a source are multiplied, too; PyTorch multiplies those of `padding` alone."""
    if note == "wide":
        return {"non-finite": "minimal filtering subtracts neighbours: a tile with one is NaN"}
    why = "beyond the end of its source a tap that is NaN or infinite gives NaN"
    return {"non-finite" if "transpose" in op else "non-finite gradient": why}


CASES: Sequence[Case] = [
    _case("conv2d", "padding", SHAPES, padding=1),
    _case("conv2d", "bias", [[(2, 4, 5, 6), (6, 4, 3, 3), (6,)], [(4, 5, 6), (6, 4, 3, 1), (6,)],
                             [(2, 16, 8, 8), (32, 16, 1, 1), (32,)]], True),
    _case("conv2d", "strides", [[(2, 4, 9, 8), (6, 2, 3, 3), (6,)],
                                [(1, 8, 6, 17), (8, 4, 2, 5), (8,)]], True,
          stride=(2, 3), padding=(2, 1), dilation=(1, 2), groups=2),
    _case("conv2d", "same", [[(2, 3, 5, 6), (4, 3, 4, 3)]], padding="same", dilation=2),
    _case("conv2d", "groups", [[(2, 6, 5, 18), (12, 1, 3, 3)]], padding=1, groups=6),
    _case("conv2d", "wide", [[(2, 16, 5, 18), (34, 16, 3, 3), (34,)],
                             [(1, 17, 2, 31), (16, 17, 3, 3), (16,)]], True, padding=1),
    _case("conv1d", "strides", [[(2, 3, 20), (4, 3, 5), (4,)], [(3, 9), (4, 3, 3), (4,)]], True,
          stride=2, padding=2),
    _case("conv3d", "padding", [[(2, 2, 4, 3, 5), (3, 2, 3, 2, 3), (3,)]], True,
          stride=(1, 2, 1), padding=(1, 0, 2)),
    _case("depthwise_conv2d", "padding", [[(2, 5, 7, 20), (5, 1, 3, 3), (5,)],
                                          [(1, 3, 4, 5), (6, 1, 2, 3), (6,)]], True, padding=1),
    _case("depthwise_conv2d", "strides", [[(2, 3, 9, 11), (3, 1, 3, 3)]], stride=2, dilation=2,
          padding=1),
    _case("conv_transpose2d", "bias", [[(2, 4, 5, 6), (4, 3, 3, 3), (3,)],
                                       [(4, 5, 2), (4, 3, 1, 3), (3,)],
                                       [(0, 4, 3, 3), (4, 2, 2, 2), (2,)]], True),
    _case("conv_transpose2d", "strides", [[(2, 4, 5, 6), (4, 3, 3, 2), (6,)]], True, stride=(3, 2),
          padding=(1, 0), output_padding=(2, 1), groups=2, dilation=(2, 1)),
    _case("conv_transpose2d", "wide", [[(1, 16, 3, 18), (16, 16, 3, 3)]], padding=(0, 2)),
    _case("conv_transpose2d", "gaps", [[(1, 3, 3, 4), (3, 2, 2, 2)]], stride=3),
    _case("conv_transpose1d", "strides", [[(2, 3, 9), (3, 4, 4), (4,)]], True, stride=2, padding=1),
    _case("conv_transpose3d", "strides", [[(1, 2, 2, 3, 4), (2, 3, 3, 2, 2), (3,)]], True,
          stride=(2, 1, 2), padding=(1, 0, 0)),
]  # fmt: skip
