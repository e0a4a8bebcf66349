"""batch_norm, group_norm and instance_norm equal PyTorch's, with both kinds of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import TOLERANCE, usable_devices
from netcl_plugin_tensor import norm_columns, norm_runs

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.errors import ArgumentError, DtypeError, ShapeError

torch = pytest.importorskip("torch")

EVERY = usable_devices()
OPENCL = [device for device in EVERY if device.backend == "opencl"]
ANY = [*OPENCL[:1], nc.get_device("numpy")]
RANDOM = np.random.default_rng(2)
DRAWN = settings(max_examples=examples(25), deadline=None,
                 suppress_health_check=list(HealthCheck))  # fmt: skip
everywhere = pytest.mark.parametrize("device", EVERY, ids=str)


def functions(groups: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Ours and PyTorch's: batch_norm in training, with a relu behind it if -1, of a sum if -2; or
    group_norm."""
    if groups > 0:
        theirs = torch.nn.functional.group_norm
        return (lambda x, w, b: ag.group_norm(x, groups, w, b),
                lambda x, w, b: theirs(x, groups, w, b))  # fmt: skip
    theirs = torch.nn.functional.batch_norm
    if groups:
        part, half = norm_runs.NORM_RUNS, lambda x: x * 0.5 if groups < -1 else None
        return (lambda x, w, b: part(x, w, b, 0, 1e-5, rectified=True, added=half(x))[0],
                lambda x, w, b: (theirs(x, None, None, w, b, True)
                                 + (x * 0.5 if groups < -1 else 0)).relu())  # fmt: skip
    return (lambda x, w, b: ag.batch_norm(x, None, None, w, b, True),
            lambda x, w, b: theirs(x, None, None, w, b, True))  # fmt: skip


def compare(
    groups: int, shape: tuple[int, ...], dtype: str, device: Device, affine: str = "wb",
    offset: float = 1.0,
) -> None:  # fmt: skip
    """Values and gradients against PyTorch's in float64."""
    ours, theirs = functions(groups)
    kind = nc.DTYPES[dtype].numpy
    x = (RANDOM.standard_normal(shape) * 2 + offset).astype(kind)
    weight, bias = (
        RANDOM.standard_normal(shape[1]).astype(kind) if name in affine else None for name in "wb"
    )
    given_ = [None if a is None else nc.Tensor.from_host(a, device, requires_grad=True)
              for a in (x, weight, bias)]  # fmt: skip
    wanted = [None if a is None else torch.tensor(a.astype("float64"), requires_grad=True)
              for a in (x, weight, bias)]  # fmt: skip
    upstream = RANDOM.standard_normal(shape).astype(kind)
    result, expected = ours(*given_), theirs(*wanted)
    assert result.dtype == dtype
    ag.backward(result, upstream)
    expected.backward(torch.tensor(upstream.astype("float64")))
    close(result.to_host(), expected.detach(), dtype)
    for tensor, right in zip(given_, wanted, strict=True):
        if tensor is not None:
            close(tensor.grad.to_host(), right.grad, dtype)


def close(given_: Any, wanted: Any, dtype: str) -> None:
    """Within the dtype's tolerance of the largest element."""
    right = np.asarray(wanted)
    atol = TOLERANCE[dtype] * max(1.0, float(np.abs(right).max(initial=0)))
    np.testing.assert_allclose(given_.astype("float64"), right, rtol=0, atol=atol * 4)


@st.composite
def shapes(draw: Any) -> tuple[int, tuple[int, ...]]:
    """Groups and a shape (N, C, ...): 2 values a channel or more."""
    groups, per = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    lead = (draw(st.integers(2, 5)), max(1, groups) * per)
    tail = draw(st.lists(st.sampled_from((1, 2, 3, 7, 16, 17, 40)), max_size=3))
    return groups if np.prod(tail) * per > 3 else 0, (*lead, *tail)


@pytest.mark.parametrize("device", ANY, ids=str)
@DRAWN
@given(found=shapes(), affine=st.sampled_from(("wb", "w", "b", "")))
def test_norms_of_any_shape(found: Any, affine: str, device: Device) -> None:
    groups, shape = found
    assume(not groups or affine != "b")  # PyTorch's group_norm has no gradient then
    wide = "float64" if device in usable_devices("float64") else "float32"
    compare(groups, shape, wide, device, affine)


FORMS = [(0, (5, 3, 7, 7)), (0, (40, 1, 333)), (0, (9, 5)), (2, (3, 6, 5, 7)), (6, (3, 6, 40)),
         (-1, (5, 3, 7, 7)), (-1, (9, 5)), (-2, (40, 1, 333)), (-2, (9, 5))]  # fmt: skip
forms = pytest.mark.parametrize(("groups", "shape"), FORMS, ids=str)


@everywhere
@forms
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_form(groups: int, shape: tuple[int, ...], dtype: str, device: Device) -> None:
    if device in usable_devices(dtype):
        compare(groups, shape, dtype, device)


@pytest.mark.sample(2)
@pytest.mark.parametrize("group", [64, 256])
@pytest.mark.parametrize("device", OPENCL, ids=str)
@forms
def test_the_forms_of_gpus(
    groups: int, shape: tuple[int, ...], device: Device, group: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whole teams and divided ones; plans are kept by shapes, which no other test has."""
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(device, "max_work_group_size", group)
    seen: list[tuple[str, Any]] = []

    def kernel(*args: Any) -> nc.Kernel:
        seen.append((args[1], args[4]))
        return nc.Kernel(*args)

    for module in (norm_runs, norm_columns):
        monkeypatch.setattr(module, "Kernel", kernel)
    monkeypatch.setattr(norm_columns, "_GROUP", group)
    monkeypatch.setattr(norm_runs, "_WORTH", 1)
    for units in (1, 999):
        monkeypatch.setattr(device, "compute_units", units)
        for affine in ("wb", "w", ""):
            compare(groups, (group // 8 + units % 7, *shape[1:]), "float32", device, affine)
    assert {size for _, size in seen} == {(group,)}
    divided = {entry for entry, _ in seen if entry.endswith("_apply")}
    whole = len(shape) == 2 or shape[1] == groups  # teams of one run are not divided
    assert divided == (set() if whole else {"norm_runs_apply", "norm_runs_backward_apply"})


@pytest.mark.parametrize(("shape", "channels", "groups", "launches"), [
    ((128, 64, 32, 32), 0, 1024, ("parts", "apply")), ((128, 512, 4, 4), 0, 512, ("",)),
    ((8, 64, 56, 56), 8, 256, ("parts", "apply")), ((64, 256, 8, 8), 32, 2048, ("",)),
])  # fmt: skip
@pytest.mark.parametrize("back", [False, True], ids=["forward", "backward"])
def test_a_large_gpu_is_filled(
    back: bool, shape: tuple[int, ...], channels: int, groups: int, launches: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By both launches of each direction, which read 16 bytes at a time."""
    device = ANY[0]
    for name, value in {"kind": "gpu", "compute_units": 132, "max_work_group_size": 1024}.items():
        monkeypatch.setattr(device, name, value)
    teams = (shape[0] * channels,) if channels else shape[1:2]
    x, team, channel = (nc.Spec(s, "float32") for s in (shape, teams, shape[1:2]))
    given_ = (x, x, team, team, channel) if back else (x, channel, channel)
    attrs = {
        "groups": channels,
        "eps": 1e-5,
        **({"sums": "float32"} if back else {"momentum": 0.1}),
    }
    present = (True,) * len(given_) + (False,) * (2 if back else 5)
    name = "norm_runs_backward" if back else "norm_runs"
    request = ag.Request(name, device, given_, (x, channel, channel), attrs, present)
    record = norm_runs.NORM_RUNS_BACKWARD if back else norm_runs.NORM_RUNS
    plan = record.implementations[0].plan(request)
    made = [each for each in plan.launches if each.entry.startswith(name)]
    assert [each.entry for each in made] == [f"{name}_{end}" if end else name for end in launches]
    for each in made:
        assert each.global_size == (groups * 256,) and each.local_size == (256,)
        assert each.context["width"] == 4


@everywhere
def test_statistics_far_from_zero_are_accurate(device: Device) -> None:
    """float32 keeps what a sum of squares would lose: a mean of 1e4 and a deviation of 1."""
    x = (RANDOM.standard_normal((32, 2, 40, 40)) + 1e4).astype("float32")
    x[0, 0, 0, 0] = 0.0  # the first element is no good guess of the mean
    mean, variance = nc.Tensor.zeros((2,), device=device), nc.Tensor.ones((2,), device=device)
    ag.batch_norm(nc.Tensor.from_host(x, device), mean, variance, training=True, momentum=1.0)
    wide = x.astype("float64")
    np.testing.assert_allclose(mean.to_host(), wide.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(variance.to_host(), wide.var((0, 2, 3), ddof=1), rtol=2e-4)


@everywhere
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_channel(value: float, device: Device) -> None:
    x = RANDOM.standard_normal((4, 3, 5, 7)).astype("float32")
    x[2, 1, 3, 4] = value
    result = ag.batch_norm(nc.Tensor.from_host(x, device), None, None, training=True).to_host()
    assert np.isnan(result[:, 1]).all() and np.isfinite(result[:, [0, 2]]).all()


@everywhere
def test_running_statistics_move_as_in_pytorch(device: Device) -> None:
    mean, variance = nc.Tensor.zeros((3,), device=device), nc.Tensor.ones((3,), device=device)
    right = torch.zeros(3), torch.ones(3)
    for momentum in (0.1, 0.5, 1.0):
        x = RANDOM.standard_normal((4, 3, 5)).astype("float32")
        given_ = nc.Tensor.from_host(np.array(momentum, "float32"), device)
        for rate in (momentum, given_):
            ag.batch_norm(nc.Tensor.from_host(x, device), mean, variance, training=True,
                          momentum=rate)  # fmt: skip
            torch.nn.functional.batch_norm(torch.tensor(x), *right, training=True,
                                           momentum=momentum)  # fmt: skip
        np.testing.assert_allclose(mean.to_host(), right[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variance.to_host(), right[1], rtol=1e-5)
    ag.instance_norm(nc.Tensor.from_host(x, device), mean, variance)
    torch.nn.functional.instance_norm(torch.tensor(x), *right)
    np.testing.assert_allclose(mean.to_host(), right[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance.to_host(), right[1], rtol=1e-5)
    last = ag.instance_norm(nc.Tensor.from_host(x, device), mean, variance, use_input_stats=False)
    wanted = torch.nn.functional.instance_norm(torch.tensor(x), *right, use_input_stats=False)
    np.testing.assert_allclose(last.to_host(), wanted, rtol=1e-4, atol=1e-5)


@everywhere
def test_weights_of_another_dtype(device: Device) -> None:
    """Half data with float32 weights stays half, and each gradient has its operand's dtype."""
    x = nc.Tensor.from_host(RANDOM.standard_normal((4, 2, 9)).astype("float16"), device)
    weight, bias = (nc.Tensor.ones((2,), device=device, requires_grad=True) for _ in range(2))
    for groups in (0, 1):
        result = functions(groups)[0](x.requires_grad_(), weight, bias)
        ag.sum(result.astype("float32")).backward()
        assert (result.dtype, x.grad.dtype, weight.grad.dtype) == ("float16", "float16", "float32")
        np.testing.assert_allclose(bias.grad.to_host(), [36, 36] if not groups else [72, 72])


@pytest.mark.parametrize("which", ["mean", "variance"])
@everywhere
def test_the_part_gives_gradients_of_its_statistics(which: str, device: Device) -> None:
    x = RANDOM.standard_normal((4, 3, 7)).astype("float32")
    tensor = nc.Tensor.from_host(x, device, requires_grad=True)
    place = ("mean", "variance").index(which) + 1
    ag.sum(norm_runs.NORM_RUNS(tensor, None, None, 0, 1e-5)[place]).backward()
    centered = x - x.mean((0, 2), keepdims=True)
    wanted = np.full_like(x, 1 / 28) if which == "mean" else centered * (2 / 28)
    np.testing.assert_allclose(tensor.grad.to_host(), wanted, rtol=1e-4, atol=1e-6)


@everywhere
def test_an_empty_batch_has_no_slope(device: Device) -> None:
    x, w = (nc.Tensor.zeros(shape, device=device, requires_grad=True) for shape in ((0, 4, 3), 4))
    result = ag.group_norm(x, 2, w, w)
    ag.sum(result).backward()
    assert result.shape == x.grad.shape == (0, 4, 3)
    np.testing.assert_array_equal(w.grad.to_host(), np.zeros(4))


def test_mistakes_are_named() -> None:
    x = nc.Tensor.ones((2, 4, 3))
    with pytest.raises(ShapeError, match=r"group_norm: x of shape \(2, 4, 3\) in 3 groups"):
        ag.group_norm(x, 3)
    with pytest.raises(ShapeError, match="batch_norm: a weight of shape"):
        ag.batch_norm(x, None, None, nc.Tensor.ones((3,)), training=True)
    with pytest.raises(ShapeError, match="2 or more values a channel"):
        ag.batch_norm(nc.Tensor.ones((1, 4)), None, None, training=True)
    with pytest.raises(ShapeError, match="instance_norm: x of shape"):
        ag.instance_norm(nc.Tensor.ones((3, 4, 1)))
    with pytest.raises(ArgumentError, match="batch_norm: no running statistics"):
        ag.batch_norm(x, None, None)
    with pytest.raises(DtypeError, match="group_norm: a int32"):
        ag.group_norm(nc.tensor(np.ones((2, 4, 3), "int32")), 2)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_rms_norm_of_a_list(device: Device) -> None:
    with nc.use_device(device):
        assert ag.rms_norm([[3.0, 4.0]], 2).shape == (1, 2)
        with pytest.raises(DtypeError, match="rms_norm: a int64 tensor"):
            ag.rms_norm([[3, 4]], 2)
