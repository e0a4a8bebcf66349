"""The cases of attention: shapes around the blocks, masks, groups of heads, broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from netcl_plugin_kit.testing import Case, masks, normal

NAME: Final = "scaled_dot_product_attention"
X: Final = normal()
#: Why NaN is no matter for a causal case.
LATER: Final = "keys that come later are not read; PyTorch adds minus infinity to a NaN there"
#: Odd sizes, a head of the value's own size, nothing to attend to, nobody who asks.
PLAIN: Final = [
    [(2, 5, 8), (2, 7, 8), (2, 7, 8)],
    [(2, 19, 7), (2, 67, 7), (2, 67, 18)],
    [(70, 8), (130, 8), (130, 8)],
    [(1, 8), (1, 8), (1, 8)],
    [(3, 0, 8), (3, 5, 8), (3, 5, 6)],
    [(3, 5, 8), (3, 0, 8), (3, 0, 8)],
    [(0, 5, 8), (0, 5, 8), (0, 5, 8)],
]


def attention(
    note: str,
    shapes: Sequence[Any],
    mask: Callable[..., Any] | None = None,
    skip: Mapping[str, str] | None = None,
    **attrs: Any,
) -> Case:
    """A case with the keyword arguments that both sides take."""

    def there(t: Any, *tensors: Any) -> Any:
        with t.nn.attention.sdpa_kernel(t.nn.attention.SDPBackend.MATH):
            return t.nn.functional.scaled_dot_product_attention(*tensors, **attrs)

    inputs = (X, X, X) if mask is None else (X, X, X, mask)
    return Case(NAME, inputs, there, attrs, shapes=shapes, note=note, skip=skip or {})


def additive(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Numbers to add, some of which leave next to nothing of a weight."""
    noise = random.standard_normal(shape)
    return np.where(random.uniform(size=shape) < 0.2, -20.0, noise)


ATTENTION: Final[Sequence[Case]] = [
    attention("plain", PLAIN),
    attention("causal", [PLAIN[0], [(2, 70, 8), (2, 130, 8), (2, 130, 8)],
                         [(2, 67, 8), (2, 19, 8), (2, 19, 8)]], is_causal=True,
              skip={"non-finite": LATER}),
    attention("scaled", PLAIN[:1], scale=-0.3),
    attention(
        "masked",
        [
            [(2, 3, 9, 8), (2, 3, 11, 8), (2, 3, 11, 8), (9, 11)],
            [(2, 3, 9, 8), (2, 3, 11, 8), (2, 3, 11, 8), (2, 1, 1, 11)],
            [(2, 3, 9, 8), (2, 3, 11, 8), (2, 3, 11, 8), (3, 9, 1)],
        ],
        masks(),
    ),
    attention(
        "biased", [[(2, 3, 9, 8), (2, 3, 11, 8), (2, 3, 11, 8), (2, 1, 9, 11)],
                   [(9, 8), (11, 8), (11, 8), (11,)]], additive),
    attention(
        "broadcast", [[(2, 1, 4, 8), (1, 3, 5, 8), (5, 8)], [(4, 8), (3, 5, 8), (2, 1, 5, 8)]]),
    attention(
        "groups of heads",
        [
            [(2, 6, 5, 8), (2, 3, 9, 8), (2, 3, 9, 8)],
            [(4, 5, 8), (1, 9, 8), (1, 9, 8)],
            [(2, 6, 5, 8), (2, 3, 9, 8), (2, 2, 9, 8)],
        ],
        enable_gqa=True,
    ),
    attention("wide heads", [[(5, 260), (9, 260), (9, 3)]]),
]  # fmt: skip
