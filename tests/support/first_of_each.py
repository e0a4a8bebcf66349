"""Run every test once, with the first of its parameters: `python -m pytest -p first_of_each`.

It is for a place where the tests have passed elsewhere with all their parameters, and what is
asked is whether they find here what they need.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)  # after `-m` and `-k` have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the items of one function keep the first."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    kept = [item for item in items if first[item.nodeid.partition("[")[0]] is item]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
