"""Products by tensor cores: their kernels with emulated instructions, and when they serve.

What they do is written down in `templates/emulated.j2` by the PTX ISA, so that layouts, borders,
stages and epilogues are tried on any device that has local memory; the last test runs the
instructions themselves, where there are tensor cores.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_linalg import gemm_gpu, linear
from netcl_plugin_linalg.gemm import Product
from netcl_plugin_tensorcore import products
from netcl_plugin_tensorcore.products import TILES, WarpTile, multiplied, unsuited

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Requirements
from netcl_core.hardware.device import stand_in
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering

registry.load()  # which makes the templates known
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
DTYPES = list(products.TYPES)
#: As the real ones, with fewer products: each of them has two barriers when it is emulated.
SMALL = {
    "float32": WarpTile(32, 32, 16, 3, 2, 2),
    "float16": WarpTile(64, 64, 16, 4, 2, 2),
    "bfloat16": WarpTile(64, 64, 16, 4, 2, 2),
}
GROUPED = WarpTile(128, 64, 32, 3, 4, 1, groups=True)
#: The norm of the difference to that of the result: sums in float, and the result's rounding.
BOUNDS = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
RANDOM = np.random.default_rng(5)


#: What is emulated builds for half a minute on the second device.
DEVICES = OPENCL


@pytest.fixture(params=DEVICES, ids=str)
def device(request: Any) -> Iterator[nc.Device]:
    """A device, and the emulated instructions."""
    rendering.add_prefix("emulated", Path(__file__).with_name("templates"))
    with nc.use_device(request.param) as found:
        yield found
    rendering.drop_prefix("emulated")


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Random numbers of a dtype."""
    return RANDOM.standard_normal(shape).astype(nc.DTYPES[dtype].numpy)


def run(
    device: nc.Device,
    product: Product,
    a: Any,
    b: Any,
    shape: Any,
    dtype: str,
    bias: Any = None,
    tile: WarpTile | None = None,
    passes: int = 3,
    slices: int = 1,
) -> Any:
    """The result by emulated instructions."""
    tensors = [
        nc.tensor(np.ascontiguousarray(x), dtype=dtype) for x in (a, b, bias) if x is not None
    ]
    specs = tuple(nc.Spec(each.shape, dtype) for each in tensors)
    outs = (nc.Spec(shape, dtype),)
    request = ag.Request("matmul", device, specs, outs, {}, settings={"slices": slices})
    kernels = multiplied(
        request, product, bias is not None, "emulated/emulated.j2", passes, tile or SMALL[dtype]
    )
    result = nc.Tensor.full(shape, np.nan, dtype)
    nc.Bound(device, kernels, specs, outs)([each.buffer for each in tensors], [result.buffer])
    return result.to_host().astype("float64")


def check(given: Any, right: Any, dtype: str) -> None:
    """Whole, and near float64."""
    assert np.isfinite(given).all()
    assert np.linalg.norm(given - right) <= BOUNDS[dtype] * np.linalg.norm(right)


def product_of(m: int, n: int, k: int, layout: tuple[bool, bool]) -> Product:
    """A product of operands that are stored transposed or not."""
    a, b = layout
    return Product(m, n, k, *((1, m) if a else (k, 1)), *((1, k) if b else (n, 1)))


def forms() -> list[Any]:
    """Every dtype in every layout; a few on a second device, where each takes half a minute."""
    few = [("float32", (False, True)), ("float16", (True, False)), ("bfloat16", (False, False))]
    every = itertools.product(DTYPES, LAYOUTS)
    found = [(first, *each) for first, each in itertools.product(OPENCL[:1], every)]
    return found + [(other, *form) for other, form in itertools.product(OPENCL[1:], few)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("device", "dtype", "layout"), forms(), ids=str, indirect=["device"])
def test_whole_tiles_and_borders(device: nc.Device, dtype: str, layout: Any) -> None:
    """Fewer steps than stages, and more; borders in all extents."""
    for m, n, k in ((128, 128, 160), (64, 64, 32), (136, 72, 88), (8, 16, 8), (200, 8, 264)):
        a, b = drawn((m, k), dtype), drawn((k, n), dtype)
        stored = a.T if layout[0] else a, b.T if layout[1] else b
        found = run(device, product_of(m, n, k, layout), *stored, (m, n), dtype)
        check(found, a.astype("f8") @ b.astype("f8"), dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("dtype", "layout"), [("bfloat16", (False, True)), *(("float16", each) for each in LAYOUTS)]
)
def test_four_warps_as_one(device: nc.Device, dtype: str, layout: Any) -> None:
    for m, n, k in ((256, 128, 160), (136, 72, 88), (8, 16, 8)):
        a, b = drawn((m, k), dtype), drawn((k, n), dtype)
        stored = a.T if layout[0] else a, b.T if layout[1] else b
        found = run(device, product_of(m, n, k, layout), *stored, (m, n), dtype, tile=GROUPED)
        check(found, a.astype("f8") @ b.astype("f8"), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_bias_and_columns_that_are_odd(device: nc.Device, dtype: str) -> None:
    a, b, bias = drawn((40, 24), dtype), drawn((33, 24), dtype), drawn((33,), dtype)
    found = run(device, product_of(40, 33, 24, (False, True)), a, b, (40, 33), dtype, bias)
    check(found, a.astype("f8") @ b.T.astype("f8") + bias.astype("f8"), dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_of_no_whole_chunks_are_copied(device: nc.Device, layout: Any) -> None:
    m, n, k = 41, 33, 25
    a, b = drawn((3, m, k), "float16"), drawn((k, n), "float16")
    stored = np.swapaxes(a, 1, 2) if layout[0] else a, b.T if layout[1] else b
    product = dataclasses.replace(product_of(m, n, k, layout), batch=((3, m * k, 0),))
    found = run(device, product, *stored, (3, m, n), "float16")
    check(found, a.astype("f8") @ b.astype("f8"), "float16")


def test_gradients_of_a_weight_and_its_bias(device: nc.Device) -> None:
    """Of a gradient whose lines have no whole chunks; it is a view."""
    wide, x = nc.tensor(drawn((24, 50), "float16")), nc.tensor(drawn((24, 40), "float16"))
    grad = wide[:, 3:36]
    specs = tuple(nc.Spec(each.shape, "float16") for each in (grad, x))
    outs = (nc.Spec((33, 40), "float16"), nc.Spec((33,), "float16"))
    layouts = (grad.value.geometry, None)
    request = ag.Request("linear", device, specs, outs, {}, layouts=layouts, settings={"slices": 1})
    product = linear.product_of_gradients(request)
    kernels = multiplied(request, product, False, "emulated/emulated.j2", tile=SMALL["float16"])
    kernels = products.with_row_sums(request, kernels)
    results = [nc.Tensor.full(out.shape, np.nan, "float16") for out in outs]
    buffers = [each.buffer for each in results]
    nc.Bound(device, kernels, specs, outs)([grad.memory, x.buffer], buffers)
    given, data = grad.to_host().astype("f8"), x.to_host().astype("f8")
    check(results[0].to_host().astype("f8"), given.T @ data, "float16")
    check(results[1].to_host().astype("f8"), given.sum(0), "float16")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("dtype", "layout"), list(itertools.product(DTYPES, LAYOUTS)), ids=str)
def test_the_last_tiles_in_slices(device: nc.Device, dtype: str, layout: Any) -> None:
    """Behind whole ones, with borders and a bias; twice, since a counter goes back to zero."""
    if gemm_gpu.FENCE.unmet_everywhere(device) is not None:
        pytest.skip("no fence for all work-groups")
    size = 32 if dtype == "float32" else 64
    m, n, k = size * (2 * device.compute_units + 1) - 8, size - 8, 200
    a, b, bias = drawn((m, k), dtype), drawn((k, n), dtype), drawn((n,), dtype)
    stored = a.T if layout[0] else a, b.T if layout[1] else b
    right = a.astype("f8") @ b.astype("f8") + bias.astype("f8")
    for slices in (3, 3, 64):  # which are no more than steps
        found = run(
            device, product_of(m, n, k, layout), *stored, (m, n), dtype, bias, slices=slices
        )
        check(found, right, dtype)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(device: nc.Device, dtype: str) -> None:
    """One operand is the same for all of a dimension."""
    a, b = drawn((3, 1, 40, 24), dtype), drawn((2, 24, 72), dtype)
    batch = ((3, 40 * 24, 0), (2, 0, 24 * 72))
    product = dataclasses.replace(product_of(40, 72, 24, (False, False)), batch=batch)
    found = run(device, product, a, b, (3, 2, 40, 72), dtype)
    check(found, a.astype("f8") @ b.astype("f8"), dtype)


def test_floats_are_as_exact_as_floats(device: nc.Device) -> None:
    """Over many magnitudes, where one TF32 alone would have an error of 1e-3."""
    a, b = drawn((64, 512), "float32"), drawn((512, 64), "float32")
    a *= np.exp2(RANDOM.integers(-20, 21, a.shape)).astype("f4")
    found = run(device, product_of(64, 64, 512, (False, False)), a, b, (64, 64), "float32")
    right = a.astype("f8") @ b.astype("f8")
    assert np.linalg.norm(found - right) <= 1e-6 * np.linalg.norm(right)


def places(n: int) -> Any:
    """A permutation's matrix."""
    return np.eye(n, dtype="f4")[RANDOM.permutation(n)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_floats_that_are_moved_or_counted_stay_exact(device: nc.Device, layout: Any) -> None:
    """A permutation on either side, and integers that need all 24 bits of a float."""
    wide = drawn((48, 72), "float32") * np.exp2(RANDOM.integers(-20, 21, (48, 72))).astype("f4")
    large = RANDOM.integers(-(2**24), 2**24, (48, 72)).astype("f4")
    for a, b in ((places(48), wide), (wide, places(72)), (places(48), large), (large, places(72))):
        stored = a.T if layout[0] else a, b.T if layout[1] else b
        m, k, n = *a.shape, b.shape[1]
        found = run(device, product_of(m, n, k, layout), *stored, (m, n), "float32")
        np.testing.assert_array_equal(found, a.astype("f8") @ b.astype("f8"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_infinite_floats_give_what_float32_gives(device: nc.Device, layout: Any) -> None:
    """In rows, columns and meetings of both; one rounds to infinity, and is finite in float."""
    a, b = drawn((48, 72), "float32"), drawn((72, 40), "float32")
    a[3, 5], a[20, 7], b[9, 11], b[5, 30], a[33, 2] = np.inf, np.nan, -np.inf, 0, 3.4028e38
    b[2] *= 0.125
    stored = a.T if layout[0] else a, b.T if layout[1] else b
    found = run(device, product_of(48, 40, 72, layout), *stored, (48, 40), "float32")
    with np.errstate(invalid="ignore"):
        right = a.astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_one_pass_rounds_to_tf32(device: nc.Device) -> None:
    """Eleven bits of each factor, to the nearest; an infinity stays one."""
    a, b = drawn((40, 72), "float32"), drawn((72, 32), "float32")
    product = product_of(40, 32, 72, (False, True))
    found = run(device, product, a, b.T, (40, 32), "float32", passes=1)
    right = a.astype("f8") @ b.astype("f8")
    assert 1e-5 < np.linalg.norm(found - right) / np.linalg.norm(right) < 4e-4
    a[0, 0] = np.inf
    found = run(device, product, a, b.T, (40, 32), "float32", passes=1)
    np.testing.assert_array_equal(found[0], np.where(b[0] > 0, np.inf, -np.inf))


@pytest.mark.parametrize(
    ("tile", "size"),
    [
        (tile, size)
        for tile in TILES.values()
        for size in (2, 4)
        if tile.local_bytes(size) <= 49152 and tile.copied(size)
    ],
    ids=str,
)
def test_a_tile_is_copied_in_whole_lines(tile: WarpTile, size: int) -> None:
    """Each item copies as often as others; 8 lines on, chunks are exchanged the same way."""
    for extent, lines in ((tile.bm, tile.bk), (tile.bn, tile.bk)):
        assert extent * lines * size % (16 * tile.items) == 0
        for along in (extent, lines):
            assert tile.items % (8 * along * size // 16) == 0


# -- which requests --------------------------------------------------------------------------


def request_of(m: int, n: int, dtype: str, **fields: Any) -> ag.Request:
    """A request on a device like an H200."""
    device = stand_in("gpu")
    device.compute_units, device.local_mem_bytes, device.max_work_group_size = 132, 49152, 1024
    for name, value in fields.items():
        setattr(device, name, value)
    return ag.Request("matmul", device, (), (nc.Spec((m, n), dtype),), {})


#: What the smallest tile takes of local memory.
NEEDED = {"float32": 36864, "float16": 32768, "bfloat16": 32768}


@pytest.mark.parametrize(
    ("sizes", "fields", "reason"),
    [
        ((4096, 4096, 4096), {}, None),
        ((4096, 4096, 4098), {}, None),
        ((65536, 64, 4098), {}, "read rarely"),
        ((64, 256, 784), {}, "too few to occupy"),
        ((4096, 4096, 4096), {"max_work_group_size": 64}, "no work-groups of"),
        ((4096, 4096, 4096), {"local_mem_bytes": 16384}, NEEDED),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_who_serves(sizes: Any, fields: Any, reason: Any, dtype: str) -> None:
    m, n, k = sizes
    found = unsuited(request_of(m, n, dtype, **fields), product_of(m, n, k, (False, False)))
    if reason is NEEDED:
        reason = f"no {NEEDED[dtype]} bytes of local memory"
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_other_devices_are_told_why_not(device: nc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its kind; one that plays a GPU, by its compiler."""

    def reason() -> str:
        candidates = nc.plugins.why("matmul", device=str(device)).candidates
        (found,) = [each.reason for each in candidates if each.label == "tensor cores"]
        return found

    if device.kind == "gpu":
        pytest.skip("tensor cores may be there")
    assert "it needs a gpu" in reason()
    monkeypatch.setattr(device, "kind", "gpu")
    assert "does not compile tensorcore/probe.cl.j2" in reason()


@pytest.mark.parametrize("groups", [True, False])
def test_tiles_by_size(groups: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller ones where larger ones would leave units idle; groups of warps where they run."""
    unmet = None if groups else "no compute capability 9.0a"
    monkeypatch.setattr(Requirements, "unmet_everywhere", lambda self, device: unmet)
    found = {
        (n, dtype): products.default_settings(
            request_of(n, n, dtype), product_of(n, n, n, (False, False))
        )
        for n in (4096, 1024, 512, 256)
        for dtype in ("float32", "float16")
    }
    as_one, last = (" groups", 5) if groups else ("", 1)
    assert {key: settings and (*settings.values(),) for key, settings in found.items()} == {
        (4096, "float32"): ("128x128x16", last),
        (4096, "float16"): (f"128x128x32{as_one}", 1),
        (1024, "float32"): ("64x128x16", 1),
        (1024, "float16"): (f"64x128x32{as_one}", 1),
        (512, "float32"): ("64x128x16", 4) if groups else None,
        (512, "float16"): ("64x64x32", 1),
        (256, "float32"): None,
        (256, "float16"): None,
    }


def test_on_the_tensor_cores_themselves() -> None:
    """Where there are some: whole tiles and borders, a batch, a bias, and a slot for a ReLU."""
    each = products.IMPLEMENTATIONS[0].requires
    device = next((d for d in OPENCL if each.unmet_everywhere(d) is None), None)
    if device is None:
        pytest.skip("no device here has tensor cores: the instructions were not run")
    with nc.use_device(device), nc.prefer("netcl-plugin-tensorcore:matmul"):
        for dtype in DTYPES:
            for trans_a, trans_b in LAYOUTS:
                for m, n, k in ((2048, 2048, 2048), (2040, 1992, 1048), (1401, 1431, 1003)):
                    a = drawn((k, m) if trans_a else (m, k), dtype)
                    b = drawn((n, k) if trans_b else (k, n), dtype)
                    found = ag.matmul(nc.tensor(a), nc.tensor(b), trans_a, trans_b)
                    first, second = (a.T if trans_a else a), (b.T if trans_b else b)
                    right = first.astype("f8") @ second.astype("f8")
                    check(found.to_host().astype("f8"), right, dtype)
    with nc.use_device(device), nc.prefer("netcl-plugin-tensorcore:linear"):
        layer = ag.jit_compile(lambda x, w, b: ag.relu(ag.linear(x, w, b)))
        for dtype in DTYPES:
            x, w, b = drawn((3, 1000, 520), dtype), drawn((1040, 520), dtype), drawn((1040,), dtype)
            found = layer(nc.tensor(x), nc.tensor(w), nc.tensor(b)).to_host().astype("f8")
            right = x.astype("f8") @ w.T.astype("f8") + b.astype("f8")
            check(found, np.maximum(right, 0), dtype)
            for out in (1040, 1001):
                grad, rows = drawn((1500, out), dtype), drawn((1500, 1024), dtype)
                found = linear.PARAMETER_GRADIENTS(nc.tensor(grad), nc.tensor(rows))
                given = grad.astype("f8")
                for part, exact in zip(
                    found, (given.T @ rows.astype("f8"), given.sum(0)), strict=True
                ):
                    check(part.to_host().astype("f8"), exact, dtype)
