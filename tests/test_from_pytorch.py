"""The table of docs/from-pytorch.md is true of PyTorch and of netcl."""

from __future__ import annotations

from typing import Any

import pytest
from beside_pytorch import DIFFERENCES, PLACES, Difference, absent, given, names, place

import netcl_core as nc

torch = pytest.importorskip("torch")


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.code)
def test_what_differs_differs_so(row: Difference) -> None:
    theirs, ours = given(torch, row.code), given(nc, row.code)
    assert theirs == row.theirs and theirs != ours
    assert row.ours in (ours, "...") and row.why


@pytest.mark.parametrize("name", PLACES)
def test_the_names_are_pytorchs(name: str) -> None:
    where = place(torch, name)
    assert [each for each in names()[name] if not hasattr(where, each)] == []


@pytest.mark.usefixtures("on_numpy")
def test_most_of_the_layers_and_optimizers_are_there() -> None:
    for name in ("nn", "nn.init", "optim", "optim.lr_scheduler", "utils.data"):
        assert len(absent(nc, name)) <= len(names()[name]) / 3, name


def test_an_absent_name_is_told_as_such() -> None:
    class Library:
        nn: Any = torch.nn.functional

    assert "Linear" in absent(Library, "nn")
