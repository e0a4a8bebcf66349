"""What tests of tuning share: the op `scaled` with a space, and a folder of records of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netcl_plugin_tunable
import numpy as np
import pytest
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tunable import LABEL, operator

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.ops.tuning import Place, place_of

NAME = f"tunable:scaled:{LABEL}"
BETTER = {"span": 64, "waste": 0}
X = np.arange(1 << 14, dtype="float32")
CLASS = "float32[16384]"
Offer = Callable[..., Any]


def here(shapes: str = CLASS) -> Place:
    """The place of a record for the default device."""
    return place_of(nc.default_device(), NAME, shapes)


@contextmanager
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of records that is a test's own; what is not written is forgotten."""
    programs = Path(os.environ["NETCL_CACHE_DIR"]) / "programs"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "programs").symlink_to(programs.resolve())
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "cache"))
    yield
    tuning_records._unwritten.clear()


@contextmanager
def offering(seen: list[dict[str, Any]]) -> Iterator[Offer]:
    """What registers the plugin with an operator of a space, and gives the op's function.

    The settings of each plan come into `seen`, in order.
    """

    def plan(request: ag.Request) -> Any:
        seen.append(dict(request.settings))
        return netcl_plugin_tunable.plan(request)

    def register(given: ag.Space | None = None, **fields: Any) -> Any:
        plugin = netcl_plugin_tunable.Plugin(operator(given, **{"plan": plan, **fields}))
        nc.plugins.register(plugin, "tunable")
        return ag.scaled

    yield register
    if any(each.name == "tunable" for each in nc.plugins.list()):
        nc.plugins.unregister("tunable")
