"""The tables of this repository's plugins by their distribution."""

from __future__ import annotations

import op_table

from netcl_core.testing import Table


def table_of(distribution: str) -> Table:
    """The table of one plugin."""
    (found,) = [table for table in op_table.tables() if table.provider == distribution]
    return found
