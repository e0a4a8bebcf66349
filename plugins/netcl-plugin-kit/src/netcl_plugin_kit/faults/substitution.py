"""Substitution: for a while an op has another record, of the same provider and priority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from netcl_core.inspect.choices import functions
from netcl_core.plugins.protocol import Row, registry


@contextmanager
def substituted(row: Row, record: Any) -> Iterator[None]:
    """Let the op of a row mean another record; everything derived from the old one is dropped.

    The kind may differ too: an operator can stand in for a composite.
    """
    _enter(row, record)
    try:
        yield
    finally:
        _enter(row, row.record)


def _enter(row: Row, record: Any) -> None:
    change = registry.transaction(row.provider, override=True)
    change.add(row.kind, record, row.priority, row.part_of)
    change.commit()
    if row.part_of and record is not row.record:  # its op has the record itself
        functions.replace(row.record, record)
