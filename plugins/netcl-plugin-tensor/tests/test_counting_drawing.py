"""unique, bincount and multinomial: against PyTorch, by their frequencies, and on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError

torch = pytest.importorskip("torch")
DEVICES = [device for device in nc.devices() if not device.simulator]
RANDOM = np.random.default_rng(5)


def same(found: Any, wanted: Any) -> None:
    assert (found.shape, found.dtype) == (tuple(wanted.shape), str(wanted.dtype)[6:])
    np.testing.assert_array_equal(found.to_host(), wanted.numpy())


@pytest.mark.parametrize("dim", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_unique(dtype: str, dim: int | None) -> None:
    x = RANDOM.integers(0, 4, (6, 4)).astype(dtype)[[0, 1, 2, 0, 1, 3]]
    options = {"return_inverse": True, "return_counts": True, "dim": dim}
    found = ag.unique(nc.tensor(x), **options)
    for mine, theirs in zip(found, torch.unique(torch.tensor(x), **options), strict=True):
        same(mine, theirs)
    same(nc.tensor(x).unique(dim=dim), torch.unique(torch.tensor(x), dim=dim))


def test_each_nan_is_unique() -> None:
    found = ag.unique(nc.tensor([1.0, np.nan, 1.0, np.nan]), return_counts=True)
    assert [part.shape for part in found] == [(3,), (3,)]


@pytest.mark.parametrize("shape", [(4, 3, 2), (9001,), (0, 3)])
def test_gpus_find_places_themselves(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masks that pick and put, and their gradients; nonzero; unique: the host reads a number."""
    device = nc.default_device()
    if device.backend == "numpy":
        pytest.skip("there is no OpenCL device")
    monkeypatch.setattr(device, "kind", "gpu")
    x = RANDOM.integers(-2, 3, shape).astype("float32")
    mask, rows = x > 0, x.sum(tuple(range(1, x.ndim))) > 0
    ours, theirs = nc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    for picks in (mask, rows):
        same(ours[nc.tensor(picks)].detach(), theirs[torch.tensor(picks)].detach())
    (ours[nc.tensor(mask)] ** 2).sum().backward()
    (theirs[torch.tensor(mask)] ** 2).sum().backward()
    same(ours.grad, theirs.grad)
    changed, copied = nc.tensor(x), torch.tensor(x)
    for value in (7.0, RANDOM.normal(size=mask.sum()).astype("float32")):
        changed[nc.tensor(mask)] = nc.tensor(value)
        copied[torch.tensor(mask)] = torch.tensor(value)
        same(changed, copied)
    same(ag.nonzero(nc.tensor(x)), torch.tensor(x).nonzero())
    options = {"return_inverse": True, "return_counts": True}
    whole = x.astype("int64")
    for given in (x, whole, whole * 2**20, whole * 2**60, (whole * 2**29).astype("int32")):
        for mine, other in zip(
            ag.unique(nc.tensor(given), **options),
            torch.unique(torch.tensor(given), **options),
            strict=True,
        ):
            same(mine, other)


@pytest.mark.parametrize("weights", [None, "float32", "float64", "int64"])
@pytest.mark.parametrize("least", [0, 12])
def test_bincount(weights: str | None, least: int) -> None:
    x, w = RANDOM.integers(0, 7, 100), RANDOM.integers(0, 5, 100)
    given = None if weights is None else nc.tensor(w.astype(weights))
    theirs = None if weights is None else torch.tensor(w.astype(weights))
    same(ag.bincount(nc.tensor(x), given, least), torch.bincount(torch.tensor(x), theirs, least))


def test_they_end_a_compiled_region_and_are_right() -> None:
    function = ag.jit_compile(lambda x: (ag.unique(x + 1) * 2, ag.one_hot(x, 3), ag.bincount(x)))
    with pytest.warns(nc.errors.FusionSkipped):
        found = function(nc.tensor([1, 2, 1]))
    assert [part.tolist() for part in found] == [
        [4, 6],
        [[0, 1, 0], [0, 0, 1], [0, 1, 0]],
        [0, 2, 1],
    ]


WEIGHTS = np.array([[1.0, 0.0, 3.0, 6.0], [0.0, 2.0, 2.0, 0.0]], "float32")


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_multinomial(device: nc.Device) -> None:
    """The frequencies are those of the weights, and the places those of every device."""
    with nc.use_device(device):
        nc.manual_seed(7)
        weights = nc.tensor(WEIGHTS)
        many = ag.multinomial(weights, 20_000, replacement=True).to_host()
        one_each = ag.multinomial(nc.tensor(np.tile(WEIGHTS[:1], (20_000, 1))), 2).to_host()
        half = weights.half().multinomial(2).tolist()
    for row, wanted in zip(many, WEIGHTS / WEIGHTS.sum(1, keepdims=True), strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=4) / 20_000, wanted, atol=0.015)
    assert (many[:, :12].tolist(), one_each[:4].tolist(), half) == FIRST
    assert (one_each[:, 0] != one_each[:, 1]).all()
    np.testing.assert_allclose(np.bincount(one_each[:, 0]) / 20_000, [0.1, 0, 0.3, 0.6], atol=0.015)
    second = np.bincount(one_each[:, 1]) / 20_000  # of pairs the second, by conditional chances
    third = 0.1 * 3 / 9 + 0.6 * 3 / 4
    np.testing.assert_allclose(second[2], third, atol=0.015)


#: What a seed gives, wherever it is drawn.
FIRST = (
    [[3, 3, 2, 0, 3, 3, 2, 3, 0, 0, 3, 3], [2, 2, 2, 2, 2, 1, 2, 2, 2, 1, 1, 1]],
    [[3, 2], [3, 2], [3, 2], [2, 3]],
    [[3, 2], [1, 2]],
)


@pytest.mark.parametrize(
    ("weights", "count", "text"),
    [
        ([1.0, 0.0], 2, "a row with 1 weights above 0; expected at least 2. Draw fewer"),
        ([[1.0, 1.0], [0.0, 0.0]], 1, "a row with 0 weights above 0"),
        ([1.0, -1.0], 1, "weights below 0, infinite or NaN"),
        ([1.0, np.inf], 1, "weights below 0, infinite or NaN"),
        ([1.0, 1.0], 0, "num_samples=0; expected an int"),
    ],
)
def test_multinomial_refuses(weights: Any, count: int, text: str) -> None:
    with pytest.raises(AttributeValueError, match=text):
        ag.multinomial(nc.tensor(weights), count)


def test_a_weight_of_zero_is_never_drawn_where_sums_are_rounded() -> None:
    weights = np.full(1000, 1e-3, "float32")
    weights[-3:] = 0
    drawn = ag.multinomial(nc.tensor(weights), 100_000, replacement=True).to_host()
    assert drawn.max() < 997
