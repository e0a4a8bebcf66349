"""Ops that nobody tuned for, one by one: what netcl and PyTorch spell alike.

python benchmarks ops/reduction --peers netcl,netcl-replay,torch --budget 0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from harness import RaceCase, op_cases

Form: TypeAlias = Callable[..., Any]
#: Group -> name -> a form for both libraries, and the shapes of its arguments.
Ops: TypeAlias = dict[str, dict[str, tuple[Form, list[tuple[int, ...]]]]]
#: Places are smaller.
PLACES = 4096
#: Of the largest element, for sums of 2^20 numbers; more for more.
TOLERANCE = 2e-5


def ops(n: int) -> Ops:
    """What is raced; a tensor has some 4 n MB, a matrix of n * 1024 lines n times as many."""
    rows, square, line = (4096 * n, 1024), (1024 * n, 1024 * n), (n * n << 20,)
    image, batch, heads = (8 * n, 64, 56, 56), (2048 * n, 16, 16), (2 * n, 16, 512 * n, 64)
    return {
        "reduction": {
            "sum": (lambda f, x: f.sum(x), [rows]),
            "mean dim": (lambda f, x: f.mean(x, 1), [rows]),
            "var dim": (lambda f, x: f.var(x, 1), [rows]),
            "var": (lambda f, x: f.var(x), [rows]),
            "std first": (lambda f, x: f.std(x, 0), [rows]),
            "norm": (lambda f, x: f.norm(x), [(1024, 1024)]),
            "norm dim": (lambda f, x: f.norm(x, 2, 1), [rows]),
            "amax dim": (lambda f, x: f.amax(x, 1), [rows]),
            "max dim": (lambda f, x: f.max(x, 1).values, [rows]),
            "max first": (lambda f, x: f.max(x, 0).values, [rows]),
            "logsumexp": (lambda f, x: f.logsumexp(x, 1), [rows]),
            "prod dim": (lambda f, x: f.prod(x, 1), [(16384 * n, 64)]),
            "cumsum": (lambda f, x: f.cumsum(x, 0), [line]),
            "cumsum rows": (lambda f, x: f.cumsum(x, 1), [rows]),
            "cumprod rows": (lambda f, x: f.cumprod(x, 1), [(16384 * n, 64)]),
            "cumprod": (lambda f, x: f.cumprod(f.tanh(x) / 9 + 1, 0), [line]),
            "logcumsumexp": (lambda f, x: f.logcumsumexp(x, 0), [line]),
            "logcumsumexp rows": (lambda f, x: f.logcumsumexp(x, 1), [rows]),
            "cummax": (lambda f, x: f.cummax(x, 0).values, [line]),
            "cummax rows": (lambda f, x: f.cummax(x, 1).values, [rows]),
            "cummin first": (lambda f, x: f.cummin(x, 0).values, [rows]),
            "median rows": (lambda f, x: f.median(x, 1).values, [rows]),
        },
        "product": {
            "matvec": (lambda f, a, x: f.matmul(a, x), [square, (1024 * n,)]),
            "vecmat": (lambda f, x, a: f.matmul(x, a), [(1024 * n,), square]),
            "thin 8": (lambda f, a, b: f.matmul(a, b), [(8, 1024 * n), square]),
            "deep 64x65536x64": (
                lambda f, a, b: f.matmul(a, b),
                [(64, 16384 * n), (16384 * n, 64)],
            ),
            "bmm 16x16": (lambda f, a, b: f.bmm(a, b), [batch, batch]),
            "bmm 64x64": (lambda f, a, b: f.bmm(a, b), [(256 * n, 64, 64), (256 * n, 64, 64)]),
            "1000x1001x999": (lambda f, a, b: f.matmul(a, b), [(1000, 1001), (1001, 999)]),
            "1024": (lambda f, a, b: f.matmul(a, b), [(1024, 1024), (1024, 1024)]),
            "outer": (lambda f, a, b: f.outer(a, b), [(1024 * n,), (1024 * n,)]),
            "dot": (lambda f, a, b: f.dot(a, b), [line, line]),
            "addmm": (lambda f, c, a, b: f.addmm(c, a, b), [(1024,), (1024, 1024), (1024, 1024)]),
            "einsum bhid,bhjd": (
                lambda f, a, b: f.einsum("bhid,bhjd->bhij", a, b),
                [(2 * n, 16, 256, 64), (2 * n, 16, 256, 64)],
            ),
        },
        "shape": {
            "tril": (lambda f, x: f.tril(x), [square]),
            "transposed": (lambda f, x: f.transpose(x, 0, 1).contiguous(), [square]),
            "permuted": (lambda f, x: f.permute(x, (0, 2, 3, 1)).contiguous(), [image]),
            "cat": (lambda f, a, b: f.cat([a, b], 1), [rows, rows]),
            "stack": (lambda f, a, b: f.stack([a, b], 1), [rows, rows]),
            "flip": (lambda f, x: f.flip(x, (1,)), [rows]),
            "roll": (lambda f, x: f.roll(x, 3, 1), [rows]),
            "repeat": (lambda f, x: f.tile(x, (2, 2)), [(512 * n, 1024)]),
            "repeat_interleave": (lambda f, x: f.repeat_interleave(x, 4, 0), [(1024 * n, 1024)]),
            "pad constant": (lambda f, x: f.pad(x, (1, 1, 1, 1)), [image]),
            "pad reflect": (lambda f, x: f.pad(x, (1, 1, 1, 1), mode="reflect"), [image]),
            "where": (lambda f, a, b: f.where(a > 0, a * b, f.tanh(a) * b), [rows, rows]),
            "clamp": (lambda f, x: f.clamp(x, -1, 1), [rows]),
            "lerp": (lambda f, a, b: f.lerp(a, b, 0.3), [rows, rows]),
            "gelu": (lambda f, x: f.gelu(x, approximate="tanh"), [rows]),
            "silu": (lambda f, x: f.silu(x), [rows]),
            "broadcast add": (lambda f, a, b: f.add(a, b), [rows, (1024,)]),
            "one to all": (lambda f, a, b: f.mul(a, b), [rows, (4096 * n, 1)]),
        },
        "layer": {
            "softmax": (lambda f, x: f.softmax(x, -1), [rows]),
            "layer_norm": (
                lambda f, x, w, b: f.layer_norm(x, (1024,), w, b),
                [rows, (1024,), (1024,)],
            ),
            "layer_norm 33": (
                lambda f, x, w, b: f.layer_norm(x, (33,), w, b),
                [(16384 * n, 33), (33,), (33,)],
            ),
            "group_norm": (lambda f, x, w, b: f.group_norm(x, 8, w, b), [image, (64,), (64,)]),
            "batch_norm": (
                lambda f, x, w, b: f.batch_norm(x, None, None, w, b, training=True),
                [image, (64,), (64,)],
            ),
            "avg_pool2d": (lambda f, x: f.avg_pool2d(x, 2), [image]),
            "max_pool2d": (lambda f, x: f.max_pool2d(x, 2), [image]),
            "adaptive_avg_pool2d": (lambda f, x: f.adaptive_avg_pool2d(x, 1), [image]),
            "interpolate": (lambda f, x: f.interpolate(x, scale_factor=2.0), [image]),
            "interpolate bilinear": (
                lambda f, x: f.interpolate(x, scale_factor=2.0, mode="bilinear"),
                [image],
            ),
            "patches 16x16/16": (
                lambda f, x, w: f.conv2d(x, w, stride=16),
                [(8 * n, 3, 224, 224), (768, 3, 16, 16)],
            ),
            "stem 7x7/2": (
                lambda f, x, w: f.conv2d(x, w, stride=2, padding=3),
                [(8 * n, 3, 224, 224), (64, 3, 7, 7)],
            ),
            "conv 3x3/2": (
                lambda f, x, w: f.conv2d(x, w, stride=2, padding=1),
                [image, (128, 64, 3, 3)],
            ),
            "conv_transpose 4x4/2": (
                lambda f, x, w: f.conv_transpose2d(x, w, stride=2, padding=1),
                [(8 * n, 64, 28, 28), (64, 32, 4, 4)],
            ),
            "mse_loss": (lambda f, a, b: f.mse_loss(a, b), [rows, rows]),
            "smooth_l1_loss": (lambda f, a, b: f.smooth_l1_loss(a, b), [rows, rows]),
            "kl_div": (
                lambda f, a, b: f.kl_div(
                    f.log_softmax(a, -1), f.softmax(b, -1), reduction="batchmean"
                ),
                [rows, rows],
            ),
            "cosine_similarity": (lambda f, a, b: f.cosine_similarity(a, b, 1), [rows, rows]),
            "attention": (lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v), [heads] * 3),
            "attention causal": (
                lambda f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
                [heads] * 3,
            ),
        },
        "place": {
            "index_select": (
                lambda f, x, i: f.index_select(x, 0, i),
                [(16384 * n, 256), (4096 * n,)],
            ),
            "gather": (lambda f, x, i: f.gather(x, 0, i), [square, square]),
            "scatter_add": (
                lambda f, x, i: f.zeros(4096, device=x.device, dtype=x.dtype).scatter_add(0, i, x),
                [line, line],
            ),
            "index_add": (
                lambda f, x, i: f.zeros((4096, 256), device=x.device, dtype=x.dtype).index_add(
                    0, i, x
                ),
                [(16384 * n, 256), (16384 * n,)],
            ),
            "embedding": (lambda f, w, i: f.embedding(i, w), [(50257, 768), (1024 * n,)]),
            "one_hot": (lambda f, x, i: f.one_hot(i, 4096), [(1,), (1024 * n,)]),
        },
    }


def _data(shapes: list[tuple[int, ...]], places: bool) -> list[Any]:
    random = np.random.default_rng(0)
    arrays: list[Any] = [random.standard_normal(shape, np.float32) for shape in shapes]
    if places:
        arrays[-1] = random.integers(0, min(PLACES, shapes[0][0]), shapes[-1])
    return arrays


def cases(kind: str) -> Iterator[RaceCase]:
    """Each op's forward, and with all gradients; the last argument of `place` is places."""
    for group, table in ops({"cpu": 1, "gpu": 4}[kind]).items():
        for name, (form, shapes) in table.items():
            places = group == "place"
            yield from op_cases(
                f"{group} {name}",
                form,
                partial(_data, shapes, places),
                gradients=0 if name == "one_hot" else len(shapes) - places,
                tolerance=TOLERANCE * max(1, math.prod(shapes[0]) / 2**20) ** 0.5,
            )
