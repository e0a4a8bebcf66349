"""Long lines on GPUs, few of them: scans, ranks and softmax along any axis, by many items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import FLOATS, TOLERANCE, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry
from netcl_core.runtime.opencl_stream import OpenCLStream

torch = pytest.importorskip("torch")

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]


@pytest.fixture(params=[64, 256])
def group(request: pytest.FixtureRequest) -> int:
    """How large work-groups may be."""
    size: int = request.param
    return size


@pytest.fixture(params=OPENCL, ids=str)
def device(
    request: pytest.FixtureRequest, group: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[nc.Device]:
    """An OpenCL device that is taken for a GPU, by plans that are made for it."""
    monkeypatch.setattr(request.param, "kind", "gpu")
    monkeypatch.setattr(request.param, "max_work_group_size", group)
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


#: One block and several, lines apart and together, more of them than a group has neighbours.
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((64,), 0), ((70_001,), 0), ((3, 70), 1), ((5, 4099), 1), ((300, 0), 0), ((4100, 3), 0),
    ((2, 130, 37), 1), ((2, 65, 3, 3), 1), ((1, 1000, 130), 1), ((3, 20, 5), 1),
]  # fmt: skip


def check(ours: Any, theirs: Any, shape: tuple[int, ...], dtype: str, scale: float) -> None:
    """Values and gradients against PyTorch in float64."""
    random = np.random.default_rng(sum(shape))
    kind = nc.DTYPES[dtype].numpy
    x, upstream = (random.standard_normal(shape).astype(kind) for _ in range(2))
    tensor = nc.tensor(x, requires_grad=True)
    result = ours(tensor)
    ag.backward(result, upstream)
    wanted = torch.tensor(x.astype("float64"), requires_grad=True)
    expected = theirs(wanted)
    expected.backward(torch.tensor(upstream.astype("float64")))
    assert result.dtype == dtype
    for found, right in ((result, expected.detach()), (tensor.grad, wanted.grad)):
        largest = max(1.0, float(right.abs().max())) if right.numel() else 1.0
        np.testing.assert_allclose(
            found.to_host().astype("float64"),
            right,
            rtol=0,
            atol=scale * TOLERANCE[dtype] * largest,
        )


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_running_sums(device: nc.Device, shape: tuple[int, ...], dim: int) -> None:
    for dtype in FLOATS:
        if device in usable_devices(dtype):
            check(lambda x: ag.cumsum(x, dim), lambda x: x.cumsum(dim), shape, dtype, 1)
    whole = np.random.default_rng(2).integers(-9, 9, shape)
    for dtype in ("bool", "int32"):
        given = whole.astype(dtype)
        for back in (False, True):
            ordered = np.flip(given, dim) if back else given
            sums = np.cumsum(ordered, dim, dtype=np.int64)
            found = ag.cumsum(nc.tensor(given), dim, back).to_host()
            np.testing.assert_array_equal(found, np.flip(sums, dim) if back else sums)


JOINS = ["cumprod", "logcumsumexp", "cummax", "cummin"]


def joined(op: str, dim: int) -> Any:
    def call(x: Any) -> Any:
        found = getattr(x * 0.001 + 1 if op == "cumprod" else x, op)(dim)
        return found if op in ("cumprod", "logcumsumexp") else found.values

    return call


@pytest.mark.parametrize(
    ("shape", "dim", "op"), [(*at, JOINS[i % 4]) for i, at in enumerate(SHAPES * 2)], ids=str
)
def test_other_running_results(
    device: nc.Device, op: str, shape: tuple[int, ...], dim: int
) -> None:
    check(joined(op, dim), joined(op, dim), shape, "float32", 20)


@pytest.mark.parametrize("op", ["cummax", "cummin"])
def test_running_extremes_have_the_last_places(device: nc.Device, op: str) -> None:
    random = np.random.default_rng(3)
    x = random.integers(-3, 3, (3, 900)).astype("float32")
    x[1, 500::70], x[2, ::9] = np.nan, np.inf
    found, wanted = getattr(ag, op)(nc.tensor(x), 1), getattr(torch.tensor(x), op)(1)
    np.testing.assert_array_equal(found.values.to_host(), wanted.values)
    np.testing.assert_array_equal(found.indices.to_host(), wanted.indices)


def test_running_products_have_gradients_at_zeros(device: nc.Device) -> None:
    given = np.random.default_rng(4).standard_normal((2, 300))
    given[0, 5], given[1, [3, 200]] = 0, 0
    x, y = nc.tensor(given.astype("float32"), requires_grad=True), torch.tensor(given)
    y.requires_grad_()
    ag.backward(ag.sum(ag.cumprod(x, 1)))
    y.cumprod(1).sum().backward()
    np.testing.assert_allclose(x.grad.to_host(), y.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 64), (70, 2), (4099,), (20_000,)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_elements_by_their_rank(device: nc.Device, shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(5).integers(0, 99, shape).astype(dtype)
    if dtype == "float32":
        x.reshape(-1)[::50] = np.nan
    dim = int(np.argmax(shape))
    for op, args in (("median", ()), ("nanmedian", ()), ("kthvalue", (7,))):
        ours = getattr(ag, op)(nc.tensor(x), *args, dim=dim)
        theirs = getattr(torch.tensor(x), op)(*args, dim=dim)
        np.testing.assert_array_equal(ours.values.to_host(), theirs.values)
        picked = np.take_along_axis(x, np.expand_dims(ours.indices.to_host(), dim), dim)
        np.testing.assert_array_equal(picked.squeeze(dim), theirs.values)


SOFT = ["softmax", "log_softmax"]


@pytest.mark.parametrize(
    ("shape", "dim", "op"),
    [(*at, SOFT[(i + j) % 2]) for i, at in enumerate(SHAPES) for j in range(2)],
    ids=str,
)
def test_softmax(device: nc.Device, op: str, shape: tuple[int, ...], dim: int) -> None:
    for dtype in FLOATS:
        if device in usable_devices(dtype):
            check(lambda x: getattr(ag, op)(x, dim), lambda x: getattr(torch, op)(x, dim),
                  shape, dtype, 4)  # fmt: skip


def test_softmax_with_neighbours_in_its_kernel(device: nc.Device) -> None:
    compiled = ag.jit_compile(lambda x: ag.softmax(x * 2 + 1, 1) * 3)
    x = np.random.default_rng(1).standard_normal((2, 99, 7)).astype("float32")
    wanted = 3 * torch.softmax(torch.tensor(x.astype("float64")) * 2 + 1, 1)
    np.testing.assert_allclose(compiled(nc.tensor(x)).to_host(), wanted, atol=1e-5)


@pytest.mark.parametrize("shape", [(2**19,), (2**18, 2)], ids=str)
@pytest.mark.parametrize("double", [True, False], ids=["double", "pairs of floats"])
def test_running_sums_keep_their_digits(
    device: nc.Device, double: bool, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not double:
        monkeypatch.setattr(type(device), "supports_fp64", False)
    given = np.full(shape, 0.1, np.float32)
    given[-4:] = np.array([1, np.inf, 2, -np.inf]).reshape(-1, *[1] * (len(shape) - 1))
    with np.errstate(invalid="ignore"):
        exact = given.cumsum(0, dtype=np.float64)
    np.testing.assert_allclose(ag.cumsum(nc.tensor(given), 0).to_host(), exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "shape", "lines", "items"),
    [(lambda x: ag.cumsum(x, 0), (1 << 19,), 1, 1 << 16),
     (lambda x: ag.cumsum(x, 0), (1 << 16, 4), 4, 1 << 13),
     (lambda x: ag.cumsum(x, 1), (3, 1 << 16), 3, 3 << 13)],
    ids=["a line", "columns", "rows"],
)  # fmt: skip
def test_a_line_has_many_items(
    device: nc.Device, group: int, call: Any, shape: tuple[int, ...], lines: int, items: int,
    launched: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(device, "compute_units", 132)
    x = nc.Tensor.zeros(shape, "float32")
    launched.clear()
    call(x)
    assert launched == [
        ("scan_totals", items),
        ("scan_starts", lines * group),
        ("scan_blocks", items),
    ]


@pytest.mark.parametrize(
    ("op", "shape", "dim", "groups"),
    [("softmax", (2, 1000, 128), 1, 2 * 16), ("log_softmax", (200, 1 << 16), 0, 1 << 11)],
    ids=["few columns", "many"],
)
def test_a_column_has_several_items(
    device: nc.Device, group: int, op: str, shape: tuple[int, ...], dim: int, groups: int,
    launched: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(device, "compute_units", 132)
    x = nc.Tensor.zeros(shape, "float32")
    launched.clear()
    getattr(ag, op)(x, dim)
    assert launched == [(op, groups * group)]
