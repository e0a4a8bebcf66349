"""Data sets made of others, samplers and splits: their rules beside plain Python's."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import data
from netcl_core.errors import ArgumentError, AttributeValueError

torch_data = pytest.importorskip("torch.utils.data")


def test_sets_of_sets_equal_pytorch() -> None:
    """Numbers from the end, too; out of range is an IndexError."""
    parts: list[Any] = [range(3), [], range(10, 14)]
    for make, items in (
        (lambda lib: lib.ConcatDataset(parts), 7),
        (lambda lib: lib.Subset(lib.ConcatDataset(parts), [6, 0, 3]), 3),
    ):
        ours, theirs = make(data), make(torch_data)
        assert len(ours) == len(theirs) == items
        assert [ours[k] for k in range(-items, items)] == [theirs[k] for k in range(-items, items)]
        for beyond in (items, -items - 1):
            with pytest.raises(IndexError):
                ours[beyond]
    rows = data.TensorDataset(np.arange(6))
    both = rows + data.Subset(rows, [5, 1])
    assert isinstance(both, data.ConcatDataset)
    assert [int(x) for (x,) in both] == [0, 1, 2, 3, 4, 5, 5, 1]
    chained = data.ChainDataset([range(2)]) + data.ChainDataset([range(3)])
    assert list(chained) == [0, 1, 0, 1, 2] and isinstance(chained, data.IterableDataset)
    with pytest.raises(ArgumentError, match="Use ChainDataset"):
        data.ConcatDataset([chained])
    with pytest.raises(ArgumentError, match="no data sets"):
        data.ConcatDataset([])
    with pytest.raises(NotImplementedError, match="Dataset has no __getitem__"):
        data.Dataset[int]()[0]


def test_a_subset_of_rows_is_taken_at_once() -> None:
    """As sample by sample, but by one index."""
    rows = data.TensorDataset(np.arange(20).reshape(10, 2), np.arange(10))
    part = data.Subset(data.Subset(rows, range(9, 2, -1)), [0, 2, 6])
    (batch,) = data.DataLoader(part, 5, device="numpy")
    assert [x.tolist() for x in batch] == [[[18, 19], [14, 15], [6, 7]], [9, 7, 3]]
    assert [int(label) for _, label in (part[k] for k in range(3))] == [9, 7, 3]


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [([7, 3], [7, 3]), ([0.5, 0.5], [5, 5]), ([0.34, 0.33, 0.33], [4, 3, 3]), ([0, 10], [0, 10]),
     ([0.25, 0.25, 0.5], [3, 2, 5])],
)  # fmt: skip
def test_splits_have_each_sample_once(lengths: list[float], sizes: list[int]) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch_data.random_split(range(10), lengths, torch.Generator())
    parts = data.random_split(range(10), lengths, seed=1)
    assert [len(part) for part in parts] == [len(part) for part in theirs] == sizes
    assert sorted(k for part in parts for k in part) == list(range(10))
    again = data.random_split(range(10), lengths, np.random.default_rng(1))
    assert [list(part) for part in again] == [list(part) for part in parts]
    nc.manual_seed(3)
    first = [list(part) for part in data.random_split(range(10), lengths)]
    nc.manual_seed(3)
    assert [list(part) for part in data.random_split(range(10), lengths)] == first


@pytest.mark.parametrize("lengths", [[5, 4], [0.5, 0.6], [11, -1], [1.5, 8.5]])
def test_lengths_that_do_not_fit(lengths: list[float]) -> None:
    with pytest.raises(AttributeValueError, match="random_split: lengths="):
        data.random_split(range(10), lengths)


def test_samplers() -> None:
    source = range(5)
    for draws in (None, 3, 12):
        sampler = data.RandomSampler(source, num_samples=draws, generator=np.random.default_rng(0))
        drawn = list(sampler)
        wanted = 5 if draws is None else draws
        assert len(sampler) == len(drawn) == wanted and list(sampler) != drawn
        for begin in range(0, wanted, 5):  # whole orders, one after the other
            part = drawn[begin : begin + 5]
            assert len(set(part)) == len(part) and set(part) <= set(source)
    many = list(data.RandomSampler(source, replacement=True, num_samples=4000))
    assert set(many) == set(source) and max(Counter(many).values()) < 1000
    weights = nc.tensor([1.0, 0.0, 3.0])
    counts = Counter(data.WeightedRandomSampler(weights, 4000))
    assert set(counts) == {0, 2} and 2.4 < counts[2] / counts[0] < 3.7
    assert sorted(data.WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]
    assert sorted(data.SubsetRandomSampler(np.array([4, 2, 2]))) == [2, 2, 4]
    for size, drop in ((2, False), (2, True), (5, True), (9, False), (9, True)):
        ours = data.BatchSampler(data.SequentialSampler(source), size, drop)
        theirs = torch_data.BatchSampler(torch_data.SequentialSampler(source), size, drop)
        assert list(ours) == list(theirs) and len(ours) == len(theirs)


def test_mistakes_of_samplers_are_named() -> None:
    with pytest.raises(AttributeValueError, match="num_samples=0"):
        data.RandomSampler([1], num_samples=0)
    with pytest.raises(ArgumentError, match="3 samples of an empty data set"):
        list(data.RandomSampler([], num_samples=3))
    with pytest.raises(AttributeValueError, match="not only zeros"):
        data.WeightedRandomSampler([0.0, 0.0], 1)
    with pytest.raises(AttributeValueError, match="at most 1, the weights above 0"):
        data.WeightedRandomSampler([0.0, 1.0], 2, replacement=False)
    with pytest.raises(AttributeValueError, match="batch_size=0"):
        data.BatchSampler([1], 0, False)


# -- files -----------------------------------------------------------------------------


def write_cifar(root: Path) -> Any:
    random = np.random.default_rng(0)
    kept = []
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        labels = random.integers(0, 10, 2, dtype=np.uint8)
        pixels = random.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
        rows = np.concatenate([labels[:, None], pixels.reshape(2, -1)], 1)
        (root / f"{name}.bin").write_bytes(rows.tobytes())
        kept.append((pixels, labels))
    return kept


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-bin"])
def test_cifar_is_read(tmp_path: Path, inner: str) -> None:
    (tmp_path / inner).mkdir(exist_ok=True)
    written = write_cifar(tmp_path / inner)
    train, test = data.cifar10(tmp_path)
    assert (len(train), len(test)) == (10, 2)
    images, labels = train.arrays
    assert images.dtype == np.float32 and labels.dtype == np.int64
    np.testing.assert_allclose(images * 255, np.concatenate([x for x, _ in written[:5]]), rtol=1e-6)
    assert test.arrays[1].tolist() == written[5][1].tolist()


def test_cifar_files_that_are_absent_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(data.MissingDataError, match=r"there is no .*data_batch_1\.bin.*Download"):
        data.cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py").mkdir()
    with pytest.raises(data.MissingDataError, match="the version for Python, which is not read"):
        data.cifar10(tmp_path)
    write_cifar(tmp_path)
    damaged = tmp_path / "data_batch_3.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(data.DataFormatError, match=r"data_batch_3\.bin has 6145 bytes"):
        data.cifar10(tmp_path)
    damaged.write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(data.DataFormatError, match="the class 10; expected classes below 10"):
        data.cifar10(tmp_path)


def test_text_is_read_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(bytes(range(200)))
    for block, stride in ((1, 1), (7, 1), (7, 7), (199, 1), (50, 60)):
        text = data.text_bytes(path, block, stride)
        begins = [k for k in range(0, 200, stride) if k + block + 1 <= 200]  # plain Python's rule
        assert len(text) == len(begins)
        for index, begin in enumerate(begins):
            x, y = text[index]
            assert x.tolist() == list(range(begin, begin + block))
            assert y.tolist() == list(range(begin + 1, begin + block + 1))
        assert text[-1][0].tolist() == text[len(text) - 1][0].tolist()
        with pytest.raises(IndexError):
            text[len(text)]
    (batch,) = data.DataLoader(data.text_bytes(path, 7, 100), 2, device="numpy")
    assert [x.dtype for x in batch] == ["int64", "int64"] and batch[1].tolist()[1][0] == 101
    with pytest.raises(data.DataFormatError, match="has 200 bytes; expected more than block=200"):
        data.text_bytes(path, 200)
    with pytest.raises(data.MissingDataError, match="there is no file"):
        data.text_bytes(tmp_path / "none", 3)
    with pytest.raises(AttributeValueError, match="block=0"):
        data.text_bytes(path, 0)


def test_samplers_draw_no_more_than_they_give() -> None:
    many = data.RandomSampler(range(10), replacement=True, num_samples=int(1e10))
    assert len(many) == int(1e10) and len(data.BatchSampler(many, 100, False)) == int(1e8)
    assert all(0 <= index < 10 for index in islice(many, 5000))
    assert len(set(islice(many, 5000))) == 10
    loader = data.DataLoader(range(10), 4, sampler=many)
    assert next(iter(loader)).shape == (4,)
    assert next(iter(data.SequentialSampler(range(int(1e12))))) == 0
    subset = data.SubsetRandomSampler(range(5, 10))
    assert subset.indices == range(5, 10) and sorted(subset) == [5, 6, 7, 8, 9]


def test_what_is_drawn_in_between_changes_no_order() -> None:
    """Workers ask for numbers ahead; so an order must not depend on when it is asked for."""
    orders = []
    for drawn in (False, True):
        nc.manual_seed(0)
        found = []
        for index in data.RandomSampler(range(9), replacement=True, num_samples=3000):
            found.append(index)
            if drawn:
                nc.host_generator().random()
        orders.append(found)
    assert orders[0] == orders[1] and len(orders[0]) == 3000
