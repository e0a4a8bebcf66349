"""How many kernels a loss of class indices is, with its gradient and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded, usable_devices
from netcl_plugin_losses.class_mean import CLASS_MEAN
from netcl_plugin_losses.nll import NLL_ROWS_BACKWARD
from netcl_plugin_losses.rows import CROSS_ENTROPY_ROWS_BACKWARD

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ShapeError

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
everywhere = pytest.mark.parametrize("device", DEVICES, ids=str)
CLASSES, IGNORED = 7, -100
RNG = np.random.default_rng(5)
REDUCED = {"mean": ["class_mean"], "sum": ["reduce_sum"], "none": []}
ROWS = {"cross_entropy": "cross_entropy_rows", "nll_loss": "nll_rows"}
ONE_PASS = "cross_entropy_one_pass"


def logits(rows: int, device: nc.Device, dtype: str = "float32") -> Any:
    return nc.tensor(RNG.standard_normal((rows, CLASSES)).astype(dtype), device, requires_grad=True)


def labels(rows: int, device: nc.Device, every: int = 3) -> Any:
    """Class indices, of which the first of `every` few is ignored (0: none)."""
    found = RNG.integers(0, CLASSES, rows)
    if every:
        found[::every] = IGNORED
    return nc.tensor(found, device)


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize("way", ["eager", "compiled", "captured", "captured compiled"])
@pytest.mark.parametrize("reduction", REDUCED)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("op", ROWS)
def test_a_step_launches_no_more(
    device: nc.Device, way: str, reduction: str, weighted: bool, op: str
) -> None:
    weight = nc.tensor(RNG.random(CLASSES).astype(np.float32), device) if weighted else None

    def loss(x: Any, target: Any) -> Any:
        return getattr(ag, op)(x, target, weight, reduction=reduction)

    function: Callable[..., Any] = ag.jit_compile(loss) if "compiled" in way else loss
    x = logits(5, device)
    ones = nc.Tensor.ones((5,), device=device) if reduction == "none" else None

    def step(target: Any) -> Any:
        return ag.grad(function(x, target), [x], ones)

    expected = [ROWS[op], *REDUCED[reduction], f"{ROWS[op]}_backward"]
    if op == "cross_entropy" and reduction != "none":
        expected = [ONE_PASS]
    for every in (0, 3):
        target = labels(5, device, every)
        step(target)  # makes the programs
        if "captured" in way:
            graph = ag.capture(step, target)
            found = [
                each.launch.entry for each in graph._captured().commands if hasattr(each, "launch")
            ]
            assert graph.launches == len(expected)
        else:
            with recorded(device) as stream:
                step(target)
            found = stream.launched
        assert found == expected


def step_of(rows: int, dtype: str, scale: float, **options: Any) -> Callable[[nc.Device], Any]:
    """A step of cross_entropy times a number, with ignored rows."""
    data = (RNG.standard_normal((rows, 100)) * 3).astype(dtype)
    target = RNG.integers(0, 100, rows)
    target[::3] = IGNORED

    def step(device: nc.Device) -> Any:
        x = nc.tensor(data, device, requires_grad=True)
        loss = ag.cross_entropy(x, target, **options)
        return ag.grad(loss if scale == 1 else ag.mul(loss, scale), [x])

    return step


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize(
    ("dtype", "scale", "options", "expected"),
    [
        ("float32", 1, {}, ["class_total", ONE_PASS, "reduce_sum"]),
        ("float32", 1, {"reduction": "sum"}, [ONE_PASS, "reduce_sum"]),
        ("float32", 3, {"reduction": "sum"}, [ONE_PASS, "reduce_sum", "mul_forward",
                                              "mul_backward", "mul_forward"]),
        ("float16", 1, {}, ["cross_entropy_rows", "class_mean", "cross_entropy_rows_backward"]),
    ],
)  # fmt: skip
def test_many_rows(
    device: nc.Device, dtype: str, scale: float, options: Any, expected: list[str]
) -> None:
    """In half precision the gradient waits for the scale of the loss."""
    step = step_of(200, dtype, scale, **options)
    step(device)
    with recorded(device) as stream:
        step(device)
    assert stream.launched == expected


@everywhere
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(5, 7), (900, 31), (2, 2500), (3, 17, 5)], ids=str)
def test_passes_over_one_graph_agree(
    device: nc.Device, reduction: str, weighted: bool, smoothing: float, shape: tuple[int, ...]
) -> None:
    """What the forward has written is given away; the next pass computes it again."""
    data = RNG.standard_normal(shape).astype(np.float32)
    target = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
    target.reshape(-1)[::4] = IGNORED
    weight = RNG.random(shape[1]).astype(np.float32) + 0.5 if weighted else None
    x = nc.tensor(data, device, requires_grad=True)
    loss = ag.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)
    [scaled] = ag.grad(loss, [x], nc.tensor(np.float32(2), device), retain_graph=True)
    [first] = ag.grad(loss, [x], retain_graph=True)
    first_values = first.to_host()
    first.overwrite(np.zeros(shape))
    [second] = ag.grad(loss, [x], retain_graph=True)
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    [recorded_one] = ag.grad(loss, [x], create_graph=True)
    for found, factor in ((second, 1), (x.grad, 2), (scaled, 2), (recorded_one, 1)):
        np.testing.assert_allclose(
            found.to_host(), factor * first_values, rtol=2e-5, atol=2e-6 * abs(first_values).max()
        )


@everywhere
def test_a_captured_backward_gives_a_gradient_of_its_own(device: nc.Device) -> None:
    """A replay gives again what belonged to a graph from before the capture."""
    x, target = logits(5, device), labels(5, device)
    loss = ag.cross_entropy(x, target)
    with nc.use_device(device):
        graph = ag.capture(lambda: ag.grad(loss, [x]))
    [wanted] = [each.to_host() for each in graph()]
    [found] = graph()
    found.overwrite(np.zeros((5, CLASSES)))
    np.testing.assert_array_equal(graph()[0].to_host(), wanted)
    assert np.abs(wanted).max() > 0


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_what_makes_the_logits_goes_into_the_kernel_of_the_rows(device: nc.Device) -> None:
    function = ag.jit_compile(lambda x, target: ag.cross_entropy(x * 0.5, target))
    x, target = logits(5, device), labels(5, device)
    function(x, target)
    with recorded(device) as stream:
        function(x, target)
    assert stream.launched == [ONE_PASS]


# -- the mean --------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 300, 8192, 8193, 20_011])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_of_any_number_of_rows(
    device: nc.Device, kind: str, rows: int, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device.backend == "opencl":
        monkeypatch.setattr(device, "kind", kind)
    weight = RNG.random(CLASSES).astype(np.float32) + 0.5
    losses = RNG.random(rows).astype(np.float32)
    target = RNG.integers(0, CLASSES, rows)
    target[::3] = IGNORED
    losses[::3] = 0
    given = [nc.tensor(each, device) for each in (losses, target, weight)]
    found = CLASS_MEAN(*given[:2], given[2] if weighted else None, IGNORED)
    own = np.where(target == IGNORED, 0, weight[target.clip(0)] if weighted else 1).astype(
        np.float64
    )
    assert found.total.item() == pytest.approx(own.sum(), rel=1e-6)
    with np.errstate(all="ignore"):
        wanted = losses.sum(dtype=np.float64) / own.sum()
    assert found.mean.item() == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@everywhere
def test_the_mean_of_many_rows_in_half_precision(device: nc.Device) -> None:
    """Neither the sum nor the count is one of float16, nor is the gradient's factor."""
    x = nc.tensor(np.zeros((100_000, 2), np.float16), device, requires_grad=True)
    target = nc.tensor(np.zeros(100_000, np.int64), device)
    loss = ag.cross_entropy(x, target)
    assert loss.item() == pytest.approx(np.log(2), rel=1e-3)
    ag.mul(loss, 1000.0).backward()
    np.testing.assert_allclose(x.grad.to_host()[:, 1], 0.005, rtol=1e-2)


def test_the_mean_says_what_does_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"class_mean: losses \(3,\) and target \(2,\)"):
        CLASS_MEAN(nc.Tensor.ones((3,)), nc.Tensor.zeros((2,), "int64"), None, IGNORED)


# -- one gradient for all rows ---------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("op", ROWS)
def test_a_gradient_that_all_rows_share_has_gradients(
    device: nc.Device, weighted: bool, averaged: bool, op: str
) -> None:
    """As if it were given for each row, and divided before."""
    if not device.supports_fp64:
        pytest.skip("it is compared in float64")
    x, target = logits(6, device, "float64"), labels(6, device)
    weight = nc.tensor(RNG.random(CLASSES), device) if weighted else None
    total = nc.tensor(np.array(2.5), device) if averaged else None
    one = nc.tensor(np.array(0.7), device, requires_grad=True)
    rows = nc.tensor(np.full(6, 0.28 if averaged else 0.7), device, requires_grad=True)
    upstream = nc.tensor(RNG.standard_normal((6, CLASSES)), device)

    def results(grad: Any, total: Any) -> list[Any]:
        if op == "nll_loss":
            found = NLL_ROWS_BACKWARD(target, grad, weight, total, IGNORED, x.shape)
            return [found, *ag.grad(found, [grad], upstream)]
        found = CROSS_ENTROPY_ROWS_BACKWARD(x, target, grad, weight, total, IGNORED, 0.1)
        return [found, *ag.grad(found, [grad, x], upstream)]

    shared, separate = results(one, total), results(rows, None)
    separate[1] = ag.sum(separate[1]) * (0.4 if averaged else 1.0)
    for found, wanted in zip(shared, separate, strict=True):
        np.testing.assert_allclose(found.to_host(), wanted.to_host(), rtol=1e-12, atol=1e-14)
