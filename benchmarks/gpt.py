"""A training step of a GPT: layers x width 4 x 192 on a CPU, 8 x 512 on a GPU; AdamW.

Attention is the op `scaled_dot_product_attention`; where netcl has none it is made of two products
and a softmax, and PyTorch keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, model_case, multiplying

VOCABULARY = 256


@dataclass(frozen=True)
class Size:
    """The sizes of a model and of a batch."""

    layers: int
    width: int
    heads: int
    context: int
    batch: int


SIZES = {"cpu": Size(4, 192, 6, 128, 4), "gpu": Size(8, 512, 8, 256, 16)}


def model(size: Size, nn: Any) -> Any:
    """Its parts by name; `loss` puts them together."""
    wide = size.width
    blocks = [
        nn.ModuleList(
            [
                nn.LayerNorm(wide),
                nn.Linear(wide, 3 * wide),
                nn.Linear(wide, wide),
                nn.LayerNorm(wide),
                nn.Linear(wide, 4 * wide),
                nn.GELU("tanh"),
                nn.Linear(4 * wide, wide),
            ]
        )
        for _ in range(size.layers)
    ]
    ends = [nn.Embedding(VOCABULARY, wide), nn.Embedding(size.context, wide)]
    ends += [nn.LayerNorm(wide), nn.Linear(wide, VOCABULARY)]
    return nn.ModuleList([*ends, *blocks])


def loss(size: Size, ops: Any, parts: Any, tokens: Any, wanted: Any) -> Any:
    """Of tokens (batch, context) and those that follow, (batch * context,)."""
    words, places, norm, head, *blocks = parts
    x = words(tokens) + places.weight
    for before, mix, out, between, widen, gelu, narrow in blocks:
        x = x + out(_attention(size, ops, mix(before(x))))
        x = x + narrow(gelu(widen(between(x))))
    logits = head(norm(x))
    return ops.cross_entropy(ops.reshape(logits, (size.batch * size.context, VOCABULARY)), wanted)


def _attention(size: Size, ops: Any, mixed: Any) -> Any:
    each = size.width // size.heads
    parts = ops.reshape(mixed, (size.batch, size.context, 3, size.heads, each))
    parts = ops.permute(parts, (2, 0, 3, 1, 4))
    attended = _heads(ops, parts[0], parts[1], parts[2])
    attended = ops.permute(attended, (0, 2, 1, 3))
    return ops.reshape(attended, (size.batch, size.context, size.width))


def _heads(ops: Any, query: Any, key: Any, value: Any) -> Any:
    if hasattr(ops, "scaled_dot_product_attention"):
        return ops.scaled_dot_product_attention(query, key, value, is_causal=True)
    later = np.triu(np.ones((query.shape[-2],) * 2, np.bool_), 1)
    scores = ops.matmul(query, key, trans_b=True) * query.shape[-1] ** -0.5
    scores = ops.masked_fill(scores, ops.as_operand(later, query.device), float("-inf"))
    return ops.matmul(ops.softmax(scores, -1), value)


def _data(size: Size) -> list[Any]:
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (size.batch, size.context + 1))
    return [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1)]


def case(kind: str, cast: Callable[[Any], Any] = lambda loss: loss, **options: Any) -> RaceCase:
    """Limited by its products: a forward and two backward, of weights and of attention."""
    size = SIZES[kind]
    rows, wide = size.batch * size.context, size.width
    weights = 2 * rows * (size.layers * 12 * wide**2 + wide * VOCABULARY)
    attention = size.layers * 4 * rows * size.context * wide / 2  # the causal half
    given: dict[str, Any] = {"limit": multiplying(3 * (weights + attention), kind), **options}
    return model_case(
        f"{size.layers} x {wide}, batch {size.batch} x {size.context}, AdamW step",
        partial(model, size),
        cast(partial(loss, size)),
        partial(_data, size),
        optimizer="AdamW",
        **given,
    )


def cases(kind: str) -> Iterator[RaceCase]:
    """The one of the size for this kind of device."""
    yield case(kind)
