"""Layouts: the merged dimensions address the same elements as NumPy's broadcasting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from daily import examples

from netcl_core.codegen.layout import Layout, Shape, broadcast, collapse
from netcl_core.errors import ShapeError

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402 - after importorskip
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402


def addresses(layout: Layout, index: int) -> list[int]:
    """The flat index of each element that a kernel reads from an input."""
    kind, strides = layout.kinds[index], layout.strides[index]
    found = []
    for row, place in enumerate(itertools.product(*map(range, layout.dims))):
        start = sum(c * s for c, s in zip(place, strides, strict=True))
        for i in range(layout.length):
            found.append({"full": row * layout.length + i, "one": 0, "rows": start + i,
                          "splat": start}[kind])  # fmt: skip
    return found


@settings(max_examples=examples(150), deadline=None)
@given(
    shapes=st.integers(1, 3).flatmap(
        lambda n: hnp.mutually_broadcastable_shapes(
            num_shapes=n, max_dims=6, max_side=4, min_side=0
        )
    )
)
def test_addresses_are_numpys(shapes: hnp.BroadcastableShapes) -> None:
    out = broadcast(shapes.input_shapes, "op")
    assert out == shapes.result_shape
    layout = collapse(shapes.input_shapes, out)
    assert layout.rows * layout.length == math.prod(out) or not math.prod(out)
    if math.prod(out):
        for index, shape in enumerate(shapes.input_shapes):
            numbers = np.arange(math.prod(shape)).reshape(shape)
            wanted = np.broadcast_to(numbers, out).reshape(-1).tolist()
            assert addresses(layout, index) == wanted


@pytest.mark.parametrize(
    ("shapes", "length", "dims", "kinds"),
    [
        ([(2, 3, 4), (2, 3, 4)], 24, (), ("full", "full")),
        ([(2, 3, 4), (4,)], 4, (6,), ("full", "rows")),
        ([(2, 3, 4), (3, 4)], 12, (2,), ("full", "rows")),
        ([(2, 3, 4), (2, 1, 1)], 12, (2,), ("full", "splat")),
        ([(2, 3, 4), ()], 24, (), ("full", "one")),
        ([(2, 1, 4), (1, 3, 4)], 4, (2, 3), ("rows", "rows")),
        ([(), (1, 1)], 1, (), ("full", "full")),  # as any other size, so that nothing is built anew
        ([(1, 1, 7)], 7, (), ("full",)),
    ],
)
def test_dimensions_are_merged(
    shapes: list[Shape], length: int, dims: Shape, kinds: tuple[str, ...]
) -> None:
    layout = collapse(shapes, broadcast(shapes, "op"))
    assert (layout.length, layout.dims, layout.kinds) == (length, dims, kinds)


def test_the_source_does_not_depend_on_sizes() -> None:
    keys = {collapse([(n, 3), (3,)], (n, 3)).key for n in (2, 5, 1000)}
    assert len(keys) == 1


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes \(2, 3\) and \(2,\) do not broadcast"):
        broadcast([(2, 3), (2,)], "add")
