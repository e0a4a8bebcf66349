"""Run the first test of every file: `python -m pytest -p first_of_each_file`.

It is for a place where all tests have passed elsewhere, and what is asked is whether they find
here what they need: collecting a file imports what it imports, and one test uses it.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)  # after `-m` and `-k` have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the items of one file keep the first."""
    first = {item.path: item for item in reversed(items)}
    kept = [item for item in items if first[item.path] is item]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
