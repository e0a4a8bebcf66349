"""Products as large as is needed to pack their operands: all layouts, tails, dtypes, batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_linalg import gemm_tiles
from netcl_plugin_linalg.gemm_tiles import SPACE, TILES, default_tile

import netcl_core as nc
import netcl_core.autograd as ag

#: How far a result may be from that in float64, as a part of the largest.
CLOSE = {"float32": 3e-6, "float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-14, "int32": 0.0}
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.fixture(params=usable_devices(), ids=str)
def device(request: Any) -> Iterator[nc.Device]:
    """Each device at hand, NumPy's path too."""
    with nc.use_device(request.param) as found:
        yield found


def operand(shape: tuple[int, ...], transposed: bool, dtype: str) -> tuple[nc.Tensor, Any]:
    """A tensor, stored transposed if asked for, and what it holds in float64."""
    stored = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
    random = np.random.default_rng(sum(shape))
    drawn = random.integers(-9, 9, stored) if dtype == "int32" else random.standard_normal(stored)
    tensor = nc.tensor(drawn.astype("int32" if dtype == "int32" else "float64"), dtype=dtype)
    wide = tensor.astype("float32" if dtype == "bfloat16" else dtype).to_host().astype("float64")
    return tensor, np.swapaxes(wide, -1, -2) if transposed else wide


def check(given: nc.Tensor, wanted: Any, dtype: str) -> None:
    """Close to the exact product, as a part of its largest element."""
    found = given.astype("float32").to_host() if dtype == "bfloat16" else given.to_host()
    largest = np.abs(wanted).max(initial=0.0)
    np.testing.assert_allclose(found.astype("float64"), wanted, 0, CLOSE[dtype] * largest)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(
    "sizes", [(64, 32, 64), (67, 37, 97), (130, 300, 65), (49, 1, 64)], ids=str
)
@pytest.mark.parametrize("dtype", CLOSE)
def test_layouts_and_dtypes(
    dtype: str, sizes: tuple[int, int, int], layout: tuple[bool, bool], device: nc.Device
) -> None:
    if dtype == "float64" and not device.supports_fp64:
        pytest.skip("no double precision")
    rows, inner, columns = sizes
    a, left = operand((rows, inner), layout[0], dtype)
    b, right = operand((inner, columns), layout[1], dtype)
    check(ag.matmul(a, b, *layout), left @ right, dtype)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.integers(0, 150),
    inner=st.integers(0, 70),
    columns=st.integers(0, 150),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(("float32", "float16")),
)
def test_any_sizes(
    device: nc.Device, rows: int, inner: int, columns: int, layout: Any, dtype: str
) -> None:
    a, left = operand((rows, inner), layout[0], dtype)
    b, right = operand((inner, columns), layout[1], dtype)
    check(ag.matmul(a, b, *layout), left @ right, dtype)


@pytest.fixture(params=[*TILES])
def tile(request: Any, device: nc.Device, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each register tile, on a device with one core, so that items are as large as they get; a
    number of its own: a plan is kept by sizes.
    """
    if device.kind != "cpu" or device.backend == "numpy":
        pytest.skip("no kernel of CPUs")
    monkeypatch.setattr(device, "compute_units", 1)
    monkeypatch.setattr(gemm_tiles, "default_tile", lambda device: TILES[request.param])
    return [*TILES].index(request.param)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("rows", [301, 91])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_blocks_of_each_tile(
    layout: tuple[bool, bool], rows: int, dtype: str, tile: int, device: nc.Device
) -> None:
    """Three blocks of the inner dimension, several of the others, all of them ragged; twice."""
    a, left = operand((2, rows + tile, 601), layout[0], dtype)
    b, right = operand((601, 410), layout[1], dtype)
    first, second = (ag.matmul(a, b, *layout) for _ in range(2))
    check(first, left @ right, dtype)
    np.testing.assert_array_equal(first.to_host(), second.to_host())


@pytest.mark.parametrize("out", [300, 10])
def test_gradients_of_a_layer_by_each_tile(out: int, tile: int, device: nc.Device) -> None:
    """Also the sums of rows, for which the gradient is packed whatever its size."""
    x, exact_x = operand((270 + tile, 99), False, "float32")
    grad, exact_grad = operand((270 + tile, out), False, "float32")
    weight, bias = nc.Tensor.zeros((out, 99), "float32"), nc.Tensor.zeros((out,), "float32")
    for each in (weight, bias):
        each.requires_grad = True
    ag.linear(x, weight, bias).backward(grad)
    check(weight.grad.value, exact_grad.T @ exact_x, "float32")
    check(bias.grad.value, exact_grad.sum(0), "float32")


@pytest.mark.parametrize(
    ("rows", "columns", "layout"),
    [
        (1, 1, (False, True)),  # dot
        (4, 3, (False, False)),  # narrow
        (4, 40, (False, False)),  # direct
        (33, 40, (False, True)),  # own panels
        (33, 40, (True, False)),  # A packed
        (140, 40, (False, True)),
    ],
)
def test_long_sums_are_sums_of_runs(
    rows: int, columns: int, layout: tuple[bool, bool], tile: int
) -> None:
    """Equal terms one after another lose 1e-3 here; and each term comes once."""
    inner = (1 << 17) + 37 + tile
    for number in (0.1, 1.0):
        sizes = [(inner, rows) if layout[0] else (rows, inner)]
        sizes += [(columns, inner) if layout[1] else (inner, columns)]
        a, b = nc.tensor(np.full(sizes[0], number, np.float32)), nc.ones(*sizes[1])
        found = ag.matmul(a, b, *layout).to_host()
        bound = 2e-5 if number < 1 else 0
        np.testing.assert_allclose(found, float(np.float32(number)) * inner, bound)


@pytest.mark.parametrize("name", [*TILES])
def test_a_tile_stays_in_registers(name: str) -> None:
    """Its results, a row of B and an element of A; whole tiles fill a block."""
    tile = TILES[name]
    registers = 32 if tile.vector_bytes == 64 else 16
    assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
    assert not tile.depth or tile.span % tile.rows == tile.span % tile.vectors == 0


@pytest.mark.parametrize(
    ("vector_bytes", "name"),
    [(64, "8x2x64"), (32, "6x2x32"), (16, "6x2x16"), (4, "6x2x16"), (256, "8x2x64")],
)
def test_the_device_says_which_tile(
    vector_bytes: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = nc.get_device("numpy")
    monkeypatch.setattr(device, "vector_bytes", vector_bytes)
    spec = nc.Spec((8, 8), "float32")
    request = ag.Request("matmul", device, (spec, spec), (spec,), {})
    assert str(default_tile(device)) == name
    assert SPACE.default(request) == {"tile": name}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_batches_that_are_broadcast(layout: tuple[bool, bool], device: nc.Device) -> None:
    a, left = operand((2, 1, 65, 40), layout[0], "float32")
    b, right = operand((3, 40, 70), layout[1], "float32")
    check(ag.matmul(a, b, *layout), left @ right, "float32")


@pytest.mark.parametrize("value", [np.inf, np.nan, 3e38])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_an_odd_value_stays_in_its_row(
    layout: tuple[bool, bool], value: float, device: nc.Device
) -> None:
    """What is laid beside the last row or column of an operand reaches nobody."""
    data = np.ones((65, 33), "float32")
    data[64, 32] = value
    a = nc.tensor(np.ascontiguousarray(data.T) if layout[0] else data)
    b = nc.tensor(np.ones((70, 33) if layout[1] else (33, 70), "float32"))
    found = ag.matmul(a, b, *layout).to_host()
    np.testing.assert_array_equal(found[:64], np.full((64, 70), 33.0))
    with np.errstate(all="ignore"):
        wanted = np.float32(32.0) + np.float32(value)
    np.testing.assert_allclose(found[64], np.full(70, wanted), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(3, 5, 4), (129, 33, 70), (300, 64, 64), (0, 3, 5)])
def test_gradients_of_a_layer(sizes: tuple[int, int, int], dtype: str, device: nc.Device) -> None:
    """Those of weight and bias come from one pass over the gradient."""
    rows, inner, out = sizes
    x, exact_x = operand((rows, inner), False, dtype)
    weight, exact_weight = operand((out, inner), False, dtype)
    grad, exact_grad = operand((rows, out), False, dtype)
    bias = nc.Tensor.zeros((out,), dtype)
    for each in (x, weight, bias):
        each.requires_grad = True
    ag.linear(x, weight, bias).backward(grad)
    check(x.grad.value, exact_grad @ exact_weight, dtype)
    check(weight.grad.value, exact_grad.T @ exact_x, dtype)
    check(bias.grad.value, exact_grad.sum(0), dtype)


def test_a_bias_and_a_neighbour_in_the_kernel(device: nc.Device) -> None:
    """relu(x W^T + b), where the last tile is partly beyond the result."""
    x, exact_x = operand((67, 40), False, "float32")
    weight, exact_weight = operand((99, 40), False, "float32")
    bias, exact_bias = operand((1, 99), False, "float32")
    layer = ag.jit_compile(lambda x, w, b: ag.relu(ag.linear(x, w, b)))
    found = layer(x, weight, ag.reshape(bias, (99,)))
    check(found.value, np.maximum(exact_x @ exact_weight.T + exact_bias, 0), "float32")


@pytest.mark.parametrize(("units", "rows"), [(1, 100), (1000, 101)])  # a plan is kept by sizes
@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_few_rows_are_one_launch(
    layout: tuple[bool, bool],
    units: int,
    rows: int,
    device: nc.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its items pack their panels, alone or several the same one, if there are many cores."""
    if device.kind != "cpu" or device.backend == "numpy":
        pytest.skip("no kernel of CPUs")
    monkeypatch.setattr(device, "compute_units", units)
    a, left = operand((2, rows, 150), layout[0], "float32")
    b, right = operand((150, 130), layout[1], "float32")
    graph = ag.capture(lambda a, b: ag.matmul(a, b, *layout), a, b)
    check(graph.outputs, left @ right, "float32")
    assert graph.launches == 1
