"""What is measured: a case, the work of each peer for it, and the limit that it is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from netcl_core import Device

Array: TypeAlias = np.ndarray[Any, Any]


@final
@dataclass(frozen=True)
class RaceWork:
    """What one peer does: the call that is timed, and what it gives, as NumPy arrays.

    The call need not wait for its device: its peer knows how to. The results are asked for
    once, before the first call.
    """

    call: Callable[[], Any]
    results: Callable[[], Sequence[Any]]


#: Makes the work for a device of netcl's; another library takes its own name of the same device.
Maker: TypeAlias = Callable[[Device], RaceWork]


@final
@dataclass(frozen=True)
class RaceLimit:
    """What no peer can beat: something simpler that takes its turns in the same rounds.

    Attributes:
        name: What it is, such as `copy`.
        makers: The name of a peer -> its work; the fastest counts.
        scale: What a call's time is multiplied by to get the limit of the case.
    """

    name: str
    makers: Mapping[str, Maker]
    scale: float = 1.0


@final
@dataclass(frozen=True)
class RaceCase:
    """One line of a benchmark.

    Attributes:
        name: What is done, with its size.
        makers: The name of a peer -> what makes its work.
        reference: Gives the right results in float64; without it the peers' are held against
            those of the first one.
        limit: What it is compared with besides the peers.
        tolerance: How far a result may be off, in parts of its largest element.
        by_norm: Whether it is the norm of a difference instead, in parts of the right one's norm or
            of a hundredth of the largest. So gradients of a whole model are compared: a gate of a
            relu that float32 opens and float64 does not changes single elements altogether, and
            the gradient of a bias before a batch norm is rounding alone.
        needs: Why the case cannot be run now, such as `needs conv2d`; empty: it can.
    """

    name: str
    makers: Mapping[str, Maker]
    reference: Callable[[], Sequence[Array]] | None = None
    limit: RaceLimit | None = None
    tolerance: float = 1e-5
    needs: str = ""
    by_norm: bool = False
