"""Convolutions by tensor cores: their kernels with emulated instructions, and when they serve."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcl_plugin_conv import conv_reference as reference
from netcl_plugin_conv.convolution import (
    CONVOLUTIONS,
    TRANSPOSED,
    WEIGHTS,
    problem_of,
    problem_of_transposed,
    problem_of_weights,
)
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_tensorcore import convolutions
from netcl_plugin_tensorcore.convolutions import convolved, plain_task, transposed_task, unsuited
from netcl_plugin_tensorcore.products import TYPES, WarpTile

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.hardware.device import stand_in
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering

registry.load()  # which makes the templates known
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
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

#: The op's dimensions, x, the weight, whether there is a bias, and the attributes.
ONE = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
UNEVEN = {"stride": (2, 1), "padding": ((0, 2), (1, 0)), "dilation": (1, 2), "groups": 2}
NO_TAPS = {"stride": (2, 2), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
PIXELS = {**ONE, "padding": ((0, 0), (0, 0))}
LINE = {"stride": (3,), "padding": ((2, 2),), "dilation": (1,), "groups": 1}
SOLID = {"stride": (1,) * 3, "padding": ((1, 0),) * 3, "dilation": (1,) * 3, "groups": 1}
PROBLEMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]] = {
    "padding": ((3, 20, 8, 6), (70, 20, 3, 3), True, ONE),
    "strides, dilation, groups": ((2, 6, 9, 7), (34, 3, 2, 3), True, UNEVEN),
    "fewer taps than strides": ((2, 64, 7, 7), (64, 64, 1, 1), False, NO_TAPS),
    "single pixels": ((3, 16, 8, 8), (40, 16, 1, 1), False, PIXELS),
    "weights as they are": ((2, 64, 7, 7), (64, 64, 1, 1), True, PIXELS),
    "one dimension": ((2, 3, 50), (16, 3, 7), False, LINE),
    "three dimensions": ((1, 9, 3, 4, 5), (16, 9, 2, 3, 2), False, SOLID),
}


@pytest.fixture(params=OPENCL, ids=str)
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
    device: nc.Device, task_of: Any, weighs: bool, operator: ag.Operator, arrays: list[Any],
    out: tuple[int, ...], attrs: dict[str, Any], dtype: str, tile: WarpTile, slices: int,
) -> Any:  # fmt: skip
    """The result by emulated instructions."""
    tensors = [nc.tensor(np.ascontiguousarray(x), dtype=dtype) for x in arrays]
    specs = tuple(nc.Spec(each.shape, dtype) for each in tensors)
    outs = (nc.Spec(out, dtype),)
    request = ag.Request(operator.name, device, specs, outs, attrs)
    kernels = convolved(request, task_of(request), weighs, tile, slices, "emulated/emulated.j2")
    result = nc.Tensor.full(out, np.nan, dtype)
    nc.Bound(device, kernels, specs, outs)([each.buffer for each in tensors], [result.buffer])
    return result.to_host().astype("float64")


def operands(name: str, dtype: str) -> tuple[Any, Any, Any]:
    """Of a problem: x, the weight, and something of the result's shape.

    An element of x and one of the last are infinite in float32, whose halves would be NaN.
    """
    x_shape, w_shape, _, attrs = PROBLEMS[name]
    specs = nc.Spec(x_shape, dtype), nc.Spec(w_shape, dtype)
    out = CONVOLUTIONS[len(x_shape) - 3].infer(*specs, None, **attrs).shape
    x, weight, above = drawn(x_shape, dtype), drawn(w_shape, dtype), drawn(out, dtype)
    if dtype == "float32":
        x.flat[x.size // 3], above.flat[above.size // 3] = np.inf, -np.inf
    return x, weight, above


def check_forward(
    device: nc.Device, name: str, dtype: str, tile: WarpTile | None = None, slices: int = 1
) -> None:
    """A convolution."""
    _, w_shape, biased, attrs = PROBLEMS[name]
    x, weight, above = operands(name, dtype)
    bias = [drawn((w_shape[0],), dtype)] if biased else []
    found = run(device, partial(plain_task, problem_of), False, CONVOLUTIONS[x.ndim - 3],
                [x, weight, *bias], above.shape, attrs, dtype, tile or SMALL[dtype],
                slices)  # fmt: skip
    wanted = reference.forward(x.astype("f8"), weight.astype("f8"), above.shape, attrs)
    if biased:
        wanted = wanted + bias[0].astype("f8").reshape(-1, *(1,) * (x.ndim - 2))
    same(found, wanted, dtype)


def check_weights(
    device: nc.Device, name: str, dtype: str, tile: WarpTile | None = None, slices: int = 1
) -> None:
    """The weight's gradient."""
    _, w_shape, _, attrs = PROBLEMS[name]
    x, _, above = operands(name, dtype)
    found = run(device, partial(plain_task, problem_of_weights), True, WEIGHTS[x.ndim - 3],
                [x, above], w_shape, {"kernel": w_shape[2:], **attrs}, dtype,
                tile or SMALL[dtype], slices)  # fmt: skip
    same(found, reference.weights(x.astype("f8"), above.astype("f8"), w_shape, attrs), dtype)


def check_transposed(
    device: nc.Device, name: str, dtype: str, tile: WarpTile | None = None, slices: int = 1
) -> None:
    """The transposed convolution, in one walk and in those that skip what strides skip."""
    attrs = PROBLEMS[name][3]
    x, weight, above = operands(name, dtype)
    back = TRANSPOSED[x.ndim - 3]
    shape = back.infer(
        nc.Spec(above.shape, dtype), nc.Spec(weight.shape, dtype), None, **attrs
    ).shape
    wanted = reference.transposed(above.astype("f8"), weight.astype("f8"), shape, attrs)
    walks = partial(plain_task, problem_of_transposed)
    for task_of in (transposed_task, walks) if max(attrs["stride"]) > 1 else (walks,):
        found = run(device, task_of, False, back, [above, weight], shape, attrs, dtype,
                    tile or SMALL[dtype], slices)  # fmt: skip
        same(found, wanted, dtype)


CHECKS = [check_forward, check_weights, check_transposed]


def same(given: Any, right: Any, dtype: str) -> None:
    """Near float64, and infinite or no number where that is."""
    odd = ~np.isfinite(right)
    np.testing.assert_array_equal(given[odd], right[odd])
    given, right = np.where(odd, 0, given), np.where(odd, 0, right)
    assert np.linalg.norm(given - right) <= BOUNDS[dtype] * np.linalg.norm(right)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "dtype", "slices"),
    [
        ("padding", "bfloat16", 3),
        ("padding", "float16", 1),
        ("strides, dilation, groups", "float16", 2),
        ("padding", "float32", 2),
        ("single pixels", "float16", 1),
        ("single pixels", "float32", 1),
        ("weights as they are", "float32", 2),
        ("one dimension", "float32", 1),
        ("strides, dilation, groups", "float32", 1),
        ("fewer taps than strides", "float16", 1),
        ("three dimensions", "bfloat16", 1),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")  # an infinity times the zeros around
def test_a_convolution_and_its_gradients(
    device: nc.Device, name: str, dtype: str, slices: int
) -> None:
    for check in CHECKS:
        check(device, name, dtype, None, slices)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["strides, dilation, groups", "padding", "single pixels"])
@pytest.mark.parametrize("check", CHECKS)
def test_four_warps_as_one(device: nc.Device, check: Any, name: str) -> None:
    check(device, name, "float16", GROUPED, 2)


# -- which requests --------------------------------------------------------------------------


def request_of(x: tuple[int, ...], weight: tuple[int, ...], **fields: Any) -> ag.Request:
    """A request for a convolution in float16 on a device like an H200."""
    device = stand_in("gpu")
    device.compute_units, device.local_mem_bytes, device.max_work_group_size = 132, 49152, 1024
    for name, value in fields.items():
        setattr(device, name, value)
    specs = (nc.Spec(x, "float16"), nc.Spec(weight, "float16"))
    attrs = {**ONE, "groups": x[1] // weight[1]}
    out = CONVOLUTIONS[1].infer(*specs, None, **attrs)
    return ag.Request("conv2d", device, specs, (out,), attrs)


@pytest.mark.parametrize(
    ("x", "weight", "fields", "reason"),
    [
        ((32, 64, 32, 32), (64, 64, 3, 3), {}, None),
        ((32, 64, 32, 32), (64, 1, 3, 3), {}, "groups of 1 output channels and 9 terms"),
        ((1, 64, 8, 8), (64, 64, 3, 3), {}, "so few products"),
        ((1 << 12, 64, 128, 128), (64, 64, 3, 3), {}, "the sizes are no ints"),
        ((32, 64, 32, 32), (64, 64, 3, 3), {"local_mem_bytes": 16384}, "no 32768 bytes of local"),
    ],
)
def test_who_serves(x: Any, weight: Any, fields: Any, reason: Any) -> None:
    found = unsuited(False, partial(plain_task, problem_of), request_of(x, weight, **fields))
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize(
    ("x", "weight", "entries"),
    [
        ((32, 256, 56, 56), (64, 256, 1, 1), ["tensor_products"]),
        ((32, 256, 14, 14), (64, 256, 1, 1), ["pack", "arrange", "gather"]),
        ((32, 256, 14, 14), (128, 256, 1, 1), ["pack", "gather"]),
        ((32, 256, 56, 56), (64, 256, 3, 3), ["pack", "arrange", "gather"]),
    ],
)
def test_single_pixels_are_not_packed(x: Any, weight: Any, entries: list[str]) -> None:
    """Where lines of images are whole chunks that nearly fill tiles."""
    request = request_of(x, weight)
    attrs = PIXELS if weight[2] == 1 else ONE
    request = dataclasses.replace(request, attrs=attrs, outputs=(
        CONVOLUTIONS[1].infer(*request.inputs, None, **attrs),
    ))  # fmt: skip
    tile = convolutions.TILES["128x128x32"]
    kernels = convolved(request, plain_task(problem_of, request), False, tile, 1)
    assert [each.entry.removeprefix("conv_") for each in kernels.launches] == entries
    back = ag.Request(WEIGHTS[1].name, request.device, (request.inputs[0], *request.outputs),
                      (request.inputs[1],), {"kernel": weight[2:], **attrs})  # fmt: skip
    kernels = convolved(back, plain_task(problem_of_weights, back), True, tile, 4)
    packs = [] if entries == ["tensor_products"] else ["pack", "pack"]
    assert [each.entry.removeprefix("conv_") for each in kernels.launches] == [
        *packs,
        "weigh",
        "total",
    ]


@pytest.mark.parametrize(("kernel", "gathers"), [(1, 1), (3, 4)])
def test_zeros_between_results_take_no_launch(kernel: int, gathers: int) -> None:
    """Of a transposed convolution whose strides skip all taps of the other walks."""
    request = request_of((32, 512, 28, 28), (256, 512, kernel, kernel))
    pad = kernel // 2
    attrs = {**ONE, "stride": (2, 2), "padding": ((pad, pad - 1),) * 2}
    specs = request.inputs[0], nc.Spec((512, 256, kernel, kernel), "float16")
    out = TRANSPOSED[1].infer(*specs, None, **attrs)
    request = ag.Request("conv_transpose2d", request.device, specs, (out,), attrs)
    tile = convolutions.TILES["128x128x32"]
    kernels = convolved(request, transposed_task(request), False, tile, 1)
    assert out.shape[2:] == (56, 56)
    assert [each.entry for each in kernels.launches].count("conv_gather") == gathers


def test_gradients_of_pictures_are_added_up() -> None:
    """Of three channels: products of all images that fit the cache, then their sums."""
    attrs = {**ONE, "stride": (2, 2), "padding": ((3, 2),) * 2}
    specs = nc.Spec((32, 64, 112, 112), "float32"), nc.Spec((64, 3, 7, 7), "float32")
    out = TRANSPOSED[1].infer(*specs, None, **attrs)
    device = request_of((1, 1, 1, 1), (1, 1, 1, 1)).device
    request = ag.Request("conv_transpose2d", device, specs, (out,), attrs)
    form = next(x for x in convolutions.IMPLEMENTATIONS if "added up" in x.label
                and x.operator == request.operator)  # fmt: skip
    assert out.shape == (32, 3, 224, 224) and form.requires.reject(request) is None
    launches = [each.entry for each in form.plan(request).launches]
    assert launches == ["copy_vectors", "tensor_products", "conv_fold"] * 4


def test_nothing_to_multiply_is_for_others() -> None:
    """No images, and a transposed convolution of no channels."""
    empty = request_of((0, 64, 32, 32), (64, 64, 3, 3))
    assert "so few products" in str(unsuited(False, partial(plain_task, problem_of), empty))
    specs = (nc.Spec((2, 0, 5, 5), "float16"), nc.Spec((0, 32, 3, 3), "float16"))
    attrs = {**ONE, "stride": (2, 2)}
    out = TRANSPOSED[1].infer(*specs, None, **attrs)
    none = ag.Request("conv_transpose2d", empty.device, specs, (out,), attrs)
    assert "0 terms" in str(unsuited(False, transposed_task, none))


def test_on_the_tensor_cores_themselves() -> None:
    """Where there are some: whole tiles and borders, strides, groups, a bias and all gradients."""
    each = convolutions.IMPLEMENTATIONS[0].requires
    device = next((d for d in OPENCL if each.unmet_everywhere(d) is None), None)
    if device is None:
        pytest.skip("no device here has tensor cores: the instructions were not run")
    ops = ("conv2d", "conv_transpose2d", "conv2d_weight_gradient")
    problems = [
        ((16, 64, 32, 32), (128, 64, 3, 3), ONE),
        ((64, 80, 27, 25), (72, 40, 3, 3), {**ONE, "stride": (2, 1), "groups": 2}),
        ((64, 128, 56, 56), (128, 128, 1, 1), NO_TAPS),
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(nc.use_device(device))
        for op in ops:
            stack.enter_context(nc.prefer(f"netcl-plugin-tensorcore:{op}"))
        for dtype in TYPES:
            for x_shape, w_shape, attrs in problems:
                arrays = [drawn(each, dtype) for each in (x_shape, w_shape, w_shape[:1])]
                x, weight, bias = (nc.tensor(each, requires_grad=True) for each in arrays)
                found = ag.conv2d(x, weight, bias, **attrs)
                above = drawn(found.shape, dtype)
                ag.backward(found, nc.tensor(above))
                exact = [each.astype("f8") for each in (*arrays, above)]
                right = reference.forward(exact[0], exact[1], found.shape, attrs)
                same(found.to_host().astype("f8"), right + exact[2][:, None, None], dtype)
                right = reference.weights(exact[0], exact[3], w_shape, attrs)
                same(weight.grad.to_host().astype("f8"), right, dtype)
                back = {**attrs, "padding": left(x_shape, w_shape, found.shape, attrs)}
                right = reference.transposed(exact[3], exact[1], x_shape, back)
                same(x.grad.to_host().astype("f8"), right, dtype)


def left(x: Any, weight: Any, out: Any, attrs: Any) -> list[tuple[int, int]]:
    """The padding of the transposed convolution that is the gradient of x."""
    found = []
    for size, kernel, count, step, (before, after) in zip(
        x[2:], weight[2:], out[2:], attrs["stride"], attrs["padding"], strict=True
    ):
        found.append((before, after - (size + before + after - kernel - (count - 1) * step)))
    return found
