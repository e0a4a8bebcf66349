"""sort, argsort and topk of many, against PyTorch: sizes around the blocks, ties and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as some

import netcl_core as nc
import netcl_core.autograd as ag

torch = pytest.importorskip("torch")
DEVICES = [device for device in nc.devices() if not device.simulator]
DTYPES = ("float32", "float16", "int64", "int32", "uint8", "bool")


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """Small whole numbers, many of them equal; of floats some NaN and some infinite."""
    random = np.random.default_rng(seed)
    found = random.integers(0, 30, shape).astype(float)
    if dtype.startswith("float"):
        found[random.random(shape) < 0.1] = np.nan
        found[random.random(shape) < 0.1] = -np.inf
    return found.astype(dtype)


@given(
    device=some.sampled_from(DEVICES),
    size=some.sampled_from([0, 1, 7, 31, 32, 33, 64, 65, 500, 5000]),
    around=some.sampled_from([((), ()), ((3,), ()), ((2,), (3,)), ((), (4,))]),
    dtype=some.sampled_from(DTYPES),
    descending=some.booleans(),
    seed=some.integers(0, 99),
)
@settings(max_examples=examples(40), deadline=None)
def test_sort_is_stable_with_nan_last(
    device: nc.Device, size: int, around: Any, dtype: str, descending: bool, seed: int
) -> None:
    (before, after) = around
    x, dim = numbers((*before, size, *after), dtype, seed), len(before)
    with nc.use_device(device):
        found = ag.sort(nc.tensor(x), dim, descending)
        places = ag.argsort(nc.tensor(x), dim, descending=descending)
    wanted = torch.sort(torch.tensor(x), dim=dim, descending=descending, stable=True)
    assert (found.values.dtype, found.indices.dtype) == (dtype, "int64")
    np.testing.assert_array_equal(found.values, wanted.values.numpy())
    np.testing.assert_array_equal(found.indices, wanted.indices.numpy())
    np.testing.assert_array_equal(places, wanted.indices.numpy())


@pytest.mark.parametrize("count", [0, 1, 32, 33, 150, 300])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_few_and_of_many_agree(count: int, largest: bool) -> None:
    x = numbers((4, 300), "float32", 1)
    wanted = torch.sort(torch.tensor(x), dim=-1, descending=largest, stable=True)
    for device in DEVICES:
        found = nc.tensor(x, device).topk(count, largest=largest)
        np.testing.assert_array_equal(found.values, wanted.values[:, :count].numpy())
        np.testing.assert_array_equal(found.indices, wanted.indices[:, :count].numpy())


def test_the_form_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    device = nc.default_device()
    if device.backend == "numpy":
        pytest.skip("there is no OpenCL device")
    monkeypatch.setattr(device, "kind", "gpu")
    x = numbers((3, 777), "float32", 2)
    wanted = torch.sort(torch.tensor(x), dim=-1, stable=True).indices.numpy()
    np.testing.assert_array_equal(ag.argsort(nc.tensor(x)), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_long_lines_by_digits(
    dtype: str, descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the NumPy path to the bit: NaN, both zeros, blocks that are not full, an inner axis."""
    device = nc.default_device()
    if device.backend == "numpy":
        pytest.skip("there is no OpenCL device")
    x = np.random.default_rng(3).normal(size=(2, 4100, 2)) * 50
    if dtype.startswith("float"):
        x.reshape(-1)[::37], x.reshape(-1)[1::41], x.reshape(-1)[2::11] = np.nan, -np.inf, -0.0
        x.reshape(-1)[4::11] = 0.0
    given = x.astype(dtype)
    wanted = ag.sort(nc.tensor(given, "numpy"), 1, descending)
    monkeypatch.setattr(device, "kind", "gpu")
    found = ag.sort(nc.tensor(given), 1, descending)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    assert found.values.to_host().tobytes() == wanted.values.to_host().tobytes()


def test_the_gradient_goes_back_where_it_came_from() -> None:
    x = np.random.default_rng(0).normal(size=(2, 70)).astype("float32")
    weights = np.arange(140, dtype="float32").reshape(2, 70)
    ours, theirs = ag.tensor(x, True), torch.tensor(x, requires_grad=True)
    function = ag.jit_compile(lambda t: ag.sum(ag.sort(t * 2.0, 0).values * nc.tensor(weights)))
    function(ours).backward()
    ((theirs * 2).sort(0).values * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(ours.grad, theirs.grad.numpy())


def test_names_and_methods() -> None:
    x = nc.tensor([3.0, 1.0, 2.0])
    assert ag.sort(input=x, dim=0, descending=True)._fields == ("values", "indices")
    assert x.argsort().tolist() == [1, 2, 0]
    assert x.sort(axis=0, stable=True).values.tolist() == [1, 2, 3]
    assert ag.sort(nc.tensor(5.0)).indices.item() == 0
