"""Loaders that go on in the middle of a pass, and samplers of any number of samples."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import data
from netcl_core.errors import ArgumentError

#: They start processes.
pytestmark = pytest.mark.turns(2)

ROWS = np.arange(23)


class Noisy(data.Dataset):
    """Samples with random numbers of this process."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, index: Any) -> Any:
        return index, nc.host_generator().random()


class Stream(data.IterableDataset):
    def __iter__(self) -> Any:
        return ((k, nc.host_generator().random()) for k in range(23))


KINDS = {
    "shuffled": lambda: data.DataLoader(Noisy(), 3, shuffle=True),
    "seeded": lambda: data.DataLoader(Noisy(), 3, shuffle=True, seed=5),
    "workers": lambda: data.DataLoader(Noisy(), 3, shuffle=True, num_workers=2),
    "stream": lambda: data.DataLoader(Stream(), 3),
    "several orders": lambda: data.DataLoader(
        Noisy(), 3, sampler=data.RandomSampler(ROWS, num_samples=60)
    ),
    "own generator": lambda: data.DataLoader(
        Noisy(), 3, sampler=data.WeightedRandomSampler(ROWS, 30, generator=np.random.default_rng(1))
    ),
}


def numbers(batches: Any) -> list[Any]:
    return [[x.tolist() for x in batch] for batch in batches]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_goes_on_in_another_loader(kind: str) -> None:
    nc.manual_seed(11)
    loader = KINDS[kind]()
    list(loader)
    passing = iter(loader)
    list(islice(passing, 2))
    state, drawn = loader.state_dict(), nc.default_generator.get_state()
    rest = numbers(passing)
    more = numbers(loader)
    nc.manual_seed(0)
    other = KINDS[kind]()
    nc.default_generator.set_state(drawn)
    other.load_state_dict(state)
    assert numbers(other) == rest
    assert numbers(other) == more


def test_between_two_passes_there_is_nothing_to_skip() -> None:
    loader = data.DataLoader(data.TensorDataset(ROWS), 5)
    assert loader.state_dict() == {"batches": 0, "began": None, "generators": []}
    list(loader)
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert len(numbers(loader)) == 5
    with pytest.raises(ArgumentError, match="a state of epoch"):
        loader.load_state_dict({"epoch": 3})


def test_samples_with_replacement_are_drawn_as_they_are_asked_for() -> None:
    many = int(1e10)
    weights = [0.0, 1.0, 3.0, 0.0]
    for sampler in (
        data.RandomSampler("abcd", replacement=True, num_samples=many),
        data.WeightedRandomSampler(weights, many),
    ):
        assert len(sampler) == many
        found = np.bincount(list(islice(sampler, 20000)), minlength=4) / 20000
    np.testing.assert_allclose(found, [0, 0.25, 0.75, 0], atol=0.02)
