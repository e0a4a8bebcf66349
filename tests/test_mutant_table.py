"""The published figure of seeded faults: it is of these ops, and holds for a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mutant_table
import op_table
import pytest
from netcl_plugin_kit.faults.expression_faults import Fault
from netcl_plugin_kit.faults.mutants import WANTED, MutantTrial, MutantVerdict, rows_of
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.reference import torch_module

import netcl_core as nc

NUMPY = nc.get_device("numpy")
needs_torch = pytest.mark.skipif(torch_module() is None, reason="PyTorch is not installed")


def spread(found: Sequence[Any], count: int) -> list[Any]:
    """So many of a sequence, evenly spread."""
    return [found[i * len(found) // count] for i in range(min(count, len(found)))]


@pytest.fixture(scope="module")
def faults_of() -> list[tuple[Table, dict[str, list[Fault]]]]:
    """The faults of every op's expressions, by plugin."""
    return [(table, mutant_table.static_faults(table)) for table in op_table.tables()]


@needs_torch
def test_the_figure_holds_for_a_sample(faults_of: Any) -> None:
    """Some faults of every kind of expression of our ops; `make mutants` runs all."""
    kinds: dict[str, list[Any]] = {}
    for table, faults in faults_of:
        for one in rows_of(table, list(faults)) if faults else ():
            for fault in faults[one.record.name]:
                kinds.setdefault(fault.kind, []).append((one, table, fault))
    sample = [row for found in kinds.values() for row in spread(found, 6)]
    verdicts: list[MutantVerdict] = [
        MutantTrial(one, table, NUMPY).verdict(fault) for one, table, fault in sample
    ]
    missed = [f"{each.op}: {each.kind}: {each.text}" for each in verdicts if not each.caught_by]
    assert len(kinds) == 11 and len(verdicts) > 60
    assert len(missed) <= (1 - WANTED) * len(verdicts), "\n".join(missed)


def test_the_published_figure_is_of_these_ops(faults_of: Any) -> None:
    """As many faults of each op as there are, and 95 % of each plugin's are caught."""
    published = mutant_table.published()
    for table, static in faults_of:
        names = {row.record.name for row in rows_of(table)}
        rows = [row for op, row in published.items() if op in names]
        assert sum(row.caught for row in rows) >= WANTED * sum(row.total for row in rows)
        for op, faults in static.items():
            kernels = published[op].total - len(faults)
            assert 0 <= kernels <= 20, f"{op} has changed: run `make mutants`"
