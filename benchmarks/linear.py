"""A linear layer: the product, and the gradients of the input, the weight and the bias."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, function_cases, multiplying

FORMS = {
    "netcl": lambda ag, x, weight, bias: ag.linear(x, weight, bias),
    "torch": lambda torch, x, weight, bias: torch.nn.functional.linear(x, weight, bias),
    "jax": lambda jax, x, weight, bias: x @ weight.T + bias,
    "numpy": lambda np, x, weight, bias: x @ weight.T + bias,
}
#: Rows, features and results; the last of a GPU are a vocabulary whose lines are no whole chunks.
SHAPES = {
    "cpu": ((512, 256, 1024),),
    "gpu": ((4096, 768, 3072), (1001, 1001, 1001), (2048, 768, 50257)),
}
DTYPES = {"cpu": ("float32",), "gpu": ("float32", "float16")}
TOLERANCES = {"float32": 2e-5, "float16": 5e-3}


def _data(shape: tuple[int, int, int], dtype: str) -> list[Any]:
    random = np.random.default_rng(0)
    rows, inner, columns = shape
    sizes = ((rows, inner), (columns, inner), (columns,))
    return [random.standard_normal(size, dtype=np.float32).astype(dtype) for size in sizes]


def cases(kind: str) -> Iterator[RaceCase]:
    """Forward, and forward with all gradients: three products."""
    for dtype in DTYPES[kind]:
        for shape in SHAPES[kind]:
            rows, inner, columns = shape
            flops = 2 * rows * inner * columns
            yield from function_cases(
                f"{rows}x{inner}x{columns} {dtype}",
                FORMS,
                partial(_data, shape, dtype),
                gradients=3,
                forward=multiplying(flops, kind, dtype),
                both=multiplying(3 * flops, kind, dtype),
                tolerance=TOLERANCES[dtype],
            )
