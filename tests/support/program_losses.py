"""Runs the programs of tests/programs under PyTorch and netcl, and writes their losses to a record.

    python tests/support/program_losses.py [--device numpy] [-k NAME]

docs/from-pytorch.md shows the record as a table. tests/test_programs.py compares what the
programs give with it, so that it cannot grow old.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[2]
RECORD: Final = ROOT / "tests" / "programs" / "losses.json"
PROGRAMS: Final = sorted(RECORD.parent.glob("*.py"))
#: How far a number may be from PyTorch's: both compute in float32, in another order.
CLOSE: Final = 2e-3
#: How often PyTorch runs with other last bits.
_SHAKEN: Final = 8


def numbers(path: Path, source: str) -> list[float]:
    """What a program's `main` gives."""
    names: dict[str, Any] = {"__name__": path.stem}
    exec(compile(source, str(path), "exec", dont_inherit=True), names)
    return [float(x) for x in names["main"]()]


def expected(path: Path) -> list[float]:
    """What it gives under PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says of its own names
        return numbers(path, path.read_text(encoding="utf-8"))


def apart(ours: list[float], theirs: list[float]) -> float:
    """The largest distance of two runs' numbers, in proportion for numbers above 1."""
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours, theirs, strict=True))


def shaken(path: Path, theirs: list[float]) -> float:
    """How far PyTorch is from itself if the last bits of the parameters are others.

    Each element that a first optimizer gets is moved up or down by one bit, or stays.
    """
    import torch

    begin, farthest = torch.optim.Optimizer.__init__, 0.0
    for seed in range(_SHAKEN):
        random, moved = np.random.default_rng(seed), set[int]()

        def init(self: Any, *args: Any, random: Any = random, moved: set[int] = moved) -> None:
            begin(self, *args)
            for parameter in (p for group in self.param_groups for p in group["params"]):
                if id(parameter) not in moved and parameter.dtype == torch.float32:
                    moved.add(id(parameter))
                    x = parameter.detach().numpy()
                    toward = x + random.integers(-1, 2, x.shape).astype(np.float32)
                    parameter.data.copy_(torch.from_numpy(np.nextafter(x, toward)))

        with contextlib.redirect_stdout(io.StringIO()):
            torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign]
            try:
                farthest = max(farthest, apart(expected(path), theirs))
            finally:
                torch.optim.Optimizer.__init__ = begin  # type: ignore[method-assign]
    return farthest


def recorded() -> dict[str, dict[str, Any]]:
    """Program -> `pytorch` and `netcl` -> its numbers; `shaken` -> PyTorch from itself."""
    record: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return record


def table() -> Iterator[str]:
    """A row for each program: its first and its last number under both, and the distances."""
    ends = "numbers | first: PyTorch | netcl | last: PyTorch | netcl"
    yield f"| program | | {ends} | farthest | PyTorch from itself |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, row in recorded().items():
        theirs, ours = row["pytorch"], row["netcl"]
        far = f"{apart(ours, theirs):.0e} | {row['shaken']:.0e}"
        ends = " | ".join(f"{pair[i]:.6g}" for i in (0, -1) for pair in (theirs, ours))
        said = (RECORD.parent / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]
        program = f"[`{name}`](../tests/programs/{name}.py) | {said}"
        yield f"| {program} | {len(theirs)} | {ends} | {far} |"


def main() -> None:
    """Write the record."""
    import netcl_core as nc

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="numpy")
    parser.add_argument("-k", dest="name", default="")
    given = parser.parse_args()
    record = recorded() if RECORD.exists() else {}
    with nc.use_device(given.device):
        for path in PROGRAMS:
            if given.name in path.stem:
                ours = numbers(path, nc.port.rewritten(path.read_text(encoding="utf-8")))
                theirs = expected(path)
                far = shaken(path, theirs)
                record[path.stem] = {"pytorch": theirs, "netcl": ours, "shaken": far}
                print(path.stem, flush=True)
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(record[name])}" for name in sorted(record))
    RECORD.write_text("{\n" + rows + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
