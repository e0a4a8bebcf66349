"""Attention by tensor cores: its kernels with emulated instructions, and when they serve."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_linalg.attention_layouts import side_by_side
from netcl_plugin_linalg.attention_steps import attended as by_ops
from netcl_plugin_tensorcore import attention
from netcl_plugin_tensorcore.attention import AttentionTile, attended, gradients

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import DeviceError
from netcl_core.hardware.device import stand_in
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering

registry.load()  # which makes the templates known
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
EMULATED = "emulated/emulated.j2"
#: As the real ones, with fewer products: each of them has two barriers when it is emulated.
FORWARD, OF_QUERIES, OF_KEYS = (
    AttentionTile(2, 1, 16, 2),
    AttentionTile(2, 1, 16, 2),
    AttentionTile(1, 1, 32, 2),
)
TILES = (FORWARD, OF_QUERIES, OF_KEYS)
#: The norm of the difference to that of the result: weights and slopes are rounded, and results.
BOUNDS = {"float16": 2e-3, "bfloat16": 1.5e-2, "float32": 1e-6}
RANDOM = np.random.default_rng(5)


#: The second device takes minutes for what the first builds in seconds.
EACH = OPENCL


@pytest.fixture(params=OPENCL[:1], ids=str)
def device(request: Any) -> Iterator[nc.Device]:
    """A device, and the emulated instructions."""
    rendering.add_prefix("emulated", Path(__file__).with_name("templates"))
    with nc.use_device(request.param) as found:
        yield found
    rendering.drop_prefix("emulated")


def drawn(shape: Sequence[int], dtype: str) -> Any:
    """Random numbers of a dtype."""
    return RANDOM.standard_normal(shape).astype(nc.DTYPES[dtype].numpy)


def attrs_of(**attrs: Any) -> dict[str, Any]:
    """An attention's attributes."""
    return {"dropout_p": 0.0, "is_causal": False, "scale": 0.3, "enable_gqa": False, **attrs}


def run(
    device: nc.Device,
    plan: Any,
    inputs: Sequence[Any],
    outs: Any,
    beside: bool = False,
    **attrs: Any,
) -> Any:
    """What a plan gives; inputs of None are not there; `beside`: heads stand side by side."""
    arrays = [np.ascontiguousarray(x) for x in inputs if x is not None]
    specs = tuple(nc.Spec(x.shape, nc.tensor(x).dtype) for x in arrays)
    layouts = [
        side_by_side(x.shape, x.shape[1]) if beside and x.ndim == 4 else None for x in arrays
    ]
    tensors = [
        nc.tensor(x if each is None else x.swapaxes(1, 2))
        for x, each in zip(arrays, layouts, strict=True)
    ]
    given = tuple(x is not None for x in inputs)
    request = ag.Request("attention", device, specs, outs, attrs_of(**attrs), given, keep=True)
    request = replace(request, layouts=tuple(layouts) if beside else ())
    results = [nc.Tensor.full(each.shape, np.nan, each.dtype) for each in outs]
    bound = nc.Bound(device, plan(request), specs, outs)
    bound([each.buffer for each in tensors], [each.buffer for each in results])
    found = itertools.zip_longest(results, bound.layouts)
    return [(x.viewed(each) if each else x).to_host().astype("f8") for x, each in found]


def rightly(arrays: Sequence[Any], mask: Any, grad: Any, **attrs: Any) -> list[Any]:
    """The results, the logarithms of the rows' sums, and the gradients, in float64."""
    q, k, v = (x.astype("f8") for x in arrays)
    if attrs["enable_gqa"]:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    x = q @ k.swapaxes(-1, -2) * attrs["scale"]
    if mask is not None:
        x = x + (np.where(mask, 0, -np.inf) if mask.dtype == np.bool_ else mask)
    if attrs["is_causal"]:
        x = np.where(np.triu(np.ones(x.shape[-2:], np.bool_), 1), -np.inf, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.nan_to_num(x.max(-1, keepdims=True), neginf=0)
        weights = np.exp(x - top)
        total = weights.sum(-1, keepdims=True)
        weights = np.where(total > 0, weights / total, 0)
        logsums = np.where(total > 0, top + np.log(total), np.inf)[..., 0]
    found = weights @ v
    slopes = grad @ v.swapaxes(-1, -2) - (grad * found).sum(-1, keepdims=True)
    slopes = slopes * weights * attrs["scale"]
    of_operands = (slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ grad)
    return [found, np.broadcast_to(logsums, found.shape[:-1]), *of_operands]


def check(given: Any, right: Any, dtype: str) -> None:
    """Whole, and near float64."""
    finite = np.isfinite(right)
    np.testing.assert_array_equal(np.isfinite(given), finite)
    given, right = np.where(finite, given, 0), np.where(finite, right, 0)
    assert np.linalg.norm(given - right) <= BOUNDS[dtype] * np.linalg.norm(right) + 1e-5


def compare(
    device: nc.Device,
    shapes: Sequence[Any],
    dtype: str,
    mask: Any = None,
    tiles: Sequence[AttentionTile] = TILES,
    beside: bool = False,
    **attrs: Any,
) -> None:
    """The kernels' results and gradients are those of float64."""
    own = {**attrs, "beside": beside}
    arrays = [drawn(shape, dtype) for shape in shapes]
    leads = [shape[:-2] for shape in shapes]
    lead = leads[0] if "enable_gqa" in attrs else np.broadcast_shapes(*leads)
    grad = drawn((*lead, shapes[0][-2], shapes[2][-1]), dtype)
    right = rightly(arrays, mask, grad.astype("f8"), **attrs_of(**attrs))
    outs = (nc.Spec(right[0].shape, dtype), nc.Spec(right[1].shape, "float32"))
    given = [*arrays, mask, None]
    found = run(device, lambda each: attended(each, tiles[0], EMULATED), given, outs, **own)
    check(found[1], right[1], "float16")
    given += [right[0].astype(arrays[0].dtype), found[1].astype("f4"), grad]
    outs = tuple(nc.Spec(each.shape, dtype) for each in right[2:])
    found[1:] = run(device, lambda x: gradients(x, *tiles[1:], EMULATED), given, outs, **own)
    for one, other in zip(found, (right[0], *right[2:]), strict=True):
        check(one, other, dtype)


def heads(queries: int, keys: int, size: int = 24, value_size: int = 8) -> list[Any]:
    """The shapes of query, key and value."""
    return [(2, 3, queries, size), (2, 3, keys, size), (2, 3, keys, value_size)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("dtype", "causal", "rows"),
    [
        ("float16", True, (70, 53)),
        ("float32", True, (70, 53)),
        ("bfloat16", False, (1, 130)),
        ("bfloat16", False, (64, 48)),
        ("float32", False, (64, 48)),
    ],
)
def test_borders(device: nc.Device, dtype: str, causal: bool, rows: tuple[int, int]) -> None:
    """In all extents, or in none; the last of the features are no whole product."""
    compare(device, heads(*rows), dtype, is_causal=causal, scale=-0.3)


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(2, 1, 1, 53), (3, 19, 53)])
@pytest.mark.parametrize("kind", ["added", "bool"])
def test_masks(device: nc.Device, kind: str, shape: tuple[int, ...]) -> None:
    """A query without a key gets 0."""
    mask = RANDOM.uniform(size=shape) < 0.6
    if shape[-2] > 1:
        mask[..., 1, :] = False
    if kind == "added":
        mask = np.where(mask, RANDOM.standard_normal(shape), -np.inf).astype("f4")
    compare(device, heads(19, 53), "float16", mask)


def test_heads_side_by_side(device: nc.Device) -> None:
    """As a transformer cuts them out of its rows: nothing is copied, and results lie so, too."""
    compare(device, heads(19, 53), "float16", is_causal=True, beside=True)


@pytest.mark.parametrize("device", EACH, ids=str, indirect=True)
def test_groups_of_heads(device: nc.Device) -> None:
    shapes = [(2, 6, 19, 16), (2, 2, 48, 16), (2, 6, 48, 16)]
    compare(device, shapes, "float16", enable_gqa=True)


@pytest.mark.nightly
def test_broadcasting(device: nc.Device) -> None:
    compare(device, [(2, 1, 1, 19, 16), (3, 1, 48, 16), (4, 48, 16)], "bfloat16")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (dtype, size)
        for dtype, nbytes in (("float16", 2), ("float32", 4))
        for size in attention.OF_KEYS[nbytes]
    ],
)
def test_tiles_as_they_are(device: nc.Device, dtype: str, size: int) -> None:
    own = (attention.FORWARD, attention.OF_QUERIES, attention.OF_KEYS)
    tiles = [each[nc.DTYPES[dtype].itemsize][size] for each in own]
    shapes = [shape[2:] for shape in heads(140, 170, size, size)]
    compare(device, shapes, dtype, tiles=tiles, is_causal=True)


def test_dropout_draws_what_all_forms_draw(device: nc.Device) -> None:
    shapes, state = heads(19, 53, 16, 16), np.array([7, 3], np.int64)
    arrays = [drawn(shape, "float16") for shape in (*shapes, (2, 3, 19, 16))]
    outs = (nc.Spec((2, 3, 19, 16), "float16"), nc.Spec((2, 3, 19), "float32"))
    given, attrs = [*arrays[:3], None, state], attrs_of(dropout_p=0.4)
    found = run(device, lambda x: attended(x, FORWARD, EMULATED), given, outs, **attrs)
    given += [found[0].astype("f2"), found[1].astype("f4"), arrays[3]]
    outs = tuple(nc.Spec(shape, "float16") for shape in shapes)
    found[1:] = run(device, lambda x: gradients(x, *TILES[1:], EMULATED), given, outs, **attrs)
    with nc.use_device("numpy"):
        leaves = [nc.tensor(x.astype("f4"), requires_grad=True) for x in arrays[:3]]
        right = by_ops(*leaves, None, nc.tensor(state), **attrs)
        wanted = ag.grad(right, leaves, nc.tensor(arrays[3].astype("f4")))
    for one, other in zip(found, (right, *wanted), strict=True):
        check(one, other.to_host(), "float16")


# -- which requests --------------------------------------------------------------------------


def request_of(shape: tuple[int, ...], scale: float = 0.3, **fields: Any) -> ag.Request:
    """A request on a device like an H200."""
    device = stand_in("gpu")
    device.compute_units, device.local_mem_bytes, device.max_work_group_size = 132, 49152, 1024
    for name, value in fields.items():
        setattr(device, name, value)
    spec = nc.Spec(shape, "float16")
    given = (True, True, True, False, False)
    return ag.Request("attention", device, (spec,) * 3, (spec,), attrs_of(scale=scale), given)


@pytest.mark.parametrize(
    ("shape", "fields", "reason"),
    [
        *(((8, 16, 2048, size), {}, None) for size in (8, 32, 64, 128, 256)),
        ((2, 100, 20), {}, "no multiples of 8"),
        ((2, 100, 264), {}, "more than 256"),
        ((2, 0, 64), {}, "nothing to attend to"),
        ((2, 100, 64), {"scale": 0.0}, "a scale of 0"),
        ((2, 100, 64), {"max_work_group_size": 64}, "work-groups of 128"),
        ((2, 100, 64), {"local_mem_bytes": 16384}, "no 33792 bytes"),
    ],
)
def test_who_serves(shape: Any, fields: Any, reason: Any) -> None:
    found = attention.reject(request_of(shape, **fields))
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize(("batches", "own"), [(8, 128), (2, 64)])
def test_lower_tiles_where_there_are_few(batches: int, own: int) -> None:
    request = request_of((batches, 4, 1024, 64))
    (kernel,) = attention.IMPLEMENTATIONS[0].plan(request).launches
    assert kernel.context["own"] == own


FORMS: list[tuple[Any, dict[str, Any]]] = [
    (heads(1000, 1000, 64, 64), {}),
    (heads(1024, 2048, 64, 64), {}),
    (heads(1000, 777, 64, 64), {"is_causal": True}),
    (heads(300, 500, 32, 64), {"scale": -0.2}),
    (heads(300, 500, 128, 128), {"is_causal": True}),
    (heads(300, 512, 80, 48), {}),
    (heads(300, 500, 256, 256), {}),
    ([(2, 6, 200, 64), (2, 2, 333, 64), (2, 2, 333, 64)], {"enable_gqa": True}),
]


#: The op, and the one that computes its gradients.
CHOICES = [f"netcl-plugin-tensorcore:{op}" for op in (attention.NAME, attention.BACKWARD)]


def test_both_can_be_chosen_and_a_cpu_refuses() -> None:
    q = nc.ones(1, 1, 4, 8, requires_grad=True)
    found = ag.scaled_dot_product_attention(q, q, q)
    with nc.prefer(CHOICES[1]), pytest.raises(DeviceError, match="it needs a gpu"):
        found.sum().backward()
    with nc.prefer(CHOICES[0]), pytest.raises(DeviceError, match="it needs a gpu"):
        ag.scaled_dot_product_attention(q, q, q)


def test_on_the_tensor_cores_themselves() -> None:
    """Where there are some."""
    each = attention.IMPLEMENTATIONS[0].requires
    device = next((d for d in OPENCL if each.unmet_everywhere(d) is None), None)
    if device is None:
        pytest.skip("no device here has tensor cores: the instructions were not run")
    with nc.use_device(device):
        for dtype in BOUNDS:
            for shapes, attrs in FORMS:
                widest, nbytes = max(shape[-1] for shape in shapes), nc.DTYPES[dtype].itemsize
                if widest > max(attention.FORWARD[nbytes]):
                    continue
                narrow = widest <= max(attention.OF_QUERIES[nbytes])
                with nc.prefer(*CHOICES[: 1 + narrow]):  # of wide heads other kernels' gradients
                    check_on_device(shapes, dtype, attrs_of(**attrs))


def check_on_device(shapes: Sequence[Any], dtype: str, attrs: dict[str, Any]) -> None:
    """The operator's results and gradients are those of float64."""
    leaves = [nc.tensor(drawn(shape, dtype), requires_grad=True) for shape in shapes]
    found = ag.scaled_dot_product_attention(*leaves, **attrs)
    grad = drawn(found.shape, dtype)
    given = [found, *ag.grad(found, leaves, nc.tensor(grad))]
    arrays = [x.to_host() for x in leaves]
    right = rightly(arrays, None, grad.astype("f8"), **attrs)
    for one, other in zip(given, (right[0], *right[2:]), strict=True):
        summed = other.reshape(*one.shape[:-2], -1, *one.shape[-2:]).sum(-3)  # of a group of heads
        check(one.to_host().astype("f8"), summed, dtype)
