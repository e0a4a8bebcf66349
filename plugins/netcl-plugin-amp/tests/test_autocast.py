"""autocast and its helpers, as their documentation has them; training under them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from netcl_plugin_amp import AmpPolicy
from netcl_plugin_kit.testing.streams import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, data, nn, optim

DEVICES = [device for device in nc.devices() if not device.simulator]


@pytest.fixture(params=DEVICES, ids=str, autouse=True)
def device(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture
def x() -> Any:
    return nc.tensor(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))


def test_the_flag_is_on_inside(x: Any) -> None:
    assert not amp.is_autocast_enabled()
    with amp.autocast(enabled=True):
        assert amp.is_autocast_enabled()
        with amp.autocast(enabled=False):
            assert not amp.is_autocast_enabled()
            assert ag.matmul(x, x).dtype == "float32"
        assert amp.is_autocast_enabled()
    assert not amp.is_autocast_enabled()


def test_the_default_policy_is_for_devices_with_half_arithmetic(x: Any, device: Any) -> None:
    wanted = "float16" if device.supports_fp16 else "float32"
    with amp.autocast():
        assert ag.matmul(x, x).dtype == wanted
        assert amp.maybe_cast_tensor(x).dtype == wanted
    assert amp.maybe_cast_tensor(x) is x


@pytest.mark.parametrize("policy", ["fp16-storage", "bf16-storage"])
def test_a_storage_policy_serves_every_device(x: Any, policy: str) -> None:
    storage = ag.named_policy(policy).storage
    with amp.autocast(policy=policy):
        y = ag.matmul(x, x)
        assert y.dtype == storage
        assert ag.exp(y).dtype == "float32"
        assert amp.maybe_cast_tensor(x).dtype == storage
        assert amp.maybe_cast_tensor(nc.tensor([1, 2])).dtype == "int64"


def test_a_queue_without_half_arithmetic_switches_it_off(x: Any, device: Any) -> None:
    with amp.autocast(device_queue=device):
        assert amp.is_autocast_enabled() == device.supports_fp16
    with amp.autocast(device_queue=device.queue):
        assert amp.is_autocast_enabled() == amp.supports_fp16(device.queue) or device.queue is None
    with amp.autocast(device_queue=object()):
        assert not amp.is_autocast_enabled()
    with amp.autocast(device_queue=object(), policy="fp16-storage"):
        assert amp.is_autocast_enabled()


def test_it_is_a_decorator_bare_and_called(x: Any) -> None:
    @amp.autocast
    def bare() -> bool:
        return amp.is_autocast_enabled()

    @amp.autocast(policy="fp16-storage")
    def called() -> str:
        return str(ag.matmul(x, x).dtype)

    assert bare()
    assert called() == "float16"
    assert not amp.is_autocast_enabled()


def test_one_object_is_entered_again_and_by_other_threads() -> None:
    block = amp.autocast()
    seen = []

    def work() -> None:
        seen.append(amp.is_autocast_enabled())
        with block:
            seen.append(amp.is_autocast_enabled())
        seen.append(amp.is_autocast_enabled())

    with block, block:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert amp.is_autocast_enabled()
    assert not amp.is_autocast_enabled()
    assert seen == [False, True, False]


WORDS = [
    ("autocast('cuda', 'float16')", "float16"),
    ("autocast('cuda', nc.float16)", "float16"),
    ("autocast('cpu', dtype='bfloat16')", "bfloat16"),
    ("autocast('cpu')", "bfloat16"),
    ("autocast(device_type='cuda', dtype=nc.bfloat16, enabled=True)", "bfloat16"),
    ("autocast('cuda:0', 'float16', True, False)", "float16"),
    ("autocast(device, 'float16')", "float16"),
    ("autocast(dtype='float16', cache_enabled=False, device_type='mps')", "float16"),
    ("autocast(device_type='cuda', enabled=False)", "float32"),
    ("autocast('cuda', 'float16', False)", "float32"),
    ("autocast(False)", "float32"),
    ("autocast(True, object())", "float32"),
    ("autocast(enabled=True, policy='fp16-storage')", "float16"),
    ("autocast(True, policy='bf16-storage')", "bfloat16"),
]


@pytest.mark.parametrize(("text", "wanted"), WORDS)
def test_it_is_written_as_in_pytorch_and_as_documented(
    text: str, wanted: str, x: Any, device: Any
) -> None:
    with eval(text, {"autocast": nc.amp.autocast, "nc": nc, "device": device}):
        assert ag.matmul(x, x).dtype == wanted
        assert ag.matmul(x[:0], x).dtype == wanted
    assert not amp.is_autocast_enabled()


def test_what_it_cannot_mean() -> None:
    assert nc.autocast is amp.autocast
    with pytest.raises(nc.errors.ArgumentError, match="device_type='fp16-storage'"):
        amp.autocast("fp16-storage")
    with pytest.raises(nc.errors.ArgumentError, match="one of them"):
        amp.autocast("cuda", "float16", policy="fp16")
    with pytest.warns(UserWarning, match="dtype float32"), amp.autocast("cuda", nc.float32):
        assert not amp.is_autocast_enabled()


@pytest.mark.parametrize("compiled", [False, True])
def test_bfloat16_needs_no_scaler(compiled: bool, x: Any) -> None:
    w = nc.tensor(np.eye(4, dtype=np.float32), requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)

    def loss_of(w: Any) -> Any:
        with amp.autocast("cpu", dtype="bfloat16"):
            return (ag.matmul(x, w) * 2.0).sum()

    (ag.jit_compile(loss_of) if compiled else loss_of)(w).backward()
    optimizer.step()
    assert w.dtype == w.grad.dtype == "float32"
    np.testing.assert_allclose(
        w.grad.numpy(), 2 * x.numpy().sum(0)[:, None] + np.zeros(4), 2e-2, 2e-2
    )


def test_an_unknown_policy_is_named_with_those_that_there_are() -> None:
    with pytest.raises(nc.errors.PluginError, match=r"'fp12'.*fp16"), amp.autocast(policy="fp12"):
        pass


def test_half_precision_is_probed(device: Any) -> None:
    assert amp.supports_fp16(device) == device.supports_fp16
    if device.queue is not None:
        assert amp.supports_fp16(device.queue) == device.supports_fp16
    assert amp.autocast_enabled(True) is True
    assert amp.autocast_enabled(profile_supports_fp16=False) is False


@pytest.mark.parametrize("nothing", [None, object(), 3, "queue"])
def test_what_is_no_device_has_no_half_precision(nothing: Any) -> None:
    assert amp.supports_fp16(nothing) is False


# -- training --------------------------------------------------------------------------


def curve(policy: str | None, compiled: bool) -> list[float]:
    """The losses of each epoch on digits."""
    nc.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    forward = ag.jit_compile(model.__call__) if compiled else model
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    loader = data.DataLoader(data.digits()[0], 128, shuffle=True, seed=1)
    losses = []
    for _ in range(4):
        total = 0.0
        for images, labels in loader:
            with amp.autocast(enabled=policy is not None, policy=policy or "fp16"):
                loss = ag.cross_entropy(forward(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        losses.append(total / len(loader))
    return losses


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("policy", ["fp16-storage", "bf16-storage"])
def test_losses_on_digits_are_those_of_float32(policy: str, compiled: bool) -> None:
    single, mixed = curve(None, compiled), curve(policy, compiled)
    assert single[-1] < single[0] / 2
    np.testing.assert_allclose(mixed, single, rtol=0.02)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_leaves_are_cast_together_from_the_second_block_on(
    device: nc.Device, kind: str, monkeypatch: Any
) -> None:
    """What followed a leaf before is cast with it, and each gradient is what it was."""
    monkeypatch.setattr(device, "kind", kind)
    policy = AmpPolicy("together", "float16", default="allow")
    random = np.random.default_rng(0)
    x = nc.tensor(random.standard_normal((2, 3), np.float32))
    weights = [nc.tensor(random.standard_normal((3, 3), np.float32)) for _ in range(20)]
    launched, gradients = [], []
    for step in range(3):
        for weight in weights:
            weight.requires_grad_().grad = None
        with recorded(device) as stream:
            with ag.casting(policy):
                y = x
                for i, weight in enumerate(weights):
                    if step == 2 and i == 4:  # one that is not asked for, and one that has changed
                        continue
                    if step == 2 and i == 6:
                        with nc.no_grad():
                            weight.copy_(weight * 1)
                    y = ag.matmul(y, weight)
            y.float().sum().backward()
        launched.append(stream.launched.count("casts"))
        gradients.append([weight.grad for weight in weights])
    assert launched == ([0, 4, 4] if device.has_kernels else [0, 0, 0])
    for first, second in zip(*gradients[:2], strict=True):
        np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert gradients[2][4] is None and all(grad is not None for grad in gradients[2][5:])
