"""Programs of the kinds that PyTorch's tutorials teach run under netcl, and their losses follow.

Each file in `programs/` is written against PyTorch's names. Nothing but its import lines is
changed, and its numbers are compared with those that PyTorch gives.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import netcl_core as nc

#: They start processes.
pytestmark = pytest.mark.turns(3)

torch = pytest.importorskip("torch")

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
#: How far a number may be from PyTorch's: both compute in float32, in another order.
CLOSE = 2e-3


def numbers(path: Path, source: str) -> list[float]:
    names: dict[str, object] = {"__name__": path.stem}
    exec(compile(source, str(path), "exec", dont_inherit=True), names)
    return names["main"]()  # type: ignore[operator]


@cache
def expected(path: Path) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says of its own names
        return numbers(path, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_its_losses_follow_pytorchs(path: Path, either: nc.Device) -> None:
    source = path.read_text(encoding="utf-8")
    changed = nc.port.rewritten(source)
    assert nc.port.absences(source) == []
    pairs = zip(source.splitlines(), changed.splitlines(), strict=True)
    differing = [one for one, other in pairs if one != other]
    assert differing and all(line.startswith(("import ", "from ")) for line in differing)
    found, right = numbers(path, changed), expected(path)
    assert len(found) == len(right) and np.isfinite(right).all()
    np.testing.assert_allclose(found, right, rtol=CLOSE, atol=CLOSE)
