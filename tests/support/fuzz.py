"""The long run of the differential fuzzer: `python tests/support/fuzz.py 10000 --device numpy`.

Every program has a seed of its own, so that a run splits into processes and any program can
be made again. Prints each mismatch as a small program, then how much was compared.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from differential import check
from programs import FLOATS, Program, generate

from netcl_core.hardware.device_table import get_device


@dataclass
class Totals:
    """The sums of some programs."""

    programs: int = 0
    lines: int = 0
    compared: int = 0
    tight: int = 0
    without: int = 0
    failures: list[str] = field(default_factory=list)

    def __iadd__(self, other: Totals) -> Totals:
        for name in ("programs", "lines", "compared", "tight", "without"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failures += other.failures
        return self


def program_of(seed: int, device: str, length: int = 14) -> Program:
    """The program of a seed."""
    dtypes = [x for x in FLOATS if x != "float64" or get_device(device).supports_fp64]
    return generate(random.Random(seed).randrange, length=length, dtypes=dtypes)


def problem(program: Program, device: str, totals: Totals | None = None) -> str:
    """What is wrong with a program on a device; empty: nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = check(program, get_device(device))
    except Exception as error:  # whatever it is, it is a finding
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    if totals is not None:
        totals.compared += report.compared
        totals.tight += report.tight
        totals.without += not report.with_gradients
    return "\n".join(report.mismatches)


def smallest(program: Program, device: str) -> Program:
    """A smaller program that is wrong in some way as well."""
    for _ in range(100):
        wrong = (smaller for smaller in program.smaller() if problem(smaller, device))
        fault = next(wrong, None)
        if fault is None:
            break
        program = fault
    return program


def run(seeds: range, device: str) -> Totals:
    """The programs of some seeds."""
    totals = Totals()
    for seed in seeds:
        program = program_of(seed, device)
        totals.programs += 1
        totals.lines += len(program.lines)
        wrong = problem(program, device, totals)
        if wrong:
            small = smallest(program, device)
            text = (
                f"--- seed {seed} on {device}: {wrong}\nsmallest: {problem(small, device)}\n{small}"
            )
            print(text, flush=True)
            totals.failures.append(text)
    return totals


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1000, help="how many programs")
    parser.add_argument("--device", default="numpy", help="as for use_device")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    start = time.perf_counter()
    step = 50
    last = args.seed + args.count
    parts = [range(i, min(i + step, last)) for i in range(args.seed, last, step)]
    totals = Totals()
    with ProcessPoolExecutor(args.processes, get_context("spawn")) as pool:
        for done in pool.map(partial(run, device=args.device), parts):  # raises if a driver crashes
            totals += done
    seconds = time.perf_counter() - start
    print(
        f"{totals.programs} programs of {totals.lines} lines on {args.device} in {seconds:.0f} s: "
        f"{len(totals.failures)} wrong; {totals.compared} numbers compared, "
        f"{totals.tight} of them within 2 %; {totals.without} programs left out, as a value "
        "overflows"
    )
    return bool(totals.failures)


if __name__ == "__main__":
    sys.exit(main())
