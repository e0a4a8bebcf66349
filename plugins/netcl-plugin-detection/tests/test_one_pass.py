"""The fused loss: right at any size, in one pass, in every form of its kernels."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import recorded, usable_devices

import netcl_core as nc
import netcl_core.autograd as ag

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
everywhere = pytest.mark.parametrize("device", DEVICES, ids=str)
SCALES = {"heat_scale": 2.0, "reg_scale": 0.5, "beta": 0.05}
KERNEL = "weighted_bce_smooth_l1"
fused: Any = ag.fused_weighted_bce_smooth_l1_loss


def data(size: int, dtype: str = "float32", seed: int = 0) -> list[Any]:
    """Probabilities of which some are beyond the clamp, targets, and both weights."""
    rng = np.random.default_rng(seed)
    found = [rng.uniform(0.02, 0.98, size).astype(dtype) for _ in range(4)]
    found[0][::7] = 0
    found[0][3::11] = 1
    return found


def expected(pred: Any, target: Any, heat: Any, reg: Any) -> tuple[float, Any]:
    """Value and gradient in float64."""
    p, t, heat, reg = (each.astype(np.float64) for each in (pred, target, heat, reg))
    d, c, q = p - t, p.clip(1e-7), (1 - p).clip(1e-7)
    near = np.abs(d) < 0.05
    low = np.log1p(-1e-7)
    log_p = np.where(q > 1e-7, np.log(c), low)
    log_q = np.where(c > 1e-7, np.log(q), low)
    bce = -(t * log_p + (1 - t) * log_q)
    l1 = np.where(near, d * d / 0.1, np.abs(d) - 0.025)
    inside = (p >= 1e-7) & (1 - p >= 1e-7)
    of_bce = np.where(inside, (p - t) / (c * q), 0)
    of_l1 = np.where(near, d / 0.05, np.sign(d))
    return float((2 * heat * bce + 0.5 * reg * l1).sum()), 2 * heat * of_bce + 0.5 * reg * of_l1


def step(device: nc.Device, arrays: list[Any]) -> tuple[Any, Any]:
    """The loss and the gradient of pred."""
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    loss = fused(x, *others, **SCALES)
    return loss, ag.grad(loss, [x])[0]


def insist(device: nc.Device, arrays: list[Any], value: float, gradient: float) -> None:
    """Value and gradient are within relative errors, those of the gradient of its largest."""
    loss, slope = step(device, arrays)
    wanted, slopes = expected(*arrays)
    assert loss.item() == pytest.approx(wanted, rel=value, abs=1e-7)
    if slopes.size:
        error = np.abs(slope.to_host() - slopes).max() / np.abs(slopes).max()
        assert error < gradient


@everywhere
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("size", [0, 1, 3, 16, 1023, 2048, 2049, 100_003])
def test_any_size(device: nc.Device, kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if device.backend == "opencl":
        monkeypatch.setattr(device, "kind", kind)
        size += kind == "gpu"  # what was planned for the other kind is known by its shape
    insist(device, data(size), 1e-6, 1e-5)
    if device.supports_fp64:
        insist(device, data(size, "float64"), 1e-12, 1e-12)


def test_many_elements() -> None:
    """Rounding errors do not grow with the size."""
    insist(nc.default_device(), data(1 << 23), 1e-6, 1e-5)


@everywhere
def test_half_precision_is_computed_in_float(device: nc.Device) -> None:
    arrays = data(3000, "float16")
    arrays[0] = arrays[0].clip(0.02, 0.98)
    insist(device, arrays, 1e-3, 1e-3)


@everywhere
def test_a_small_loss_scale_reaches_the_gradient_in_half_precision(device: nc.Device) -> None:
    """The gradient for 1 would be 1e7, which is no float16; that for 1e-4 is."""
    arrays = [np.full(5, each, np.float16) for each in (6e-6, 1, 1, 1)]
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    ag.mul(fused(x, *others), 1e-3).backward()
    p = float(arrays[0][0])
    np.testing.assert_allclose(x.grad.to_host(), 1e-3 * (-1 / p - 1), rtol=5e-3)


@settings(max_examples=examples(25), deadline=None)
@given(
    size=st.integers(1, 300),
    seed=st.integers(0, 99),
    scale=st.sampled_from([1.0, 3.0]),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_passes_over_one_graph_agree(size: int, seed: int, scale: float, dtype: str) -> None:
    """What the forward has written is given away; later passes compute it again."""
    for device in DEVICES:
        if dtype == "float64" and not device.supports_fp64:
            continue
        arrays = data(size, dtype, seed)
        x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
        loss = fused(x, *others, **SCALES)
        wanted = expected(*arrays)[1]
        upstream = None if scale == 1 else nc.tensor(np.array(scale, dtype), device)
        for _ in range(3):
            [found] = ag.grad(loss, [x], upstream, retain_graph=True)
            limit = 1e-5 * scale * np.abs(wanted).max()
            np.testing.assert_allclose(found.to_host(), scale * wanted, atol=limit)
            found.overwrite(np.zeros(size, dtype))


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize(
    ("size", "finish"), [(900, []), (50_000, ["reduce_sum"])], ids=["one piece", "pieces"]
)
def test_launches(device: nc.Device, size: int, finish: list[str]) -> None:
    """One pass, and nothing at all for the gradient of 1; one kernel for another number."""
    arrays = data(size)
    step(device, arrays)
    with recorded(device) as stream:
        step(device, arrays)
    assert stream.launched == [KERNEL, *finish]
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    upstream = nc.tensor(np.array(2, np.float32), device)
    with recorded(device) as stream:
        ag.grad(fused(x, *others, **SCALES), [x], upstream)
    assert stream.launched == [KERNEL, *finish, "mul_forward"]


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_what_makes_the_probabilities_goes_into_the_kernel(device: nc.Device) -> None:
    """And both losses written out are the fused one."""

    def loss(z: Any, target: Any, heat: Any, reg: Any) -> Any:
        p = ag.sigmoid(z)
        of_reg = ag.weighted_smooth_l1(p, target, reg, 0.05, reduction="sum")
        return of_reg * 0.5 + ag.weighted_bce(p, target, heat, reduction="sum") * 2.0

    arrays = data(900)
    arrays[0] = np.linspace(-3, 3, 900, dtype=np.float32)
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    compiled = ag.jit_compile(loss)
    compiled(x, *others)
    with recorded(device) as stream:
        [found] = ag.grad(compiled(x, *others), [x])
    assert stream.launched == [KERNEL, "sigmoid_backward"]
    p = 1 / (1 + np.exp(-arrays[0].astype(np.float64)))
    wanted = expected(p, *arrays[1:])[1] * p * (1 - p)
    np.testing.assert_allclose(found.to_host(), wanted, atol=2e-6)


@everywhere
def test_a_gradient_of_the_gradient(device: nc.Device) -> None:
    if not device.supports_fp64:
        pytest.skip("it is compared in float64")
    arrays = [each.clip(0.1, 0.9) for each in data(20, "float64")]
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    [slope] = ag.grad(fused(x, *others, **SCALES), [x], create_graph=True)
    [second] = ag.grad(ag.sum(slope), [x])
    p, t, heat, reg = arrays
    near = np.abs(p - t) < 0.05
    wanted = 2 * heat * (t / p**2 + (1 - t) / (1 - p) ** 2) + 0.5 * reg * near / 0.05
    np.testing.assert_allclose(second.to_host(), wanted, rtol=1e-9)


@everywhere
def test_the_written_out_sum_has_gradients_of_all_operands_when_compiled(device: nc.Device) -> None:
    def loss(p: Any, t: Any, heat: Any, reg: Any) -> Any:
        bce = ag.weighted_bce(p, t, heat, reduction="sum")
        return bce + ag.weighted_smooth_l1(p, t, reg, 0.05, reduction="sum")

    operands = [nc.tensor(each.clip(0.1, 0.9), device, requires_grad=True) for each in data(40)]
    found = ag.grad(ag.jit_compile(loss)(*operands), operands)
    for one, other in zip(found, ag.grad(loss(*operands), operands), strict=True):
        np.testing.assert_allclose(one.to_host(), other.to_host(), rtol=1e-5, atol=1e-6)


@everywhere
def test_threads_share_nothing(device: nc.Device) -> None:
    results: dict[int, float] = {}
    batches = [data(20_000, seed=seed) for seed in range(6)]

    def run(i: int) -> None:
        for _ in range(5):
            loss, slope = step(device, batches[i])
            results[i] = float(np.abs(slope.to_host() - expected(*batches[i])[1]).max())
            results[i] += abs(loss.item() / expected(*batches[i])[0] - 1)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(results) == 6 and max(results.values()) < 1e-4


@everywhere
def test_threads_that_pass_one_graph(device: nc.Device) -> None:
    """Each gets a gradient of its own, whoever gets what the forward has written."""
    arrays = data(2000)
    x, *others = (nc.tensor(each, device, requires_grad=not i) for i, each in enumerate(arrays))
    wanted = expected(*arrays)[1]
    for _ in range(10):
        loss, found = fused(x, *others, **SCALES), []
        start = threading.Barrier(3)

        def run(loss: Any = loss, found: list[Any] = found, start: Any = start) -> None:
            start.wait()
            found.append(ag.grad(loss, [x], retain_graph=True)[0])

        threads = [threading.Thread(target=run) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len({id(each) for each in found}) == 3
        found[0].overwrite(np.zeros(2000, np.float32))
        for gradient in found[1:]:
            np.testing.assert_allclose(gradient.to_host(), wanted, atol=1e-3)
