"""Philox4x32-10, the counter-based generator of all random ops, in NumPy.

Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3" (doi:10.1145/2063384.2063405).
The kernels' rounds are in templates/philox.j2.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)


def words(state: Any, blocks: Any) -> Any:
    """Four random words for each block, as a (blocks, 4) uint64 array of 32-bit words.

    `blocks` are their numbers, or how many there are from 0 on.

    The counter is the block's number and the state's second word, the key its first.
    """
    low = np.uint64(0xFFFFFFFF)
    index = np.arange(blocks, dtype=np.uint64) if isinstance(blocks, int) else blocks
    seed, number = (np.uint64(word) for word in state)
    zero = np.zeros(index.shape, np.uint64)
    c = [index & low, index >> np.uint64(32), zero + (number & low),
         zero + (number >> np.uint64(32))]  # fmt: skip
    key = [seed & low, seed >> np.uint64(32)]
    for _ in range(10):
        first, second = (np.uint64(m) * word for m, word in zip(_MULTIPLIERS, c[::2], strict=True))
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ key[0],
            second & low,
            (first >> np.uint64(32)) ^ c[3] ^ key[1],
            first & low,
        ]
        key = [(word + np.uint64(step)) & low for word, step in zip(key, _WEYL, strict=True)]
    return np.stack(c, axis=1)
