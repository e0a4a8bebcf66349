"""DataLoader in one process: what a pass yields, in which order, and what it refuses."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
from netcl_core import data
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError


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


@pytest.mark.parametrize(
    ("batch_size", "drop_last", "sizes"),
    [
        (4, False, [4, 4, 2]),
        (4, True, [4, 4]),
        (5, True, [5, 5]),
        (12, False, [10]),
        (12, True, []),
    ],
)
def test_batches_are_tensors_on_the_default_device(
    batch_size: int, drop_last: bool, sizes: list[int]
) -> None:
    for device in usable_devices():
        with nc.use_device(device):
            loader = data.DataLoader(numbers(), batch_size, drop_last=drop_last)
            assert len(loader) == len(sizes)
            batches = list(loader)
        assert [len(labels) for _, labels in batches] == sizes
        for rows, labels in batches:
            assert isinstance(rows, nc.Tensor) and rows.device is labels.device is device
            assert (rows.dtype, labels.dtype) == ("float32", "int64")
            np.testing.assert_array_equal(rows.to_host()[:, 0], 2 * labels.to_host())
    elsewhere = data.DataLoader(numbers(), 4, device="numpy")
    assert all(rows.device.backend == "numpy" for rows, _ in elsewhere)


def test_orders() -> None:
    assert order(data.DataLoader(numbers(), 3)) == list(range(10))
    loader = data.DataLoader(numbers(), 3, shuffle=True, seed=1)
    first, second = order(loader), order(loader)
    assert sorted(first) == sorted(second) == list(range(10)) and first != second
    generator = np.random.default_rng(1)
    again = data.DataLoader(numbers(), 3, shuffle=True, generator=generator)
    assert [order(again), order(again)] == [first, second]
    assert order(data.DataLoader(numbers(), 3, shuffle=True, seed=2)) != first


def test_without_a_seed_the_process_s_generator_orders() -> None:
    found = []
    for seed in (4, 4, 5):
        nc.manual_seed(seed)
        found.append(order(data.DataLoader(numbers(), 3, shuffle=True)))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("made", ["empty", "iterable", "subset", "concat"])
def test_empty_data_sets_have_no_batches(made: str) -> None:
    empty: Any = {
        "empty": numbers(0),
        "iterable": data.ChainDataset([]),
        "subset": data.Subset(numbers(), []),
        "concat": data.ConcatDataset([[], []]),
    }[made]
    for settings in (
        {},
        {"batch_size": 3},
        {"batch_size": None},
        {"batch_size": 2, "drop_last": True},
    ):
        loader = data.DataLoader(empty, device="numpy", **settings)
        assert len(loader) == 0 and list(loader) == list(loader) == []
    if made != "iterable":
        assert list(data.DataLoader(empty, shuffle=True, device="numpy")) == []


def test_samplers_and_batch_samplers() -> None:
    backwards = data.DataLoader(numbers(), 4, sampler=range(9, -1, -1), device="numpy")
    assert order(backwards) == list(range(9, -1, -1)) and len(backwards) == 3
    chosen = data.DataLoader(numbers(), batch_sampler=[[3, 1], [], [7]], device="numpy")
    assert [labels.tolist() for _, labels in chosen] == [[3, 1], [], [7]] and len(chosen) == 3
    single = data.DataLoader(numbers(3), batch_size=None, device="numpy")
    assert [(row.shape, int(label)) for row, label in single] == [((2,), k) for k in range(3)]


class Named(NamedTuple):
    x: Any
    tags: Any


@pytest.mark.parametrize("device", usable_devices()[:1], ids=str)
def test_collating(device: nc.Device) -> None:
    """Each kind of sample, alone and nested; what it gives is what PyTorch gives."""
    torch_data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    rows = [np.arange(3, dtype=np.float32) + k for k in range(2)]
    samples = [
        {"n": k, "b": bool(k), "t": f"{k}", "nest": (row, [row[0], Named(row, b"x")]), "e": ()}
        for k, row in enumerate(rows)
    ]
    with nc.use_device(device):
        ours = data.default_collate(samples)
    theirs = torch_data.default_collate(samples)

    def compare(one: Any, other: Any) -> None:
        if isinstance(other, torch.Tensor):
            assert one.dtype == str(other.dtype).removeprefix("torch.") and one.device is device
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            return
        assert type(one) is type(other)
        pairs = zip(one, other, strict=True) if not isinstance(one, (str, bytes)) else ()
        for part, right in (
            pairs if not isinstance(one, dict) else zip(one.values(), other.values(), strict=True)
        ):
            compare(part, right)

    compare(ours, theirs)
    with nc.use_device(device):
        assert data.default_collate([1.5, 2.5]).dtype == "float32"  # PyTorch's is float64
        assert data.default_collate([nc.tensor([1.0]), nc.tensor([2.0])]).tolist() == [[1.0], [2.0]]
        assert type(data.default_collate([OrderedDict(a=1)])) is OrderedDict
        for given, text in (
            ([None, None], "a sample with a NoneType"),
            ([(1, 2), (1,)], "samples of 1 and 2 parts"),
            ([np.zeros(2), np.zeros(3)], r"samples of shapes \(2,\), \(3,\)"),
        ):
            with pytest.raises(ArgumentError, match=text):
                data.default_collate(given)


class Capsule:
    """An array of another library, which only hands over its memory."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Boxed:
    """An object that NumPy can read."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.full(2, 3, np.int16)


def test_arrays_of_other_libraries_are_stacked() -> None:
    """PyTorch's tensors among them, so that torchvision's data sets serve."""
    torch = pytest.importorskip("torch")
    pictures = [(torch.full((1, 2), k / 2), k) for k in range(3)]
    x, y = next(iter(data.DataLoader(pictures, 3)))
    assert isinstance(x, nc.Tensor) and (x.dtype, y.dtype) == ("float32", "int64")
    assert x.tolist() == [[[0, 0]], [[0.5, 0.5]], [[1, 1]]] and y.tolist() == [0, 1, 2]
    trained = [torch.ones(2, requires_grad=True), np.zeros(2, np.float32)]
    assert data.default_collate(trained).tolist() == [[1, 1], [0, 0]]
    capsules = [{"a": Capsule(np.arange(2.0, dtype=np.float32))}] * 2
    assert data.default_collate(capsules)["a"].tolist() == [[0, 1], [0, 1]]
    assert data.default_collate([Boxed(), Boxed()]).tolist() == [[3, 3], [3, 3]]
    assert data.default_collate([torch.tensor(3), torch.tensor(4)]).dtype == "int64"
    for settings in ({"batch_size": None}, {"batch_size": 3, "collate_fn": lambda rows: rows[2]}):
        x, y = list(data.DataLoader(pictures, **settings))[-1]
        assert isinstance(x, nc.Tensor) and x.tolist() == [[1, 1]] and y == 2
    with pytest.raises(ArgumentError, match=r"default_collate: a Tensor .* no array .*copy it"):
        data.default_collate([torch.ones(2, device="meta")])


def test_mistakes_are_named() -> None:
    def refused(error: type[Exception], text: str, *args: Any, **settings: Any) -> None:
        with pytest.raises(error, match=text):
            data.DataLoader(numbers(), *args, **settings)

    refused(AttributeValueError, "batch_size=0", 0)
    refused(AttributeValueError, "num_workers=-1", num_workers=-1)
    refused(AttributeValueError, "num_workers=-1", workers=-1)
    refused(ArgumentError, "num_workers and workers", num_workers=1, workers=1)
    refused(AttributeValueError, "prefetch_factor=0", num_workers=1, prefetch_factor=0)
    refused(AttributeValueError, "timeout=-1", timeout=-1)
    refused(AttributeValueError, "multiprocessing_context='fork'", multiprocessing_context="fork")
    refused(ArgumentError, "without workers", prefetch_factor=2)
    refused(ArgumentError, "without workers", persistent_workers=True)
    refused(ArgumentError, "a sampler and shuffle=True", sampler=[1], shuffle=True)
    refused(ArgumentError, "only the batch_sampler", 2, batch_sampler=[[1]])
    refused(ArgumentError, "each sample is a batch", None, drop_last=True)
    refused(ArgumentError, "a generator and a seed", generator=np.random.default_rng(0), seed=1)
    refused(ArgumentError, "a int as generator", generator=3)
    for settings in ({"shuffle": True}, {"sampler": [1]}):
        with pytest.raises(ArgumentError, match="an order for an IterableDataset"):
            data.DataLoader(data.ChainDataset([]), **settings)
    with pytest.raises(TypeError):
        len(data.DataLoader(Endless()))


class Endless(data.IterableDataset[int]):
    def __iter__(self) -> Any:
        yield from range(3)
