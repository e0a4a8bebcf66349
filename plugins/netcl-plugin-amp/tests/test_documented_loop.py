"""The loop of the documentation: it runs as written on every device, and learns as float32 does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_core.optim import Adam

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, data, nn

DEVICES = [device for device in nc.devices() if not device.simulator]
EPOCHS = 3


@pytest.fixture(params=DEVICES, ids=str, autouse=True)
def device(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


def model_of_digits() -> Any:
    nc.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def loader() -> Any:
    return data.DataLoader(data.digits()[0], 128, shuffle=True, seed=1)


def documented(enabled: bool, policy: str = "fp16") -> list[float]:
    """The mean loss of each epoch."""
    model = model_of_digits()
    opt = Adam(model.parameters(), lr=1e-2)
    scaler = amp.GradScaler(enabled=enabled)
    means = []
    batches = loader()
    for _ in range(EPOCHS):
        losses = []
        for x, y in batches:
            with ag.Tape() as tape:
                with amp.autocast(enabled=enabled, policy=policy):
                    pred = model(x)
                    loss = ag.cross_entropy(pred, y)
                scaled = scaler.scale_loss(loss)
            tape.backward(scaled)
            scaler.step(opt, model.parameters())
            opt.zero_grad()
            losses.append(loss.item())
        means.append(float(np.mean(losses)))
    return means


@pytest.mark.parametrize("policy", ["fp16", "fp16-storage", "bf16-storage"])
def test_it_learns_as_float32_does(policy: str) -> None:
    single, mixed = documented(False), documented(True, policy)
    assert single[-1] < single[0] / 2
    np.testing.assert_allclose(mixed, single, rtol=0.02)


def test_captured_it_does_what_it_does_eagerly() -> None:
    """Scaler, casts and optimizer inside; two of the batches overflow and are skipped."""
    batches = [(x.numpy(), y.numpy()) for x, y in loader() if len(x) == 128][:6]
    batches[2][0][...] = np.inf
    batches[4][0][...] = np.nan
    found = []
    for captured in (False, True):
        model = model_of_digits()
        opt = Adam(model.parameters(), lr=3e-3)
        scaler = amp.GradScaler(init_scale=1024.0, growth_interval=2)

        def step(x: Any, y: Any, model: Any = model, opt: Any = opt, scaler: Any = scaler) -> Any:
            opt.zero_grad()
            with amp.autocast(policy="fp16-storage"):
                loss = ag.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(opt)
            return loss

        call: Any = step
        if captured:
            call = ag.capture(step, *batches[0])
        rest = batches[1:] if captured else batches
        losses = [call(nc.tensor(x), nc.tensor(y)).item() for x, y in rest]
        found.append([scaler.get_scale(), losses[-1], *(p.numpy() for p in model.parameters())])
    for eager, replayed in zip(*found, strict=True):
        np.testing.assert_array_equal(replayed, eager)
