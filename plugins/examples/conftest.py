"""An example's tests are collected where it is installed; `make setup` installs none."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

collect_ignore = [
    path.parent.name
    for path in Path(__file__).parent.glob("*/pyproject.toml")
    if find_spec(path.parent.name.replace("-", "_")) is None
]
