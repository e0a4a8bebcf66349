"""Pooling and interpolation of any shape equal PyTorch's, with both kinds of kernels."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from daily import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from netcl_plugin_conv import max_windows, resampling
from netcl_plugin_kit.testing import FLOATS, TOLERANCE, usable_devices
from netcl_plugin_kit.testing.forcing import forced

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.cli import main

torch = pytest.importorskip("torch")

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
EVERY = usable_devices()
#: One device and NumPy for shapes drawn at random: each kernel shape builds a program.
ANY = [*OPENCL[:1], nc.get_device("numpy")]
RANDOM = np.random.default_rng(4)
DRAWN = settings(max_examples=examples(10), deadline=None,
                 suppress_health_check=list(HealthCheck))  # fmt: skip
Function = Callable[[Any], Any]


def compare(ours: Function, theirs: Function, x: Any, device: Device, scale: float = 1.0) -> None:
    """The value and the gradient, against PyTorch in float64."""
    wanted = torch.tensor(x.astype("float64"), requires_grad=True)
    expected = theirs(wanted)
    upstream = RANDOM.standard_normal(tuple(expected.shape)).astype(x.dtype)
    expected.backward(torch.tensor(upstream.astype("float64")))
    tensor = nc.Tensor.from_host(x, device, requires_grad=True)
    result = ours(tensor)
    assert result.shape == tuple(expected.shape) and result.dtype == tensor.dtype
    ag.backward(result, upstream)
    atol = scale * TOLERANCE[tensor.dtype]
    pairs = ((result, expected.detach()), (tensor.grad, wanted.grad))
    for given_, right in pairs:
        np.testing.assert_allclose(
            given_.to_host().astype("float64"), right, atol=atol * 20, rtol=atol * 10
        )


def values(shape: tuple[int, ...], dtype: str) -> Any:
    """Distinct numbers that every dtype can tell apart: ties would be PyTorch's to decide."""
    size = int(np.prod(shape))
    drawn = RANDOM.permutation(size).reshape(shape) % 2039 / 64
    return drawn.astype(nc.DTYPES[dtype].numpy)


# -- shapes drawn at random ------------------------------------------------------------------


@st.composite
def windows(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape of two axes behind batch and channels, with windows that fit."""
    shape = (draw(st.integers(0, 2)), draw(st.integers(1, 3)))
    shape += (draw(st.integers(1, 12)), draw(st.sampled_from((1, 5, 9, 17, 36, 50))))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = draw(st.none() | st.tuples(st.integers(1, 3), st.integers(1, 4)))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    for size, k, p, d in zip(shape[2:], kernel, padding, dilation, strict=True):
        assume(size + 2 * p >= d * (k - 1) + 1)
        assume(d == 1 or p == 0 or size > d)  # PyTorch writes to foreign memory for empty windows
    return shape, (kernel, stride, padding, dilation, draw(st.booleans()))


@pytest.mark.parametrize("device", ANY, ids=str)
@DRAWN
@given(found=windows(), dtype=st.sampled_from(FLOATS))
def test_max_pool2d_of_any_windows(found: Any, dtype: str, device: Device) -> None:
    shape, args = found
    if dtype in device_dtypes(device):
        theirs = lambda x: torch.nn.functional.max_pool2d(x, *args)  # noqa: E731
        compare(lambda x: ag.max_pool2d(x, *args), theirs, values(shape, dtype), device)


@pytest.mark.parametrize("device", EVERY, ids=str)
def test_a_window_without_elements_takes_none(device: Device) -> None:
    """Its taps lie on both sides of the line; PyTorch's gradient is written beyond the tensor."""
    x = nc.tensor([[[[5.0], [4.0]]]], device=device, requires_grad=True)
    value, place = ag.max_pool2d(x, (1, 2), 1, (0, 1), (1, 2), return_indices=True)
    assert value.tolist() == [[[[-np.inf], [-np.inf]]]] and place.tolist() == [[[[-1], [-1]]]]
    value.backward(nc.ones_like(value))
    assert x.grad.tolist() == [[[[0.0], [0.0]]]]


@pytest.mark.parametrize("device", ANY, ids=str)
@DRAWN
@given(found=windows(), dtype=st.sampled_from(FLOATS), include=st.booleans())
def test_avg_pool2d_of_any_windows(found: Any, dtype: str, include: bool, device: Device) -> None:
    shape, (kernel, stride, padding, _, ceil_mode) = found
    args = (kernel, stride, padding, ceil_mode, include)
    assume(all(n + 2 * p >= k for n, p, k in zip(shape[2:], padding, kernel, strict=True)))
    if dtype in device_dtypes(device):
        theirs = lambda x: torch.nn.functional.avg_pool2d(x, *args)  # noqa: E731
        compare(lambda x: ag.avg_pool2d(x, *args), theirs, values(shape, dtype), device)


@pytest.mark.parametrize("device", ANY, ids=str)
@pytest.mark.parametrize("kind", ["avg", "max"])
@DRAWN
@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    output=st.tuples(st.none() | st.integers(1, 9), st.integers(1, 9)),
)
def test_adaptive_pooling_of_any_sizes(kind: str, sizes: Any, output: Any, device: Device) -> None:
    name = f"adaptive_{kind}_pool2d"
    theirs = getattr(torch.nn.functional, name)
    x = values((2, 1, *sizes), "float32")
    compare(lambda x: getattr(ag, name)(x, output), lambda x: theirs(x, output), x, device)


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", ANY, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@DRAWN
@given(
    sizes=st.tuples(st.integers(1, 9), st.integers(1, 40)),
    new=st.tuples(st.integers(1, 20), st.integers(1, 70)),
    align=st.sampled_from((None, False, True)),
)
def test_interpolate_to_any_size(
    mode: str, sizes: Any, new: Any, align: bool | None, device: Device
) -> None:
    given_ = {"size": new, "mode": mode}
    given_ |= {"align_corners": align} if mode.startswith("bi") else {}
    theirs = lambda x: torch.nn.functional.interpolate(x.float(), **given_).double()  # noqa: E731
    x = values((2, 1, *sizes), "float32") / 8
    compare(lambda x: ag.interpolate(x, **given_), theirs, x, device, 10)


@pytest.mark.sample(2)
@pytest.mark.parametrize("device", ANY, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@DRAWN
@given(size=st.integers(1, 60), factor=st.floats(0.3, 3.7), again=st.booleans())
def test_interpolate_by_any_factor(
    mode: str, size: int, factor: float, again: bool, device: Device
) -> None:
    assume(size * factor >= 1)
    # PyTorch's gradients, unlike its values, take no notice of the factor between these sizes
    assume(mode == "bilinear" or again or int(size * factor) not in (size, 2 * size))
    given_ = {"scale_factor": (1.0, factor), "mode": mode, "recompute_scale_factor": again}
    theirs = lambda x: torch.nn.functional.interpolate(x.float(), **given_).double()  # noqa: E731
    x = values((1, 1, 2, size), "float32") / 16
    compare(lambda x: ag.interpolate(x, **given_), theirs, x, device, 40)


def device_dtypes(device: Device) -> set[str]:
    """The floating dtypes that a device takes."""
    return {dtype for dtype in FLOATS if device in usable_devices(dtype)} - {"bfloat16"}


# -- both kinds of kernels on every device ---------------------------------------------------

FORMS: list[tuple[str, Function, Function, tuple[int, ...]]] = [
    ("max", lambda x: ag.max_pool2d(x, 3, 2, 1), lambda x: F().max_pool2d(x, 3, 2, 1),
     (2, 3, 11, 70)),
    ("dilated", lambda x: ag.max_pool2d(x, 3, 1, 1, 2), lambda x: F().max_pool2d(x, 3, 1, 1, 2),
     (2, 3, 11, 40)),
    ("wide", lambda x: ag.max_pool1d(x, 19, 3), lambda x: F().max_pool1d(x, 19, 3), (3, 2, 90)),
    ("large", lambda x: ag.max_pool2d(x, 17, 5), lambda x: F().max_pool2d(x, 17, 5),
     (1, 2, 31, 40)),
    ("boxes", lambda x: ag.max_pool3d(x, 3, 2, 1), lambda x: F().max_pool3d(x, 3, 2, 1),
     (1, 2, 6, 7, 40)),
    ("adaptive", lambda x: ag.adaptive_max_pool2d(x, (3, 7)),
     lambda x: F().adaptive_max_pool2d(x, (3, 7)), (2, 2, 10, 40)),
    ("avg", lambda x: ag.avg_pool2d(x, 3, 2, 1), lambda x: F().avg_pool2d(x, 3, 2, 1),
     (2, 3, 11, 70)),
    ("pairs", lambda x: ag.avg_pool2d(x, 2), lambda x: F().avg_pool2d(x, 2), (2, 3, 10, 72)),
    ("long", lambda x: ag.avg_pool1d(x, 20, 7), lambda x: F().avg_pool1d(x, 20, 7), (2, 3, 300)),
    ("bilinear", lambda x: ag.interpolate(x, scale_factor=2, mode="bilinear"),
     lambda x: F().interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 5, 20)),
    ("nearest", lambda x: ag.interpolate(x, scale_factor=2),
     lambda x: F().interpolate(x, scale_factor=2), (2, 3, 5, 20)),
    ("trilinear", lambda x: ag.interpolate(x, scale_factor=1.5, mode="trilinear"),
     lambda x: F().interpolate(x, scale_factor=1.5, mode="trilinear"), (1, 2, 4, 5, 20)),
]  # fmt: skip
forms = pytest.mark.parametrize(("name", "ours", "theirs", "shape"), FORMS,
                                ids=[form[0] for form in FORMS])  # fmt: skip


def F() -> Any:  # noqa: N802 - as everybody calls it
    """PyTorch's functions."""
    return torch.nn.functional


@pytest.mark.sample(6)
@pytest.mark.parametrize("device", EVERY, ids=str)
@forms
def test_every_form_in_every_dtype(
    name: str, ours: Function, theirs: Function, shape: tuple[int, ...], device: Device
) -> None:
    for dtype in sorted(device_dtypes(device)):
        compare(ours, theirs, values(shape, dtype), device)


#: The forms of pooling that GPUs get, as records name them.
PER_ITEM = [
    f"netcl-plugin-conv:{each}"
    for each in ("max_windows:window per item", "max_windows_backward:element per item",
                 "resample:results per item")
]  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize(("group", "each"), [(64, 1), (256, 4)])
@pytest.mark.parametrize("device", OPENCL, ids=str)
@forms
def test_the_forms_of_gpus(
    name: str, ours: Function, theirs: Function, shape: tuple[int, ...], device: Device,
    group: int, each: int, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(device, "kind", "gpu")
    seen: list[Any] = []

    def kernel(*args: Any) -> nc.Kernel:
        seen.append(args[4])
        return nc.Kernel(*args)

    for module in (max_windows, resampling):
        monkeypatch.setattr(module, "Kernel", kernel)
    shape = (group // 16, *shape[1:])  # plans are kept by shapes, and no other test has these
    with contextlib.ExitStack() as stack:
        for label in PER_ITEM:
            stack.enter_context(forced(label, {"group": group, "each": each}))
        for dtype in sorted(device_dtypes(device)):
            compare(ours, theirs, values(shape, dtype), device)
    assert set(seen) == {(group,)}


@pytest.mark.parametrize("results", [512, 16384])
@pytest.mark.parametrize("width", [1, 4, 16])
@pytest.mark.parametrize("device", [each for each in OPENCL if each.kind == "cpu"], ids=str)
def test_the_settings_of_cpus(device: Device, width: int, results: int) -> None:
    x = values((3, 5, 37, 41), "float32")
    most = {"results": min(results, 8192), "width": width}
    average = {"results": max(results, 1024), "width": width}
    with (
        forced("netcl-plugin-conv:max_windows:lines of windows", most),
        forced("netcl-plugin-conv:resample:lines by tables", average),
    ):
        compare(
            lambda x: ag.max_pool2d(x, 3, 2, 1), lambda x: F().max_pool2d(x, 3, 2, 1), x, device
        )
        compare(
            lambda x: ag.avg_pool2d(x, 3, 1, 1), lambda x: F().avg_pool2d(x, 3, 1, 1), x, device
        )


@pytest.mark.parametrize("device", OPENCL[:1], ids=str)
def test_pooling_is_tuned(device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`netcl tune` measures and records it, and `netcl plugins why` shows the record."""
    pytest.importorskip("netcl_plugin_kit")
    programs = Path(os.environ["NETCL_CACHE_DIR"]) / "programs"
    (tmp_path / "programs").symlink_to(programs.resolve())
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))

    def run(group: Any, words: list[str]) -> Any:
        result = CliRunner().invoke(group, words)
        return SimpleNamespace(
            exit_code=result.exit_code, output=" ".join(result.output.split())
        )  # however it is folded

    with nc.use_device(device):
        for op, part in (("max_pool2d", "max_windows"), ("avg_pool2d", "resample")):
            call = [op, "--shapes", "2x3x40x44", "--attr", "kernel_size=2"]
            before = run(main.netcl, ["plugins", "why", *call]).output
            assert f"settings of {part}" in before and "the default; no record" in before
            tuned = run(main.netcl, ["tune", *call, "--budget", "2"])
            assert tuned.exit_code == 0 and f":{part}:" in tuned.output
            after = run(main.netcl, ["plugins", "why", *call]).output
            assert f"settings of {part}" in after and "measured here on" in after
            assert "no record" not in after
            other = [
                *call[:3],
                "--attr",
                "kernel_size=3",
                "--attr",
                "stride=2",
                "--attr",
                "padding=1",
            ]
            others = run(main.netcl, ["plugins", "why", *other]).output
            assert f"settings of {part}" in others and "measured here" not in others


# -- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", EVERY, ids=str)
def test_nan_and_infinities_as_in_pytorch(device: Device) -> None:
    x = RANDOM.standard_normal((2, 2, 9, 40)).astype("float32")
    x[0, 0, 3, 5] = x[0, 1, 8, 39] = np.nan
    x[1, 0, :, 7] = np.inf
    x[1, 1] = -np.inf
    for args in ((3, 2, 1), (2,), (3, 1, 1, 1, True)):
        result, places = ag.max_pool2d(nc.Tensor.from_host(x, device), *args, return_indices=True)
        wanted, indices = F().max_pool2d(torch.tensor(x), *args, return_indices=True)
        np.testing.assert_array_equal(result.to_host(), wanted)
        np.testing.assert_array_equal(places.to_host(), indices)


@pytest.mark.parametrize("device", EVERY, ids=str)
def test_the_first_of_equal_elements_gets_the_gradient(device: Device) -> None:
    x = nc.Tensor.from_host(np.ones((1, 1, 6, 40), "float32"), device, requires_grad=True)
    result, places = ag.max_pool2d(x, (3, 2), 2, (1, 0), return_indices=True)
    wanted = torch.ones((1, 1, 6, 40), requires_grad=True)
    expected, indices = F().max_pool2d(wanted, (3, 2), 2, (1, 0), return_indices=True)
    expected.sum().backward()
    ag.sum(result).backward()
    np.testing.assert_array_equal(places.to_host(), indices)
    np.testing.assert_array_equal(x.grad.to_host(), wanted.grad)


@pytest.mark.parametrize("device", EVERY, ids=str)
@pytest.mark.parametrize(
    "name", ["max", "adaptive", "dilated", "boxes", "avg", "bilinear", "nearest"]
)
def test_second_derivatives(name: str, device: Device) -> None:
    if device not in usable_devices("float64"):
        pytest.skip("no float64")
    _, ours, theirs, shape = next(form for form in FORMS if form[0] == name)
    x = values(shape, "float64") / 16
    tensor = nc.Tensor.from_host(x, device, requires_grad=True)
    wanted = torch.tensor(x, requires_grad=True)
    (first,) = ag.grad(ag.sum(ag.exp(ours(tensor))), [tensor], create_graph=True)
    (right,) = torch.autograd.grad(theirs(wanted).exp().sum(), [wanted], create_graph=True)
    ag.sum(ag.square(first)).backward()
    right.square().sum().backward()
    np.testing.assert_allclose(tensor.grad.to_host(), wanted.grad, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", EVERY, ids=str)
def test_data_with_gaps_and_the_same_bits_twice(device: Device) -> None:
    wide = RANDOM.standard_normal((4, 6, 22, 50)).astype("float32")
    x = np.asfortranarray(wide)[::2, ::-1, :, ::2]
    for ours in (FORMS[0][1], FORMS[9][1]):
        found = [ours(nc.Tensor.from_host(each, device)).to_host() for each in (x, x.copy())]
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("device", EVERY, ids=str)
def test_an_axis_less_is_no_batch(device: Device) -> None:
    x = values((3, 8, 20), "float32")
    one = ag.max_pool2d(nc.Tensor.from_host(x, device), 2).to_host()
    np.testing.assert_array_equal(one, F().max_pool2d(torch.tensor(x), 2))


def test_compiled_and_captured_pooling_is_the_same() -> None:
    def step(x: Any) -> Any:
        return ag.interpolate(ag.avg_pool2d(ag.max_pool2d(x, 3, 2, 1), 2), size=9, mode="bilinear")

    first, second = (values((2, 3, 20, 36), "float32") * sign for sign in (1, -1))
    wanted = [step(nc.tensor(x)).to_host() for x in (first, second)]
    compiled = ag.jit_compile(step)
    np.testing.assert_array_equal(compiled(nc.tensor(first)).to_host(), wanted[0])
    graph = ag.capture(step, first)
    np.testing.assert_array_equal(graph(second).to_host(), wanted[1])


@pytest.mark.nightly
@pytest.mark.parametrize("windows", [4, 8, 15, 16])
@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_halves_in_vectors(device: Device, windows: int) -> None:
    """PoCL ends the process where it builds vectors of eight halves."""
    x = RANDOM.standard_normal((2, 3, 5, windows + 2)).astype(np.float16)
    with nc.use_device(device):
        found = ag.max_pool2d(x, 3, 1, 1).numpy()
    wanted = torch.nn.functional.max_pool2d(torch.from_numpy(x), 3, 1, 1).numpy()
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("norm", [3.0, 1.5])
def test_lp_pool_of_a_negative_sum_has_pytorchs_gradient(norm: float) -> None:
    found = []
    for t in (torch, nc):
        x = t.tensor([[[1.0, -2.0, 3.0, 4.0, 1.0, 0.0]]], requires_grad=True)
        t.nn.functional.lp_pool1d(x, norm, 2).sum().backward()
        found.append(x.grad.numpy())
    assert np.isnan(found[0][0, 0, :2]).all()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
