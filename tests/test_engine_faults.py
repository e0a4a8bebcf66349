"""The faults that are seeded in the engine: each can still be, and the page says who notices it."""

from __future__ import annotations

from collections import Counter

import engine_faults
import pytest
from engine_faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_can_be_seeded(fault: Fault) -> None:
    """Its line stands where the table says, and Python can read the file with the fault."""
    path = engine_faults.ROOT / engine_faults.path_of(fault)
    compile(engine_faults.seeded(fault, path.read_text(encoding="utf-8")), path.name, "exec")


def test_code_that_has_moved_on_is_told() -> None:
    with pytest.raises(LookupError, match=r"0 times the line .* moved on"):
        engine_faults.seeded(FAULTS[0], "")


def test_the_table_is_of_forty_faults_of_all_parts() -> None:
    assert len({fault.name for fault in FAULTS}) == 40
    assert set(Counter(fault.part for fault in FAULTS).values()) <= {5, 6}


def test_the_page_names_who_notices_each() -> None:
    for name, verdict in engine_faults.published().items():
        assert verdict.test, f"{name}: run `python tests/support/engine_faults.py {name} --write`"
