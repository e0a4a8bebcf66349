"""random_split: a data set in parts that are drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_data.datasets import Subset
from netcl_plugin_data.samplers import chosen_generator


def random_split(
    dataset: Any,
    lengths: Sequence[float],
    generator: np.random.Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset]:
    """Parts of a data set whose samples are drawn at random, each sample in one of them.

    >>> train, test = data.random_split(range(10), [0.8, 0.2], seed=0)
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)

    Args:
        dataset: Anything with samples by number and `len`.
        lengths: How long the parts are, which together are the data set's; or fractions, which
            together are 1. What rounding down leaves goes to the first parts, one each.
        generator: Draws the parts; default: the process's, which `nc.manual_seed` resets.
        seed: Or a seed for a generator of its own.
    """
    count = len(dataset)
    sizes = _sizes(lengths, count)
    order = chosen_generator("random_split", generator, seed).permutation(count)
    ends = np.cumsum([0, *sizes])
    return [Subset(dataset, order[a:b]) for a, b in pairwise(ends)]


def _sizes(lengths: Sequence[float], count: int) -> list[int]:
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 + 1e-6 and count != sum(lengths):
        if not all(0 <= share <= 1 for share in lengths):
            raise _misfit(lengths, "fractions from 0 to 1")
        sizes = [math.floor(count * share) for share in lengths]
        for k in range(count - sum(sizes)):
            sizes[k % len(sizes)] += 1
        return sizes
    if any(size != int(size) or size < 0 for size in lengths) or sum(lengths) != count:
        raise _misfit(lengths, f"lengths that are {count} together, or fractions that are 1")
    return [int(size) for size in lengths]


def _misfit(lengths: Sequence[float], expected: str) -> AttributeValueError:
    return AttributeValueError(message("random_split", f"lengths={list(lengths)}", expected))
