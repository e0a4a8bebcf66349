"""softmax and the norms of contiguous rows: tails of vectors, blocks of rows, odd values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import (
    FLOATS,
    Case,
    check_values,
    normal,
    recorded,
    usable_devices,
)

import netcl_core as nc
import netcl_core.autograd as ag

torch = pytest.importorskip("torch")
X = normal(3)
OPS = (
    Case("softmax", (X,), "softmax", {"dim": -1}),
    Case("log_softmax", (X,), "log_softmax", {"dim": -1}),
    Case("layer_norm", (X, X, X), call=lambda x, w, b: ag.layer_norm(x, w.shape, w, b),
         torch=lambda t, x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b)),
    Case("layer_norm", (X,), call=lambda x: ag.layer_norm(x, x.shape[-1]),
         torch=lambda t, x: t.nn.functional.layer_norm(x, x.shape[-1:])),
    Case("rms_norm", (X, X), call=lambda x, w: ag.rms_norm(x, w.shape, w, 1e-6),
         torch=lambda t, x, w: t.nn.functional.rms_norm(x, w.shape, w, 1e-6)),
)  # fmt: skip
INF = float("inf")
ODD_ROWS = {
    "all -inf": [-INF] * 20,
    "some -inf": [-INF, 1.0, 2.0, -INF] * 17,
    "one number": [-INF] * 16 + [5.0],
    "inf": [1.0] * 70 + [INF, 0.0],
    "nan in a vector": [0.0] * 3 + [float("nan")] + [1.0] * 64,
    "nan in the tail": [1.0] * 64 + [float("nan"), 2.0],
    "huge": [3e38, -3e38, 3e38, 0.0] * 16,
    "far below": [0.0] + [-1e30] * 40,
}


@pytest.fixture(params=usable_devices(), ids=str)
def device(request: Any) -> Iterator[nc.Device]:
    """Each device at hand, NumPy's path too."""
    with nc.use_device(request.param) as found:
        yield found


def check(case: Case, rows: int, size: int, device: nc.Device, dtype: str) -> None:
    """Values and gradients."""
    check_values(case, [(rows, size), (size,), (size,)][: len(case.inputs)], device, dtype)


@pytest.mark.parametrize("size", [1, 15, 16, 17, 63, 64, 65, 131])
@pytest.mark.parametrize("case", OPS, ids=str)
def test_tails_of_vectors(case: Case, size: int, device: nc.Device) -> None:
    """Vectors one by one, four at a time, and the elements after the last; several rows a block."""
    if size > 1 or "norm" not in case.op:  # 1 / sqrt(eps) times what does not quite cancel
        check(case, 77, size, device, "float32")


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    case=st.sampled_from(OPS),
    rows=st.sampled_from((1, 2, 33, 300)),
    size=st.integers(2, 200) | st.sampled_from((1024, 4099)),
    dtype=st.sampled_from(FLOATS),
)
def test_rows_of_any_shape_and_dtype(
    device: nc.Device, case: Case, rows: int, size: int, dtype: str
) -> None:
    if dtype != "float64" or device.supports_fp64:
        check(case, rows, size, device, dtype)


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("name", ODD_ROWS)
def test_values_that_are_no_numbers_or_huge(op: str, name: str, device: nc.Device) -> None:
    """As in PyTorch, in a block with rows of plain numbers; these stay as they are."""
    row = np.array(ODD_ROWS[name], "float32")
    given = np.stack([np.linspace(-2, 2, row.size, dtype="float32"), row, row[::-1]])
    x, theirs = nc.tensor(given, requires_grad=True), torch.tensor(given, requires_grad=True)
    y, wanted = getattr(ag, op)(x), getattr(torch, op)(theirs, -1)
    np.testing.assert_allclose(y.numpy(), wanted.detach().numpy(), rtol=2e-5, atol=1e-7)
    weights = np.linspace(-1, 1, given.size, dtype="float32").reshape(given.shape)
    y.backward(weights)
    wanted.backward(torch.tensor(weights))
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("case", OPS, ids=str)
def test_rows_of_a_view(case: Case, device: nc.Device) -> None:
    """A transposed input, whose rows do not lie together."""
    data = np.random.default_rng(0).standard_normal((37, 6)).astype("float32")
    given = [np.linspace(0.5, 2, 37, dtype="float32")] * (len(case.inputs) - 1)
    x = nc.tensor(data, requires_grad=True)
    call = case.call or getattr(ag, case.op)
    y = call(ag.transpose(x, 0, 1), *map(nc.tensor, given), **dict(case.attrs))
    theirs = torch.tensor(data, requires_grad=True)
    there = case.torch if callable(case.torch) else lambda t, z: getattr(t, case.op)(z, -1)
    wanted = there(torch, theirs.T, *map(torch.tensor, given))
    np.testing.assert_allclose(y.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    ag.sum(ag.square(y)).backward()
    wanted.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_weights_of_no_rows_and_of_many(device: nc.Device) -> None:
    """Gradients of weight and bias: zeros of no rows; of many, what float64 gives."""
    for rows in (0, 5000):
        data = np.random.default_rng(rows).standard_normal((rows, 24)).astype("float32")
        w, b = (nc.tensor(np.ones(24, "float32"), requires_grad=True) for _ in range(2))
        ag.layer_norm(nc.tensor(data), 24, w, b).backward(np.ones((rows, 24), "float32"))
        wide = data.astype("float64")
        h = wide - wide.mean(1, keepdims=True)
        h /= np.sqrt(np.square(h).mean(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(w.grad.numpy(), h.sum(0), rtol=1e-4, atol=2e-4)
        np.testing.assert_array_equal(b.grad.numpy(), np.full(24, rows, "float32"))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_gradient_of_a_residual_connection_is_added_by_the_norm(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a launch of its own; anomaly mode, which looks at each part, adds them apart."""
    device = nc.default_device()
    if not device.has_kernels:
        pytest.skip("no kernels")
    monkeypatch.setattr(device, "kind", kind)
    grads, sums = [], []
    for checked in (False, True):
        x = nc.tensor(np.linspace(-2, 3, 5 * 37, dtype=np.float32).reshape(5, 37))
        x.requires_grad_()
        y = x * 2.0
        z = y + ag.layer_norm(y, (37,), nc.full((37,), 1.5), nc.ones(37))
        loss = ag.sum(ag.square(z))
        with ag.detect_anomaly(checked), recorded(device) as stream:
            loss.backward()
        grads.append(x.grad.numpy())
        sums.append([entry for entry in stream.launched if "accumulate" in entry])
    np.testing.assert_allclose(*grads, rtol=2e-6, atol=2e-5)
    assert len(sums[0]) == 0 < len(sums[1])
