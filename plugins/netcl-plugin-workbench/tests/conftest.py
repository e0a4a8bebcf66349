"""What all tests of the workbench share: settings of their own."""

from __future__ import annotations

import pytest
from own_settings import isolate


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test writes into the user's cache or sees the user's settings."""
    isolate(monkeypatch, tmp_path_factory.getbasetemp())
