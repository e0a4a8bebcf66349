"""The tiles that GPUs get, run by the CPU runtimes at hand; no other test has these kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import TOLERANCE, check_values, recorded, usable_devices
from netcl_plugin_linalg import conformance, gemm_gpu
from netcl_plugin_linalg.attention_cases import ATTENTION
from netcl_plugin_linalg.gemm import Product
from netcl_plugin_linalg.gemm_gpu import FENCE, TILES, default_settings, tiled
from netcl_plugin_linalg.gemm_thin import thin

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import PluginError
from netcl_core.hardware.device import opencl_module, stand_in
from netcl_core.plugins.registry import registry
from netcl_core.runtime.memory import memory_of

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
#: The device on which every tile is tried; the second runtime takes seconds for a large one.
FIRST = OPENCL[:1]
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
SIZES = (1, 3, 17, 33, 129, 257)
registry.load()  # which makes the templates known
RANDOM = np.random.default_rng(7)
FEW = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def as_gpu(device: nc.Device, patch: pytest.MonkeyPatch, units: int = 132) -> None:
    """Let a device be taken for a GPU of so many compute units; calls are planned anew."""
    patch.setattr(device, "kind", "gpu")
    patch.setattr(device, "compute_units", units)
    registry.renew()


@pytest.fixture(params=OPENCL, ids=str)
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[nc.Device]:
    """An OpenCL device that is taken for a GPU."""
    with monkeypatch.context() as patch:
        as_gpu(request.param, patch)
        with nc.use_device(request.param) as found:
            yield found
    registry.renew()


@pytest.fixture(params=[True, False], ids=["one launch", "two launches"])
def joined(request: Any, device: nc.Device, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How slices are added up: the names of the kernels."""
    if request.param:
        if FENCE.unmet_everywhere(device) is not None:
            pytest.skip(str(FENCE.unmet_everywhere(device)))
        return ["gemm_joint"]
    monkeypatch.setattr(gemm_gpu, "FENCE", ag.Requirements(device_kinds=("accelerator",)))
    return ["gemm_part", "gemm_finish"]


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers of a dtype, whole ones small enough for exact sums."""
    if dtype in ("bool", "uint8", "int32", "int64"):
        return RANDOM.integers(0, 4, shape).astype(dtype)
    return RANDOM.standard_normal(shape).astype(nc.DTYPES[dtype].numpy)


def wanted(a: Any, b: Any, dtype: str) -> Any:
    """The product in float64, in the result's dtype where that is whole."""
    found = a.astype("float64") @ b.astype("float64")
    if dtype == "bool":
        return found != 0
    return np.mod(found, 256) if dtype == "uint8" else found


def close(given: Any, right: Any, dtype: str, terms: int) -> None:
    """Within what sums of so many products may lose; whole numbers are exact."""
    if not nc.DTYPES[dtype].floating:
        np.testing.assert_array_equal(given.astype("float64"), right.astype("float64"))
        return
    bound = TOLERANCE[dtype] * max(4.0, math.sqrt(terms)) * 4
    np.testing.assert_allclose(given.astype("float64"), right, TOLERANCE[dtype], bound)


def multiplied(
    device: nc.Device,
    sizes: tuple[int, int, int],
    layout: tuple[bool, bool] = (False, False),
    chosen: Mapping[str, Any] | None = None,
    dtype: str = "float32",
    bias: bool = False,
    row_sums: bool = False,
    plan: Any = tiled,
) -> list[str]:
    """Multiply by given settings and compare; returns the names of the kernels."""
    (m, n, k), (turn_a, turn_b) = sizes, layout
    a, b, start = drawn((m, k), dtype), drawn((k, n), dtype), drawn((n,), dtype)
    product = Product(m, n, k, *((1, m) if turn_a else (k, 1)), *((1, k) if turn_b else (n, 1)))
    inputs = [a.T if turn_a else a, b.T if turn_b else b, *([start] if bias else [])]
    tensors = [nc.tensor(np.ascontiguousarray(each), dtype=dtype) for each in inputs]
    outs = (nc.Spec((m, n), dtype), *([nc.Spec((m,), dtype)] if row_sums else []))
    specs = tuple(nc.Spec(each.shape, dtype) for each in tensors)
    request = ag.Request("matmul", device, specs, outs, {})
    if chosen is None:
        chosen = default_settings(request, product)
    request = ag.Request("matmul", device, specs, outs, {}, settings=chosen)
    results = [nc.Tensor.full(each.shape, 7, dtype) for each in outs]
    kernels = plan(request, product, bias, *([row_sums] if plan is tiled else []))
    buffers = [each.buffer for each in tensors], [each.buffer for each in results]
    nc.Bound(device, kernels, specs, outs)(*buffers)
    right = wanted(a, b, dtype) + (start.astype("float64") if bias else 0)
    close(results[0].to_host(), right, dtype, k)
    if row_sums:
        close(results[1].to_host(), a.astype("float64").sum(1), dtype, k)
    return [each.entry for each in kernels.launches]


# -- what fills no tile -------------------------------------------------------------------------


@FEW
@given(
    few=st.integers(1, 32),
    many=st.sampled_from([1, 6, 32, 100, 261]),
    inner=st.sampled_from([1, 3, 16, 64, 1001]),
    turned=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(["float32", "float16", "int32", "bool"]),
    bias=st.booleans(),
    limits=st.sampled_from([(1, 256, 32768), (132, 1024, 49152), (8, 16, 4096)]),
)
def test_few_rows_or_columns(
    device: nc.Device, few: int, many: int, inner: int, turned: bool, layout: Any, dtype: str,
    bias: bool, limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In slices where there are many units; without, in parts that local memory holds."""
    sizes = (many, few, inner) if turned else (few, many, inner)
    with monkeypatch.context() as patch:
        patch.setattr(device, "compute_units", limits[0])
        patch.setattr(device, "max_work_group_size", limits[1])
        patch.setattr(device, "local_mem_bytes", limits[2])
        names = multiplied(device, sizes, layout, {}, dtype, bias and dtype != "bool", plan=thin)
    assert names == ["gemm_thin" if inner <= 64 else "gemm_strip"]


def test_neighbours_of_a_thin_product_are_in_its_kernel(device: nc.Device) -> None:
    """Also of a batch of small matrices, one of which is read for all."""
    product = ag.jit_compile(lambda a, b: ag.relu(ag.matmul(ag.mul(a, 2.0), b) + 1.0))
    small = ((3, 7, 5), (3, 5, 9)), ((7, 5), (3, 5, 8)), ((90, 7), (7, 2))
    for first, second in (*small, ((5, 130), (130, 70)), ((3, 90, 65), (65, 2))):
        a, b = drawn(first, "float32"), drawn(second, "float32")
        x, y = nc.tensor(a), nc.tensor(b)
        product(x, y)
        with recorded(device) as stream:
            found = product(x, y)
        inner = first[-1]
        assert stream.launched == ["gemm_thin" if inner <= 64 else "gemm_strip"]
        right = np.maximum(2.0 * (a.astype("float64") @ b) + 1, 0)
        close(found.to_host(), right, "float32", inner)


# -- every tile, every layout --------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("more", [0, 4, 1])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("runtime", OPENCL, ids=str)
def test_every_tile_in_every_layout(runtime: nc.Device, name: str, layout: Any, more: int) -> None:
    """Whole tiles; borders in all extents, of quads and of single elements."""
    tile, _ = TILES[name]
    sizes = 2 * tile.bm + more, 2 * tile.bn + more, 3 * tile.bk + more
    with nc.use_device(runtime):
        names = multiplied(runtime, sizes, layout, {"tile": name, "slices": 1})
    assert names == ["gemm_whole"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("slices", range(1, 9))
def test_every_number_of_slices(device: nc.Device, slices: int, joined: list[str]) -> None:
    """Those that would be empty are left out, and the sums are those of one slice."""
    chosen = {"tile": "16x16x16", "slices": slices}
    for inner in (0, 1, 16, 40, 128, 130):
        names = multiplied(device, (33, 17, inner), (False, True), chosen, bias=True)
        many = slices > 1 and inner > 16
        assert names == (joined if many else ["gemm_whole"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("name", ["64x64x32", "16x16x16", "4x4x4"])
def test_sums_of_rows(device: nc.Device, name: str, slices: int, joined: list[str]) -> None:
    chosen = {"tile": name, "slices": slices}
    for layout in LAYOUTS[::2]:
        for sizes in ((65, 3, 100), (4, 70, 33), (129, 1, 0), (3, 0, 5)):
            multiplied(device, sizes, layout, chosen, row_sums=True)


def test_slices_add_up_to_the_same_bits(device: nc.Device, joined: list[str]) -> None:
    a, b = nc.tensor(drawn((20, 4099), "float32")), nc.tensor(drawn((4099, 24), "float32"))
    with recorded(device) as stream:
        first = ag.matmul(a, b).to_host()
    assert stream.launched == joined
    for _ in range(20):
        np.testing.assert_array_equal(ag.matmul(a, b).to_host(), first)


def test_counters_are_left_at_zero(device: nc.Device) -> None:
    """Whatever the shapes, which share them, threads and replays."""
    given = [(nc.tensor(drawn((m, 2000), "float32")), nc.tensor(drawn((2000, n), "float32")))
             for m, n in ((70, 40), (3, 5), (33, 130))]  # fmt: skip
    exact = [a.to_host().astype("f8") @ b.to_host() for a, b in given]

    def work(_: int) -> list[Any]:
        return [ag.matmul(a, b).to_host() for a, b in given]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(16)))
    graph = ag.capture(lambda a, b: ag.matmul(a, b), *given[0])
    found += [[graph(*given[0]).numpy()] for _ in range(3)]
    for each in found:
        for one, right in zip(each, exact, strict=False):
            close(one, right, "float32", 2000)
    left = np.empty(nc.ZEROS_BYTES // 4, np.int32)
    opencl_module().enqueue_copy(device.queue, left, memory_of(device).zeros)
    assert not left.any()


# -- sizes and dtypes ----------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("turn", range(len(SIZES)))
@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_sizes_around_the_tiles(device: nc.Device, layout: Any, turn: int) -> None:
    """In each turn every two sizes meet, in all turns every three."""
    for (i, m), (j, n) in itertools.product(enumerate(SIZES), repeat=2):
        multiplied(device, (m, n, SIZES[(i + j + turn) % len(SIZES)]), layout)


@pytest.mark.skipif(not FIRST, reason="no OpenCL device")
@FEW
@given(data=st.data())
def test_any_product(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the work-groups and the local memory of other vendors, in any dtype."""
    sizes = st.sampled_from(SIZES) | st.integers(1, 140)
    shape = data.draw(st.tuples(sizes, sizes, sizes))
    layout = data.draw(st.sampled_from(LAYOUTS))
    dtype = data.draw(st.sampled_from(conformance.ALL))
    floating = nc.DTYPES[dtype].floating
    with monkeypatch.context() as patch, nc.use_device(FIRST[0]) as device:
        patch.setattr(device, "kind", "gpu")
        patch.setattr(device, "compute_units", data.draw(st.sampled_from((1, 8, 132))))
        patch.setattr(device, "max_work_group_size", data.draw(st.sampled_from((4, 16, 64, 256))))
        patch.setattr(device, "local_mem_bytes", data.draw(st.sampled_from((4096, 32768, 65536))))
        bias = floating and data.draw(st.booleans())
        sums = floating and not bias and data.draw(st.booleans())
        multiplied(device, shape, layout, None, dtype, bias, sums)


@pytest.mark.sample(3)
@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("dtype", conformance.ALL)
def test_every_dtype(device: nc.Device, dtype: str, crossed: bool) -> None:
    """Whole quads in one slice, single elements in two; and the other way round."""
    sizes = [(64, 32, 32), (33, 17, 100)][:: -1 if crossed else 1]
    multiplied(device, sizes[0], (False, True), None, dtype)
    multiplied(device, sizes[1], (True, False), {"tile": "16x16x16", "slices": 2}, dtype)


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_sums_in_variables_of_their_own(
    device: nc.Device, dtype: str, slices: int, monkeypatch: pytest.MonkeyPatch, joined: list[str]
) -> None:
    """As on NVIDIA's devices."""
    monkeypatch.setattr(device, "platform", "NVIDIA CUDA")
    for sizes in ((32, 32, 96), (33, 17, 100)):
        multiplied(device, sizes, (False, True), {"tile": "16x16x16", "slices": slices}, dtype)


def test_infinities_reach_their_own_rows_and_columns_alone(device: nc.Device) -> None:
    """What lies beyond a border counts as zero on both sides, and never as a number times zero."""
    a, b = np.ones((3, 5), "float32"), np.ones((5, 6), "float32")
    a[1, 4], b[4, 2] = np.inf, np.nan
    found = (nc.tensor(a) @ nc.tensor(b)).to_host()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, a @ b)


# -- which tile ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "tile", "slices"),
    [
        ((4096, 4096, 4096), "128x128x8", 1),
        ((1024, 1024, 1024), "128x64x16", 2),
        ((128, 512, 784), "32x32x16", 5),
        ((128, 256, 512), "32x32x32", 8),
        ((128, 10, 256), "32x32x32", 8),
        ((128, 256, 10), "32x32x16", 1),
        ((784, 512, 128), "64x64x32", 1),
        ((512, 256, 128), "32x32x32", 1),
        ((256, 10, 128), "32x32x32", 4),
    ],
)
def test_what_was_measured_to_be_fast(sizes: Any, tile: str, slices: int) -> None:
    """An H200 has 132 compute units and 48 KB of local memory."""
    device = stand_in("gpu")
    device.compute_units, device.local_mem_bytes, device.max_work_group_size = 132, 49152, 1024
    m, n, k = sizes
    request = ag.Request("matmul", device, (), (nc.Spec((m, n), "float32"),), {})
    product = Product(m, n, k, k, 1, n, 1)
    assert default_settings(request, product) == {"tile": tile, "slices": slices}


@pytest.mark.parametrize("group", [1, 4, 16, 64, 256, 1024])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_work_groups_and_local_memory_are_those_of_the_device(dtype: str, group: int) -> None:
    device = stand_in("gpu")
    device.max_work_group_size = group
    for local in (512, 4096, 32768, 65536):
        device.local_mem_bytes = local
        for m in (8, 200, 5000):
            request = ag.Request("matmul", device, (), (nc.Spec((m, m), dtype),), {})
            found = default_settings(request, Product(m, m, m, m, 1, m, 1))
            tile, _ = TILES[found["tile"]]
            assert tile.items <= group and tile.misfit(request) is None


def test_a_device_that_is_too_small_for_any_is_told(
    device: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "local_mem_bytes", 100)
    with pytest.raises(PluginError, match=r"256 bytes of local memory, where .* has 100"):
        ag.matmul(nc.Tensor.ones((40, 40)), nc.Tensor.ones((40, 40)))


# -- the ops -------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(case, dtype, id=f"{dtype}-{case}")
        for case in conformance.CASES if case not in ATTENTION
        for dtype in ("float32", "float16") if dtype in case.takes
    ],
)  # fmt: skip
def test_the_ops_and_their_gradients(case: Any, dtype: str, device: nc.Device) -> None:
    """Those of attention have a test of their own."""
    for shapes in case.shapes:
        if device in FIRST or max(map(math.prod, shapes)) < 1000:
            check_values(case, shapes, device, dtype)


def test_views_are_read_where_they_lie_or_copied(device: nc.Device) -> None:
    a, b = drawn((40, 50), "float32"), drawn((60, 40), "float32")
    x, y = nc.tensor(a), nc.tensor(b)
    close((x[3:, 1::2] @ y[5:30, 2:39].T[1:26]).to_host(),
          (a[3:, 1::2].astype("f8") @ b[5:30, 2:39].T[1:26]), "float32", 25)  # fmt: skip
    found = ag.matmul(x[:, 5:15], y[7:17], True, True).to_host()
    close(found, a[:, 5:15].astype("f8").T @ b[7:17].astype("f8").T, "float32", 40)


@pytest.mark.parametrize("shape", [(37, 41, 43), (20, 24, 2000)], ids=str)
def test_neighbours_move_into_the_kernel(device: nc.Device, shape: Any, joined: list[str]) -> None:
    """What is cheap before, whatever is behind; with slices the sums are whole before it."""
    m, n, k = shape

    @ag.jit_compile
    def layer(a: Any, b: Any, start: Any, rest: Any) -> Any:
        return ag.gelu(ag.relu(a) @ b + start) * 0.5 + rest

    given = [drawn(each, "float32") for each in ((m, k), (k, n), (n,), (m, n))]
    tensors = [nc.tensor(each) for each in given]
    layer(*tensors)
    with recorded(device) as stream:
        found = layer(*tensors).to_host()
    assert stream.launched == (joined if k == 2000 else ["gemm_whole"])
    a, b, start, rest = (each.astype("float64") for each in given)
    x = np.maximum(a, 0) @ b + start
    erf = np.vectorize(math.erf)
    right = 0.5 * x * (1 + erf(x / math.sqrt(2))) * 0.5 + rest
    close(found, right, "float32", k)


def test_casts_move_into_the_kernel(device: nc.Device) -> None:
    @ag.jit_compile
    def product(a: Any, b: Any) -> Any:
        return (a.astype("float32") @ b).astype("float16")

    a, b = drawn((33, 20), "float16"), drawn((20, 36), "float32")
    x, y = nc.tensor(a), nc.tensor(b)
    product(x, y)
    with recorded(device) as stream:
        found = product(x, y)
    assert len(stream.launched) == 1, stream.launched
    assert found.dtype == "float16"
    close(found.to_host(), a.astype("float64") @ b, "float16", 20)


def test_gradients_of_a_layer_take_the_tiles(device: nc.Device) -> None:
    x, w, b = (nc.tensor(drawn(each, "float32"), requires_grad=True)
               for each in ((39, 40), (41, 40), (41,)))  # fmt: skip
    with recorded(device) as stream:
        ag.sum(ag.square(ag.linear(x, w, b))).backward()
    assert sum(name.startswith("gemm") for name in stream.launched) == 3
    assert {name for name in stream.launched if "gemm" in name} == {"gemm_whole"}
