"""What moves data on GPUs: launches of many items, of which neighbours touch neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_tensor import lines_gpu, strided_gpu
from netcl_plugin_tensor.views import Geometry, whole

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry
from netcl_core.runtime.opencl_stream import OpenCLStream

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
          "float64": np.float64, "bool": np.bool_, "int64": np.int64}  # fmt: skip
MANY = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(params=OPENCL, ids=str)
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[nc.Device]:
    """An OpenCL device that is taken for a GPU, by plans that are made for it."""
    monkeypatch.setattr(request.param, "kind", "gpu")
    registry.renew()
    with nc.use_device(request.param) as found:
        yield found
    registry.renew()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The entry and the number of items of every launch."""
    found: list[tuple[str, int]] = []
    real = OpenCLStream.launch

    def launch(self: Any, launch: Any, *args: Any) -> None:
        found.append((launch.kernel.entry, math.prod(launch.global_size)))
        real(self, launch, *args)

    monkeypatch.setattr(OpenCLStream, "launch", launch)
    return found


def tensor(*shape: int) -> Any:
    """A leaf with different elements."""
    x = np.arange(math.prod(shape), dtype="float32").reshape(shape)
    return nc.tensor(x, requires_grad=True)


def places(size: int, *shape: int) -> Any:
    """Indices, some of them equal."""
    return nc.tensor(np.random.default_rng(3).integers(0, size, shape))


#: What moves as many elements as its result has, or its gradient.
MOVES: dict[str, Callable[[], Any]] = {
    "part of a whole": lambda: tensor(3, 16, 256, 64)[1],
    "columns": lambda: tensor(256, 1024)[:, 1:],
    "every second": lambda: tensor(256, 1024)[:, ::2],
    "heads in front": lambda: ag.permute(tensor(8, 64, 8, 64), (0, 2, 1, 3)),
    "three parts of heads": lambda: ag.permute(tensor(8, 64, 3, 4, 64), (2, 0, 3, 1, 4)),
    "transposed": lambda: ag.transpose(tensor(500, 600)),
    "one row": lambda: ag.permute(tensor(1, 1 << 18), (1, 0)),
    "cat": lambda: ag.cat([tensor(1 << 18), tensor(1 << 18)]),
    "stack": lambda: ag.stack([tensor(1 << 18), tensor(1 << 18)], 1),
    "flip": lambda: ag.flip(tensor(256, 1024), 1),
    "pad": lambda: ag.pad(tensor(1 << 18), (1, 3)),
    "reflected": lambda: ag.pad(tensor(512, 512), (1, 3), "reflect"),
    "embedding": lambda: ag.embedding(places(1024, 1024), tensor(1024, 256)),
    "many indices": lambda: ag.index_select(tensor(1 << 18), 0, places(1 << 18, 1 << 18)),
    "gather of one line": lambda: ag.gather(tensor(1 << 18), 0, places(1 << 18, 1 << 18)),
    "put": lambda: ag.index_put(tensor(512, 512), np.indices((512, 512))[1] % 2 > 0, 0.0),
    "dropout": lambda: ag.dropout(tensor(512, 512), 0.5, True),
    "random": lambda: ag.randn(512, 512),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_items_enough(device: nc.Device, launched: list[Any], name: str) -> None:
    result = MOVES[name]()
    if result.requires_grad:
        ag.backward(result, np.ones(result.shape, "float32"))
    few = ("reduce", "radix_starts", "join_runs")  # which add up what each group has found
    ways = [(entry, items) for entry, items in launched if not entry.startswith(few)]
    assert ways
    for entry, items in ways:
        assert items >= result.size / (32 if entry == "sort_blocks" else 16), launched


def numbers(kernel: nc.Kernel) -> list[int]:
    """The constants of a kernel without its buffers."""
    return [value for kind, value in kernel.args if kind not in ("in", "out")]


@pytest.mark.parametrize(
    ("dtype", "source", "width"),
    [("float32", Geometry((16, 8, 256, 64), (393216, 64, 1536, 1), 0), 4),
     ("float16", Geometry((16, 8, 256, 64), (393216, 64, 1536, 1), 64), 8),
     ("bool", Geometry((16, 8, 256, 64), (393216, 64, 1536, 1), 64), 16),
     ("float64", Geometry((16, 8, 256, 64), (393216, 64, 1536, 1), 64), 2),
     ("float32", Geometry((16, 64), (64, 1), 2), 2), ("float32", Geometry((16, 64), (64, 1), 1), 4),
     ("float32", Geometry((16, 63), (64, 1), 0), 1), ("float32", Geometry((16, 64), (1, 0), 0), 4),
     ("float32", Geometry((16, 64), (128, 2), 0), 1),
     ("float32", Geometry((16, 64), (64, -1), 63), 1)],
    ids=str,
)  # fmt: skip
def test_neighbours_take_neighbours(dtype: str, source: Geometry, width: int) -> None:
    """In as wide vectors as all places allow; the last dimension is that of neighbouring items."""
    target = whole(source.shape)
    device = nc.get_device("numpy")
    kernel = strided_gpu.copy(
        dtype,
        source,
        target,
        (("in", 0), ("out", 0)),
        {**strided_gpu.settings(device, source, target), "tile": 0},
    )
    *_, step_from, step_to = numbers(kernel)
    assert (kernel.context["width"], step_to) == (width, width)
    assert step_from == source.strides[-1] * width
    assert {kind for kind, _ in kernel.args[2:]} == {"int"}


def test_neighbours_of_both_sides_meet_in_a_tile() -> None:
    source, target = Geometry((4, 40, 50), (2000, 1, 40), 0), whole((4, 40, 50))
    device = OPENCL[0] if OPENCL else nc.get_device("numpy")
    chosen = strided_gpu.settings(device, source, target)
    assert chosen["tile"] == 32
    kernel = strided_gpu.copy("float32", source, target, (("in", 0), ("out", 0)), chosen)
    assert kernel.entry == "copy_tiles"
    assert kernel.global_size == (4 * 2 * 2 * 256,)


def test_long_views_are_counted_in_64_bits() -> None:
    source = Geometry((1 << 16, 1 << 16), (1 << 16, 1), 0)
    chosen = {"bytes": 16, "tile": 0, "group": 128}
    kernel = strided_gpu.copy("float32", source, whole(source.shape), (), chosen)
    assert kernel.context["index"] == "long"


@MANY
@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple),
    data=st.data(),
    dtype=st.sampled_from(list(DTYPES)),
)
def test_any_copy(device: nc.Device, shape: Any, data: Any, dtype: str) -> None:
    x = np.random.default_rng(5).integers(0, 2, shape).astype(DTYPES[dtype])
    dims = data.draw(st.permutations(range(len(shape))))
    dim = data.draw(st.integers(0, len(shape) - 1))
    moved = x.transpose(dims)
    index = tuple(
        slice(data.draw(st.integers(-size, size)), None, data.draw(st.sampled_from([-2, -1, 1, 3])))
        for size in moved.shape
    )
    given = ag.permute(nc.tensor(x), dims)
    np.testing.assert_array_equal(given.to_host(), moved)
    np.testing.assert_array_equal(given[index].to_host(), moved[index])
    both = ag.cat([given, given], dim)
    np.testing.assert_array_equal(both.to_host(), np.concatenate([moved, moved], dim))
    np.testing.assert_array_equal(ag.roll(given, 3, dim).to_host(), np.roll(moved, 3, dim))
    wide = np.pad(moved, [(0, 0)] * (len(shape) - 1) + [(1, 2)], constant_values=1)
    np.testing.assert_array_equal(ag.pad(given, (1, 2), value=1).to_host(), wide)


@pytest.mark.parametrize("compared", [0, lines_gpu._COMPARED], ids=["sorted", "compared"])
@MANY
@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
    data=st.data(),
    dtype=st.sampled_from(["float32", "float16", "bfloat16", "float64"]),
)
def test_any_lines(
    device: nc.Device,
    compared: int,
    shape: Any,
    data: Any,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Picked by index, added up where it comes twice, put where the last stays."""
    monkeypatch.setattr(lines_gpu, "_COMPARED", compared)
    random = np.random.default_rng(7)
    dim, count = data.draw(st.integers(0, len(shape) - 1)), data.draw(st.integers(1, 1300))
    picked = (*shape[:dim], count, *shape[dim + 1 :])
    while math.prod(picked) > 1 << 16:
        count //= 2
        picked = (*shape[:dim], count, *shape[dim + 1 :])
    x = random.integers(-3, 4, shape).astype(DTYPES[dtype])
    slope = random.integers(-1, 2, picked).astype(DTYPES[dtype])
    kind = data.draw(st.sampled_from(["uint8", "int32", "int64"]))
    for whole_slices in (True, False):
        size = (count,) if whole_slices else picked
        index = random.integers(0, shape[dim], size).astype(kind)
        leaf = nc.tensor(x, requires_grad=True)
        take = ag.index_select if whole_slices else ag.gather
        found = take(leaf, dim, nc.tensor(index))
        spread = index.reshape([-1 if i == dim else 1 for i in range(x.ndim)])
        where = np.broadcast_to(spread if whole_slices else index, picked).astype("int64")
        np.testing.assert_array_equal(found.to_host(), np.take_along_axis(x, where, dim)
                                      if not whole_slices else np.take(x, index, dim))  # fmt: skip
        ag.backward(found, slope)
        wanted = np.zeros(shape)
        at = list(np.indices(picked))
        at[dim] = where
        np.add.at(wanted, tuple(at), slope.astype("float64"))
        np.testing.assert_array_equal(leaf.grad.to_host().astype("float64"), wanted)
    put = ag.scatter(nc.tensor(x), dim, nc.tensor(index), nc.tensor(slope))
    kept = x.copy()
    kept[tuple(at)] = slope
    np.testing.assert_array_equal(put.to_host(), kept)


def test_indices_from_behind_count_as_equal(device: nc.Device) -> None:
    """Compared and sorted alike: -1 and the last are one place."""
    for count in (300, 1 << 15):
        x = tensor(5, 2)
        picked = x[nc.tensor(np.tile([4, -1, 0], count))]
        ag.backward(picked, np.ones(picked.shape, "float32"))
        wanted = np.zeros((5, 2))
        wanted[[4, 0]] = [[2 * count], [count]]
        np.testing.assert_array_equal(x.grad.to_host(), wanted)


@pytest.mark.parametrize("shape", [(9000,), (2, 5000), (4097, 3)], ids=str)
def test_the_best_of_few_lines_is_found_by_many(
    device: nc.Device, launched: list[Any], shape: tuple[int, ...]
) -> None:
    """Of equal ones the first, and NaN before all others."""
    dim = int(np.argmax(shape))
    x = np.random.default_rng(5).integers(0, 50, shape).astype("float32")
    for spoilt in (False, True):
        if spoilt:
            x[tuple([-7 if i == dim else 0 for i in range(x.ndim)])] = np.nan
        given = nc.tensor(x)
        np.testing.assert_array_equal(ag.argmax(given, dim).to_host(), x.argmax(dim))
        np.testing.assert_array_equal(ag.argmin(given, dim).to_host(), x.argmin(dim))
        values, places = ag.max(given, dim)
        np.testing.assert_array_equal(values.to_host(), x.max(dim))
        np.testing.assert_array_equal(places.to_host(), x.argmax(dim))
        first = ag.topk(given, 3, dim).values.to_host()
        ordered = np.flip(np.sort(x, dim), dim)
        np.testing.assert_array_equal(first, np.take(ordered, range(3), dim))
    assert ag.argmax(given).item() == x.argmax()
    assert not {entry for entry, _ in launched} & {"best", "argmax", "argmin"}
