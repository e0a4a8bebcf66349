"""Powers by exactly the operations that a kernel does."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate, repeat
from operator import mul


def power(base: float, exponent: int) -> float:
    """The power of a number, bit for bit as `raised` in powers.cl.j2 in double precision."""
    result = 1.0
    for table in _tables(base):
        result *= table[exponent & 31]
        exponent >>= 5
        if not exponent:
            break
    return result


def root_power(base: float, exponent: float) -> float:
    """The same with an exponent that is not whole, as `raised_by_roots`: by squares and roots."""
    whole = math.floor(exponent)
    rest, result, square, root = exponent - whole, 1.0, base, base
    while whole:
        if whole & 1:
            result *= square
        square, whole = square * square, whole >> 1
    while rest:
        root, rest = math.sqrt(root), 2 * rest
        if rest >= 1:
            result, rest = result * root, rest - 1
    return result


@lru_cache(maxsize=64)
def _tables(base: float) -> tuple[tuple[float, ...], ...]:
    """The powers with the exponents 0 to 31, then 32 times these, and so on."""
    tables: list[tuple[float, ...]] = []
    while len(tables) < 13:  # 64 bits
        powers = tuple(accumulate(repeat(base, 32), mul, initial=1.0))
        tables.append(powers[:32])
        base = powers[32]
    return tuple(tables)
