"""Programs of the kinds that PyTorch's tutorials teach run under netcl, and their losses follow.

Each file in `programs/` is written against PyTorch's names. Nothing but its import lines is
changed, and its numbers are compared with those that PyTorch gives.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import program_losses
import pytest
from program_losses import CLOSE, PROGRAMS, numbers

import netcl_core as nc

#: They start processes.
pytestmark = pytest.mark.turns(3)

torch = pytest.importorskip("torch")

expected = cache(program_losses.expected)
#: How far a number of the record may be from those of another machine.
CLOSE_TO_RECORD = 2 * CLOSE


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
    record = program_losses.recorded()[path.stem]
    for name, now in (("pytorch", right), ("netcl", found)):
        np.testing.assert_allclose(record[name], now, rtol=CLOSE_TO_RECORD, atol=CLOSE_TO_RECORD)
