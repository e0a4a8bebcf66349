"""GradScaler: what its documentation says, beside PyTorch's, and what a mistake leads to."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scaled import DEVICES, WIDE, fill, leaf

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, amp, optim
from netcl_core.errors import (
    AnomalyError,
    ArgumentError,
    AttributeValueError,
    DtypeError,
)
from netcl_core.hardware import programs

torch = pytest.importorskip("torch")


# -- beside PyTorch ------------------------------------------------------------------------

KINDS = ("clean", "clean", "inf", "-inf", "nan")
BAD = {"clean": 0.0, "inf": np.inf, "-inf": -np.inf, "nan": np.nan}


def both(turns: list[str], **kept: Any) -> None:
    """The same steps with PyTorch's scaler: the same scales, counts, skipped steps, parameters."""
    start = np.linspace(-1, 1, 7).astype(WIDE)
    ours = nc.tensor(start, requires_grad=True)
    theirs = torch.nn.Parameter(torch.tensor(start))
    optimizer = optim.Adam([ours], lr=0.1)
    reference = torch.optim.Adam([theirs], lr=0.1)
    scaler = amp.GradScaler(**kept)
    other = torch.amp.GradScaler("cpu", **kept)
    for number, kind in enumerate(turns):
        optimizer.zero_grad()
        reference.zero_grad()
        x = np.linspace(number, 1, 7).astype(WIDE)
        x[number % 7] += BAD[kind]
        scaler.scale(ag.sum(ours * ours * nc.tensor(x))).backward()
        other.scale((theirs * theirs * torch.tensor(x)).sum()).backward()
        before = ours.numpy()
        scaler.step(optimizer)
        scaler.update()
        other.step(reference)
        other.update()
        assert scaler.get_scale() == other.get_scale()
        assert scaler.state_dict() == other.state_dict()
        assert (kind == "clean") == bool((ours.numpy() != before).any())
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_scripted_sequence(device: Device) -> None:
    script = "clean clean clean inf clean clean clean clean nan -inf clean clean clean clean"
    both(script.split(), init_scale=1024.0, growth_interval=3)
    both(script.split(), init_scale=1000.0, growth_interval=2, growth_factor=1.5)
    both(script.split(), growth_interval=1, backoff_factor=0.25)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.sampled_from(KINDS), max_size=20),
    st.integers(1, 4),
    st.sampled_from([1.5, 2.0, 1.1]),
    st.sampled_from([0.5, 0.3]),
)
def test_any_sequence(turns: list[str], interval: int, growth: float, backoff: float) -> None:
    growth, backoff = float(np.float32(growth)), float(np.float32(backoff))
    with nc.use_device(DEVICES[0]):
        both(turns, growth_interval=interval, growth_factor=growth, backoff_factor=backoff)


def test_two_optimizers_are_one_round(either: Device) -> None:
    """As PyTorch's with `update` at the end: one scale for both, and one count."""
    script = [("clean", "clean"), ("clean", "inf"), ("inf", "clean"), ("clean", "clean")]
    script += [("nan", "inf"), ("clean", "clean"), ("clean", "clean"), ("clean", "clean")]
    kept = {"init_scale": 64.0, "growth_interval": 2}
    ours = [leaf(1.0, 2.0), leaf(3.0, 4.0)]
    theirs = [torch.nn.Parameter(torch.tensor(each.numpy())) for each in ours]
    optimizers = [optim.SGD([each], lr=0.1) for each in ours]
    references = [torch.optim.SGD([each], lr=0.1) for each in theirs]
    scaler, other = amp.GradScaler(**kept), torch.amp.GradScaler("cpu", **kept)
    for kinds in script:
        for each, kind in zip(ours, kinds, strict=True):
            each.grad = None
            scaler.scale_loss(ag.sum(each * each * (1.0 + BAD[kind]))).backward()
        for param, kind in zip(theirs, kinds, strict=True):
            param.grad = None
            other.scale((param * param * (1.0 + BAD[kind])).sum()).backward()
        for optimizer, reference in zip(optimizers, references, strict=True):
            scaler.step(optimizer)
            other.step(reference)
        other.update()
        assert scaler.state_dict() == other.state_dict()
        for one, two in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one.numpy(), two.detach().numpy(), rtol=1e-6)


def test_states_load_both_ways() -> None:
    with nc.use_device("numpy"):
        theirs = torch.amp.GradScaler("cpu", init_scale=512.0, growth_interval=7)
        scaler = amp.GradScaler()
        scaler.load_state_dict(theirs.state_dict())
        assert scaler.state_dict() == theirs.state_dict()
        w = leaf(1.0)
        scaler.scale(w * 1.0).backward()
        scaler.step(optim.SGD([w]))
        theirs.load_state_dict(scaler.state_dict())
        assert theirs.state_dict()["_growth_tracker"] == 1


@pytest.mark.parametrize("factor", [1.0, np.inf])
def test_unscale_divides_once(factor: float, either: Device) -> None:
    """The loop of PyTorch's documentation, with clipping."""
    ours, theirs = leaf(1.0, 2.0), torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    found = []
    for t, w, library, scaler in (
        (nc, ours, optim, amp.GradScaler("cuda", init_scale=8.0)),
        (torch, theirs, torch.optim, torch.amp.GradScaler("cpu", init_scale=8.0)),
    ):
        optimizer = library.SGD([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((w * w * factor).sum()).backward()
            scaler.unscale_(optimizer)
            t.nn.utils.clip_grad_norm_([w], 1.0)
            with pytest.raises(RuntimeError, match="unscale_"):
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        found.append((w.detach().numpy(), scaler.get_scale()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    assert found[0][1] == found[1][1]


def test_unscale_again_after_update_or_step(either: Device) -> None:
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=0.0), amp.GradScaler(device="cuda", init_scale=4.0)
    for after in (scaler.update, lambda: scaler.step(optimizer), lambda: None):
        scaler.scale(w * 1.0).backward()
        scaler.unscale_(optimizer)
        after()
    off = amp.GradScaler("cuda", enabled=False)
    off.unscale_(optimizer)
    off.unscale_(optimizer)


@pytest.mark.parametrize(
    ("args", "named", "wanted"),
    [
        ((), {}, (2.0**16, 2.0, 0.5, 2000, True)),
        (("cuda",), {}, (2.0**16, 2.0, 0.5, 2000, True)),
        (("cpu", 8.0, 4.0), {"enabled": False}, (8.0, 4.0, 0.5, 2000, False)),
        ((8.0, 4.0, 0.25, 7, True), {}, (8.0, 4.0, 0.25, 7, True)),
        ((), {"device": "cuda", "init_scale": 8.0}, (8.0, 2.0, 0.5, 2000, True)),
    ],
)
def test_its_fields_are_read(args: Any, named: Any, wanted: Any) -> None:
    made = amp.GradScaler(*args, **named)
    assert wanted == (
        made.init_scale, made.growth_factor, made.backoff_factor, made.growth_interval, made.enabled
    )  # fmt: skip


@pytest.mark.parametrize("args", [(8.0,), ("cuda", 8.0)])
def test_a_setting_is_given_once(args: Any) -> None:
    with pytest.raises(TypeError, match="init_scale"):
        amp.GradScaler(*args, init_scale=4.0)


def test_an_optimizer_that_only_steps(either: Device) -> None:
    class Halving:
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

        def step(self) -> None:
            w.overwrite(w.numpy() / 2)

    w, scaler = leaf(1.0), amp.GradScaler()
    for value, right in ((1.0, 0.5), (np.nan, 0.5), (1.0, 0.25)):
        fill(w, value)
        scaler.step(Halving(), [w])
        assert w.item() == right
    with pytest.raises(ArgumentError, match="Give step its parameters"):
        scaler.step(Halving())


# -- the loss ------------------------------------------------------------------------------


def test_a_loss_is_scaled_on_its_device(either: Device) -> None:
    scaler = amp.GradScaler(init_scale=8.0)
    w = leaf(2.0, 3.0)
    loss = ag.sum(w * w)
    scaled = scaler.scale_loss(loss)
    assert scaled.item() == 8 * 13 and loss.item() == 13 and scaled is not loss
    scaled.backward()
    assert w.grad.numpy().tolist() == [32.0, 48.0]
    plain = nc.tensor(2.0)
    assert scaler.scale(plain).item() == 16.0 and plain.item() == 2.0
    assert scaler.scale(nc.tensor([1.0, 2.0])).numpy().tolist() == [8.0, 16.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_16_bit_loss_does_not_overflow(either: Device, dtype: str, shape: Any) -> None:
    w = nc.Tensor.full(shape, 2.0, dtype, requires_grad=True)
    scaled = amp.GradScaler().scale(w * 1.0)
    assert scaled.dtype == "float32" and scaled.item() == 2.0**17
    amp.GradScaler(init_scale=2.0**10).scale(w * 1.0).backward()
    assert w.grad.dtype == dtype and w.grad.item() == 2.0**10


def test_new_scales_build_nothing(opencl: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    w = leaf(1.0, 2.0)
    optimizer, scaler = optim.SGD([w], lr=1e-3), amp.GradScaler(growth_interval=1)
    for turn in range(6):
        optimizer.zero_grad()
        scaler.scale_loss(ag.sum(w * (np.inf if turn == 3 else 1.0))).backward()
        scaler.step(optimizer)
        if turn == 1:
            monkeypatch.setattr(programs, "from_source", None)
            before = len(programs._programs)
    assert len(programs._programs) == before


def test_a_loss_has_to_be_one() -> None:
    scaler = amp.GradScaler()
    with pytest.raises(ArgumentError, match="GradScaler: a float; expected a loss"):
        scaler.scale(1.0)
    with pytest.raises(DtypeError, match="a loss of int64"):
        scaler.scale(nc.tensor(1, device="numpy"))


# -- limits and mistakes -------------------------------------------------------------------


def test_the_scale_stays_between_its_limits(either: Device) -> None:
    w = leaf(1.0)
    optimizer = optim.SGD([w], lr=0.0)
    for value, limit in ((1.0, 2.0**126), (np.inf, 2.0**-126)):
        scaler = amp.GradScaler(2.0 ** (120 if limit > 1 else -120), 8.0, 0.125, 1)
        for _ in range(5):
            fill(w, value)
            scaler.step(optimizer)
        assert scaler.get_scale() == limit
        w.grad = None
        scaler.scale(w * 0.5).backward()
        assert scaler.unscale_grads([w]) is False and w.grad.item() == 0.5


def test_not_enabled() -> None:
    with nc.use_device("numpy"):
        w = leaf(1.0)
        scaler = amp.GradScaler(enabled=False)
        loss = w * 1.0
        assert scaler.scale("anything") == "anything"
        assert scaler.scale_loss(loss) is loss and not scaler.is_enabled()
        fill(w, np.inf)
        assert scaler.unscale_grads([w]) is False
        scaler.step(optim.SGD([w], lr=1.0))
        scaler.update()
        assert w.item() == -np.inf
        assert (scaler.get_scale(), scaler.state_dict()) == (1.0, {})
        scaler.load_state_dict({})
        assert repr(scaler) == "GradScaler(enabled=False)"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"init_scale": 0.0}, r"a scale of 0.0; expected a number from 2\*\*-126"),
        ({"init_scale": np.inf}, "a scale of inf"),
        ({"init_scale": "big"}, "a scale of 'big'"),
        ({"growth_factor": 1.0}, "growth_factor=1.0; expected a number above 1"),
        ({"backoff_factor": 1.0}, "backoff_factor=1.0; expected a number above 0 and below 1"),
        ({"backoff_factor": 0.0}, "backoff_factor=0.0"),
        ({"growth_interval": 0}, "growth_interval=0; expected an integer from 1"),
        ({"growth_interval": 2.5}, "growth_interval=2.5"),
        ({"growth_interval": True}, "growth_interval=True"),
    ],
)
def test_settings_are_checked(given: dict[str, Any], text: str) -> None:
    with pytest.raises(AttributeValueError, match=f"GradScaler: {text}"):
        amp.GradScaler(**given)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    scaler = amp.GradScaler(growth_interval=5)
    before = scaler.state_dict()
    with pytest.raises(ArgumentError, match="an empty state, of a disabled scaler"):
        scaler.load_state_dict({})
    with pytest.raises(ArgumentError, match="no growth_factor, _growth_tracker"):
        scaler.load_state_dict({"scale": 2.0, "backoff_factor": 0.5, "growth_interval": 1})
    with pytest.raises(AttributeValueError, match="_growth_tracker=-1"):
        scaler.load_state_dict({**before, "scale": 2.0, "_growth_tracker": -1})
    with pytest.raises(AttributeValueError, match="a scale of nan"):
        scaler.load_state_dict({**before, "growth_interval": 1, "scale": float("nan")})
    assert scaler.state_dict() == before
    assert repr(scaler).startswith("GradScaler(growth_factor=2.0, backoff_factor=0.5, growth_int")


def test_what_is_no_optimizer() -> None:
    with pytest.raises(ArgumentError, match=r"GradScaler.step: a list; expected an optimizer"):
        amp.GradScaler().step([])


def test_somebody_elses_optimizer(either: Device) -> None:
    class Halving:
        def __init__(self, w: Any) -> None:
            self.param_groups = [{"params": [w]}]

        def step(self) -> None:
            self.param_groups[0]["params"][0].overwrite([0.5])

    w = leaf(1.0)
    scaler, optimizer = amp.GradScaler(), Halving(w)
    for value, right in ((np.nan, 1.0), (1.0, 0.5)):
        fill(w, value)
        scaler.step(optimizer)
        assert w.item() == right


def test_anomaly_mode(either: Device) -> None:
    """It names the op whose gradient overflowed; clean steps are as without."""
    w = leaf(1.0)
    optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler(init_scale=4.0)
    with ag.detect_anomaly():
        scaler.scale(ag.sum(w * 0.5)).backward()
        scaler.step(optimizer)
        assert w.item() == 0.5
        optimizer.zero_grad()
        with pytest.raises(AnomalyError):
            scaler.scale(ag.sum(w * np.inf)).backward()
    assert scaler.get_scale() == 4.0


def test_two_threads_with_a_scaler_each(either: Device) -> None:
    found: dict[int, Any] = {}

    def train(seed: int) -> None:
        w = nc.tensor(np.ones(5, WIDE), either, requires_grad=True)
        optimizer = optim.Adam([w], lr=0.1)
        scaler = amp.GradScaler(growth_interval=2)
        random = np.random.default_rng(seed)
        for _ in range(40):
            optimizer.zero_grad()
            x = random.standard_normal(5).astype(WIDE)
            x[0] = np.inf if random.integers(4) == 0 else x[0]
            scaler.scale_loss(ag.sum(w * w * nc.tensor(x, either))).backward()
            scaler.step(optimizer)
        found[seed] = w.numpy().tolist(), scaler.state_dict()

    alone = {}
    for seed in (1, 2):
        train(seed)
        alone[seed] = found.pop(seed)
    threads = [threading.Thread(target=train, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_a_scaled_loss_in_a_compiled_function(either: Device) -> None:
    """A later scale is noticed."""
    w = leaf(1.0, 2.0)
    scaler = amp.GradScaler(init_scale=4.0)
    compiled = ag.jit_compile(lambda w: scaler.scale(ag.sum(w * w)))
    assert compiled(w).item() == 20.0
    fill(w, np.inf)
    scaler.step(optim.SGD([w]))
    assert compiled(w).item() == 10.0
