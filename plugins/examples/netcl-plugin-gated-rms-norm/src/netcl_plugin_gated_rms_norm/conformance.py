"""What the pattern is tried with; what it has to equal is the function of ops that it matches."""

from __future__ import annotations

from collections.abc import Sequence

from netcl_plugin_kit.testing import Case, normal

NAME = "gated_rms_norm"
INPUTS = (normal(), normal(), normal())
#: Shapes of x, z and weight: odd sizes, one element, many axes, long rows, no rows.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = (
    [(5, 7), (5, 7), (7,)],
    [(1,), (1,), (1,)],
    [(2, 3, 1, 5), (2, 3, 1, 5), (5,)],
    [(3, 1031), (3, 1031), (1031,)],
    [(0, 3), (0, 3), (3,)],
)

#: `over` is the normalized_shape: one axis in each shape of a case. Without an eps it is that of
#: the dtype, so that only float64 has what float64 is compared with.
CASES = [
    *(
        Case(NAME, INPUTS, attrs={"over": shapes[0][-1:], "eps": 1e-5}, shapes=[shapes], note=note)
        for note, shapes in zip(("odd", "one", "axes", "long", "empty"), SHAPES, strict=True)
    ),
    Case(
        NAME,
        INPUTS,
        attrs={"over": 7, "eps": None},
        shapes=SHAPES[:1],
        dtypes=["float64"],
        note="default",
    ),
]
