"""The devices of these tests: NumPy's path, and the one that is chosen where none is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import netcl_core as nc


@pytest.fixture(params=list(dict.fromkeys([nc.get_device("numpy"), nc.default_device()])), ids=str)
def either(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    """Both, one after the other."""
    with nc.use_device(request.param) as chosen:
        yield chosen
