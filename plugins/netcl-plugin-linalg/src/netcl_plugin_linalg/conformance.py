"""The cases of the matrix products: what each op is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core.testing import FLOATS, INTEGERS, Case, normal

X = normal(0.5)
ALL = ("bool", *INTEGERS, *FLOATS)
#: Vectors, odd and prime sizes around the tiles, batches that broadcast, nothing to add up.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = [
    [(5, 7), (7, 3)],
    [(1, 1), (1, 1)],
    [(33, 65), (65, 34)],
    [(9, 301), (301, 70)],
    [(7,), (7, 3)],
    [(5, 7), (7,)],
    [(7,), (7,)],
    [(2, 5, 7), (7, 33)],
    [(5, 7), (4, 7, 3)],
    [(2, 1, 5, 7), (1, 3, 7, 40)],
    [(2, 1, 1, 5, 7), (3, 1, 7, 2)],
    [(64,), (3, 64, 5)],
    [(3, 1, 64), (64,)],
    [(0, 5), (5, 3)],
    [(2, 0), (0, 3)],
    [(0, 4, 5), (5, 3)],
]


def transposed(first: bool, second: bool, shapes: Sequence[Any]) -> Case:
    """matmul of operands that are stored transposed."""

    def there(t: Any, a: Any, b: Any) -> Any:
        return (a.mT if first else a) @ (b.mT if second else b)  # fmt: skip

    return Case("matmul", (X, X), there, call=lambda a, b: ag.matmul(a, b, first, second),
                shapes=shapes, note=f"{first}-{second}", dtypes=ALL)  # fmt: skip


CASES: Sequence[Case] = [
    Case("matmul", (X, X), "matmul", shapes=SHAPES, dtypes=("float32",), note="shapes",
         skip={"refusal": "the other dtypes are in the next case"}),
    Case("matmul", (X, X), "matmul", shapes=[SHAPES[2], SHAPES[5], SHAPES[9], SHAPES[14]],
         dtypes=ALL),
    transposed(True, False, [[(2, 7, 5), (2, 7, 4)], [(65, 33), (65, 17)]]),
    transposed(False, True, [[(2, 5, 7), (2, 4, 7)], [(33, 65), (17, 65)], [(33, 65), (9, 65)]]),
    transposed(True, True, [[(2, 7, 5), (2, 4, 7)], [(65, 33), (17, 65)]]),
    Case("bmm", (X, X), "bmm", dtypes=ALL,
         shapes=[[(3, 5, 7), (3, 7, 20)], [(1, 1, 1), (1, 1, 1)], [(0, 2, 3), (0, 3, 2)],
                 [(2, 31, 37), (2, 37, 17)]]),
    Case("linear", (X, X), "nn.functional.linear", dtypes=ALL,
         shapes=[[(5, 7), (3, 7)], [(7,), (3, 7)], [(0, 7), (3, 7)], [(2, 3, 7), (40, 7)],
                 [(2, 1, 3, 2, 7), (5, 7)]]),
    Case("linear", (X, X, X), "nn.functional.linear", note="bias", dtypes=ALL,
         shapes=[[(5, 7), (3, 7), (3,)], [(7,), (3, 7), (3,)], [(2, 3, 7), (40, 7), (40,)],
                 [(128, 64), (10, 64), (10,)], [(600, 5), (3, 5), (3,)], [(1, 1), (1, 1), (1,)]]),
]  # fmt: skip


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
