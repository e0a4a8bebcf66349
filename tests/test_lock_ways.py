"""Under a strict lock, whatever changes in an environment is refused, or changes no result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from new_ways import WAYS
from place import STRICT, Place, Started

#: They start processes.
pytestmark = pytest.mark.turns(2)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Started, Any]]:
    """An environment with its lock, a process there, and what a program gets in it."""
    place = Place(tmp_path_factory.mktemp("locked"))
    place.fill()
    place.lock_it()
    expected, said = place.result(**STRICT)
    assert expected is not None, said
    started = Started(place)
    yield place, started, expected
    started.close()


def test_there_are_many_ways() -> None:
    assert len(WAYS) >= 158


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", WAYS)
def test_it_is_refused_or_changes_nothing(
    name: str, locked: tuple[Place, Started, Any], tmp_path: Path
) -> None:
    before, started, expected = locked
    code, way = WAYS[name]
    place = before.copy(tmp_path)
    variables = way(place) or {}
    result, said = place.result(started, **{**STRICT, **variables})
    if code:
        assert result is None and code in said, said
        assert "NP509: " in said or not code.startswith("NP")
    else:
        assert result == expected, said
