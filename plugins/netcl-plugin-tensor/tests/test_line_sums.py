"""Sums at the places that an index names: long ones keep their digits, all are those of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_tensor import line_sums, lines_gpu
from netcl_plugin_tensor.selecting import ADD_AT_INDEX

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
COUNT = 1 << 20


@pytest.fixture
def renewed() -> Iterator[None]:
    """Plans made for this test alone."""
    registry.renew()
    yield
    registry.renew()


def sums_of(kind: str, places: Any, value: float, rows: int, columns: int, dtype: str) -> Any:
    """What comes to each of the rows when `value` does to the places, by one op."""
    shape = (len(places), columns)
    if kind == "scatter_add":
        index = np.broadcast_to(places[:, None], shape).copy()
        given = nc.Tensor.full(shape, value, dtype)
        return ag.scatter_add(nc.Tensor.zeros((rows, columns), dtype), 0, nc.tensor(index), given)
    x = nc.Tensor.zeros((rows, columns), dtype, requires_grad=True)
    index = nc.tensor(places)
    picked = {
        "index_select": lambda: ag.index_select(x, 0, index),
        "embedding": lambda: ag.embedding(index, x),
        "index": lambda: x[index],
        "gather": lambda: ag.gather(x, 0, ag.expand(ag.unsqueeze(index, 1), shape)),
    }[kind]()
    ag.backward(picked, nc.Tensor.full(shape, value, dtype))
    return x.grad


def check_long(kind: str, count: int, columns: int, dtype: str, rtol: float | None = None) -> None:
    value = float(DTYPES[dtype](0.03))
    for equal in (1, 2):
        places = np.arange(count) % equal
        found = sums_of(kind, places, value, 3, columns, dtype).astype("float64").to_host()
        wanted = np.bincount(places, minlength=3)[:, None] * value
        rtol = rtol or {"float32": 1e-5, "float16": 5e-4, "bfloat16": 4e-3}[dtype]
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=rtol)


@pytest.mark.parametrize("kind", ["scatter_add", "index_select", "embedding", "index", "gather"])
@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_million_equal_terms(kind: str, device: nc.Device) -> None:
    """One by one 1 % was lost in float32."""
    with nc.use_device(device):
        check_long(kind, COUNT, 1, "float32")
        check_long(kind, COUNT // 16, 32, "float32")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_million_terms_of_16_bits(device: nc.Device, dtype: str) -> None:
    with nc.use_device(device):
        for kind in ("scatter_add", "embedding"):
            check_long(kind, COUNT, 1, dtype)
            check_long(kind, COUNT // 16, 16, dtype)


@pytest.mark.parametrize("compared", [0, 1 << 40], ids=["sorted", "compared"])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_long_sums_on_gpus(
    device: nc.Device, compared: int, monkeypatch: pytest.MonkeyPatch, renewed: None
) -> None:
    """1024 parts of 1024 terms: 2048 roundings of 6e-8 at most."""
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(lines_gpu, "_COMPARED", compared)
    with nc.use_device(device):
        check_long("embedding", 1 << (12 if compared else 18), 2, "float32", 1e-4)
        if not compared:
            check_long("scatter_add", COUNT, 1, "float32", 1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int32"])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_any_sums(
    device: nc.Device, dtype: str, monkeypatch: pytest.MonkeyPatch, renewed: None
) -> None:
    """Whole numbers, so that all sums are exact; some places take more terms than floats may."""
    monkeypatch.setattr(line_sums, "MOST", 5)
    random = np.random.default_rng(3)
    kind = DTYPES.get(dtype, np.dtype(dtype))
    with nc.use_device(device):
        for shape in ((7,), (9, 1), (4, 16), (5, 48), (3, 6, 8), (2, 5, 3), (40, 33)):
            for dim in range(len(shape)):
                for count in (3, 6, 41):
                    picked = (*shape[:dim], count, *shape[dim + 1 :])
                    given = random.integers(-2, 3, picked).astype(kind)
                    for size in ((count,), picked):
                        index = random.integers(0, shape[dim], size)
                        index[index == 1] = 0
                        compare(given, index, dim, shape)


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_sums_by_atomics(device: nc.Device, monkeypatch: pytest.MonkeyPatch, renewed: None) -> None:
    """Each place has a unit of its own: no term of another place makes it coarse."""
    monkeypatch.setattr(device, "kind", "gpu")
    random = np.random.default_rng(7)
    index = random.integers(0, 12, 3000)
    terms = (random.standard_normal(3000) * 10.0 ** (6.0 * index - 36)).astype(np.float32)
    terms[index == 11] = 0
    special = {0: [np.inf], 1: [-np.inf, 1], 2: [np.inf, -np.inf], 3: [np.nan]}
    for place, values in special.items():
        terms[np.flatnonzero(index == place)[: len(values)]] = values
    with nc.use_device(device):
        sums = ADD_AT_INDEX(nc.tensor(terms), nc.tensor(index), 0, "found", False, False, (13,))
        again = ADD_AT_INDEX(
            nc.tensor(terms[::-1].copy()), nc.tensor(index[::-1].copy()), 0, "found", False, False,
            (13,))  # fmt: skip
    wanted, sizes = np.zeros(13), np.zeros(13)
    with np.errstate(invalid="ignore"):
        np.add.at(wanted, index, terms.astype(np.float64))
    np.add.at(sizes, index, np.abs(terms.astype(np.float64)))
    np.testing.assert_array_equal(sums.to_host(), again.to_host())
    np.testing.assert_array_equal(sums.to_host()[:4], wanted[:4])
    assert (np.abs(sums.to_host()[4:] - wanted[4:]) <= 1e-7 * sizes[4:] + 1e-45).all()


def compare(given: Any, index: Any, dim: int, shape: tuple[int, ...]) -> None:
    """What the op adds up against NumPy, with the same places named from behind for slices."""
    whole = index.ndim != len(shape) or len(shape) == 1
    at = list(np.indices(given.shape))
    at[dim] = np.broadcast_to(
        index.reshape([-1 if i == dim else 1 for i in range(len(shape))]) if whole else index,
        given.shape,
    )
    wanted = np.zeros(shape)
    np.add.at(wanted, tuple(at), given.astype(np.float64))
    for back in (False, True) if whole else (False,):
        places = np.where(index % 2, index - shape[dim], index) if back else index
        found = ADD_AT_INDEX(
            nc.tensor(given), nc.tensor(places), dim, "index_select", whole, back, shape
        )
        np.testing.assert_array_equal(found.to_host().astype(np.float64), wanted)
