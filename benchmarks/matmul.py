"""Matrix products, with a layer's shapes among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, function_cases, multiplying

FORMS = {
    "netcl": lambda ag, a, b: ag.matmul(a, b),
    "torch": lambda torch, a, b: a @ b,
    "jax": lambda jax, a, b: a @ b,
    "tinygrad": lambda tensor, a, b: a @ b,
    "numpy": lambda np, a, b: a @ b,
}
#: Rows, inner size, columns.
SHAPES = {
    "cpu": ((64,) * 3, (256,) * 3, (128, 784, 512), (512,) * 3, (1024,) * 3, (2048,) * 3),
    "gpu": ((128, 784, 512), (1024,) * 3, (4096,) * 3),
}
DTYPES = {"cpu": ("float32",), "gpu": ("float32", "float16")}
TOLERANCES = {"float32": 2e-5, "float16": 5e-3}


def _data(shape: tuple[int, int, int], dtype: str) -> list[Any]:
    random = np.random.default_rng(0)
    rows, inner, columns = shape
    sizes = ((rows, inner), (inner, columns))
    return [random.standard_normal(size, dtype=np.float32).astype(dtype) for size in sizes]


def cases(kind: str) -> Iterator[RaceCase]:
    """Forwards alone: the gradients are products with a factor transposed."""
    for dtype in DTYPES[kind]:
        for shape in SHAPES[kind]:
            rows, inner, columns = shape
            yield from function_cases(
                f"{rows}x{inner}x{columns} {dtype}",
                FORMS,
                partial(_data, shape, dtype),
                gradients=0,
                forward=multiplying(2 * rows * inner * columns, kind, dtype),
                tolerance=TOLERANCES[dtype],
            )
