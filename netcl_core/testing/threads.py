"""The check of threads: an op that several run at once gives each the bits that one alone gets."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from netcl_core.autograd import Tape
from netcl_core.device.device import Device
from netcl_core.testing.cases import Case
from netcl_core.testing.checks import same_bits
from netcl_core.testing.reference import Values, evaluate

THREADS: Final = 4
#: How often each of them runs the op.
_ROUNDS: Final = 2
_PATIENCE_S: Final = 60


def check_threads(case: Case, device: Device, dtype: str) -> None:
    """Four threads, each with a tape and inputs of its own, begin at the same moment."""
    inputs = [case.main_sample(dtype, f"thread {number}") for number in range(THREADS)]
    alone = [evaluate(case, arrays, device) for arrays in inputs]
    start = threading.Barrier(THREADS)

    def work(number: int) -> list[Values]:
        start.wait(_PATIENCE_S)
        with Tape():
            return [evaluate(case, inputs[number], device) for _ in range(_ROUNDS)]

    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(work, range(THREADS)))
    for number, found in enumerate(together):
        shapes = [array.shape for array in inputs[number]]
        where = f"{case} on {device} in {dtype} for {shapes} in thread {number} of {THREADS}"
        for values in found:
            same_bits(values, alone[number], where)
