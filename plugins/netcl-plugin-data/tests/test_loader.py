"""TensorDataset and DataLoader: what a pass yields, in which order, and what it refuses."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import data
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError
from netcl_core.testing import usable_devices


def numbers(count: int = 10) -> data.TensorDataset:
    rows = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    return data.TensorDataset(rows, np.arange(count))


def order(loader: data.DataLoader) -> list[int]:
    return [int(i) for _, batch in loader for i in batch.to_host()]


def test_a_data_set_has_rows() -> None:
    dataset = numbers()
    assert (
        len(dataset) == 10 and repr(dataset) == "TensorDataset(10 samples of float32(2,), int64())"
    )
    row, label = dataset[3]
    assert row.tolist() == [6, 7] and label == 3
    assert dataset[2:4][1].tolist() == [2, 3]
    assert data.TensorDataset(nc.tensor([1.0, 2.0]))[1] == (2.0,)
    with pytest.raises(ShapeError, match=r"\(2,\), \(3,\)"):
        data.TensorDataset([1, 2], [1, 2, 3])
    with pytest.raises(ShapeError, match="first dimensions"):
        data.TensorDataset(3.0)
    with pytest.raises(ArgumentError, match="no arrays"):
        data.TensorDataset()


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(("drop_last", "sizes"), [(False, [4, 4, 2]), (True, [4, 4])])
def test_batches_are_tensors_on_the_default_device(
    workers: int, drop_last: bool, sizes: list[int]
) -> None:
    for device in usable_devices():
        with nc.use_device(device):
            loader = data.DataLoader(numbers(), 4, drop_last=drop_last, workers=workers)
            assert len(loader) == len(sizes)
            batches = list(loader)
        assert [len(labels) for _, labels in batches] == sizes
        for rows, labels in batches:
            assert isinstance(rows, nc.Tensor) and rows.device is labels.device is device
            assert (rows.dtype, labels.dtype) == ("float32", "int64")
            np.testing.assert_array_equal(rows.to_host()[:, 0], 2 * labels.to_host())
    elsewhere = data.DataLoader(numbers(), 4, device="cpu")
    assert all(rows.device.backend == "numpy" for rows, _ in elsewhere)


def test_orders() -> None:
    assert order(data.DataLoader(numbers(), 3)) == list(range(10))
    loader = data.DataLoader(numbers(), 3, shuffle=True, seed=1)
    first, second = order(loader), order(loader)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    again = data.DataLoader(numbers(), 3, shuffle=True, seed=1, workers=2)
    assert [order(again), order(again)] == [first, second]
    assert order(data.DataLoader(numbers(), 3, shuffle=True, seed=2)) != first


def test_without_a_seed_the_process_s_generator_orders() -> None:
    found = []
    for seed in (4, 4, 5):
        nc.manual_seed(seed)
        found.append(order(data.DataLoader(numbers(), 3, shuffle=True)))
    assert found[0] == found[1] != found[2]


class Squares:
    """A data set of the user's own."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.fail_at = fail_at

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index == self.fail_at:
            raise RuntimeError("broken sample")
        return np.full(3, index, np.float32), float(index) ** 2


@pytest.mark.parametrize("workers", [0, 2])
def test_any_data_set_serves(workers: int) -> None:
    batches = list(data.DataLoader(Squares(), 30, workers=workers, device="cpu"))
    rows, squares = batches[-1]
    assert rows.shape == (10, 3) and squares.dtype == "float32"
    np.testing.assert_array_equal(squares.to_host(), np.arange(90, 100, dtype=np.float32) ** 2)


def test_an_error_of_a_worker_arrives_and_all_workers_end() -> None:
    before = threading.active_count()
    with pytest.raises(RuntimeError, match="broken sample"):
        list(data.DataLoader(Squares(fail_at=50), 10, workers=2, device="cpu"))
    for _ in data.DataLoader(Squares(), 10, workers=2, device="cpu"):
        break
    assert threading.active_count() == before


def test_mistakes_are_named() -> None:
    with pytest.raises(AttributeValueError, match="batch_size=0"):
        data.DataLoader(numbers(), 0)
    with pytest.raises(AttributeValueError, match="workers=-1"):
        data.DataLoader(numbers(), workers=-1)
    ragged = [np.zeros(2), np.zeros(3)]
    with pytest.raises(ArgumentError, match=r"samples of shapes \(2,\), \(3,\)"):
        list(data.DataLoader(ragged, 2, device="cpu"))
