"""Steps that a flag on the device skips: nothing changes, nothing counts, and no bit differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import recorded, usable_devices
from netcl_plugin_optim.powers import power, root_power

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, Kernel, Kernels, optim
from netcl_core.errors import ArgumentError, DeviceError

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "betas": (0.7, 0.99)}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True, "eps": 1e-2}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "maximize": True}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "t0": 9, "alpha": 1.6}),
    ("Rprop", {"lr": 0.1}),
]
each = pytest.mark.parametrize(("name", "kept"), KINDS, ids=[f"{n}{len(s)}" for n, s in KINDS])
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)
SHAPES = ((), (0, 3), (7, 5), (4099,))


def leaves(device: Device, dtype: str = "float32") -> list[nc.Tensor]:
    random = np.random.default_rng(1)
    drawn = [np.asarray(random.standard_normal(shape)).astype(dtype) for shape in SHAPES]
    return [nc.tensor(each, device, requires_grad=True) for each in drawn]


def give(tensors: list[nc.Tensor], seed: int) -> None:
    random = np.random.default_rng(seed)
    for tensor in tensors:
        drawn = np.asarray(random.standard_normal(tensor.shape))
        tensor.grad = nc.tensor(drawn.astype(tensor.dtype), tensor.device)


def same(first: Any, second: Any) -> None:
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@everywhere
@each
def test_a_flag_skips_steps(device: Device, name: str, kept: Any) -> None:
    for dtype in ("float16", "float32", *(["float64"] * device.supports_fp64)):
        tensors, others = leaves(device, dtype), leaves(device, dtype)
        flagged = getattr(optim, name)(tensors, **kept)
        plain = getattr(optim, name)(others, **kept)
        flag = nc.Tensor.zeros((1,), "int32", device)
        for turn in range(40):
            skipped = turn % 5 in (0, 3)
            give(tensors, turn)
            give(others, turn)
            flag.overwrite([int(skipped)])
            flagged.step(found_inf=flag)
            if not skipped:
                plain.step()
            if turn == 17:  # what is held meanwhile
                np.testing.assert_equal(flagged.state_dict(), plain.state_dict())
        same(tensors, others)
        np.testing.assert_equal(flagged.state_dict(), plain.state_dict())


@everywhere
def test_parameters_that_joined_late_count_on_their_own(device: Device) -> None:
    early, late = leaves(device)[2:]
    twins = leaves(device)[2:]
    flagged, plain = optim.Adam([early, late], lr=0.1), optim.Adam(twins, lr=0.1)
    for turn in range(12):
        skipped, due = turn in (1, 4, 7), slice(None) if turn > 2 else slice(0, 1)
        for pair in ([early, late], twins):
            for tensor in pair:
                tensor.grad = None
            give(pair[due], turn)
        flagged.step(found_inf=nc.tensor([int(skipped)], device, "int32"))
        if not skipped:
            plain.step()
    same([early, late], twins)
    np.testing.assert_equal(flagged.state_dict(), plain.state_dict())


def gated(device: Device) -> tuple[Any, Any, Any]:
    """Parameters, an optimizer, and three flagged steps: of both of them, then of each alone."""
    tensors = leaves(device)[2:]
    optimizer = optim.Adam(tensors, lr=0.1)

    def step(x: Any, flag: Any) -> Any:
        for due in (tensors, tensors[:1], tensors[1:]):
            optimizer.zero_grad()
            for tensor in due:
                ag.sum(tensor * tensor * x).backward()
            optimizer.step(found_inf=flag)
        return ag.sum(tensors[0])

    return tensors, optimizer, step


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["one", "two", "eager", "plain"]))))
def test_two_graphs_and_eager_steps_in_any_order(turns: list[tuple[bool, str]]) -> None:
    """One optimizer, whose steps are captured for other sets of parameters, flagged or not."""
    device = usable_devices()[0] if not OPENCL else OPENCL[0]
    with nc.use_device(device):
        ours, optimizer, step = gated(device)
        theirs, reference, other = gated(device)
        start, off = np.float32(1), np.zeros(1, np.int32)

        def plain(x: Any) -> Any:
            optimizer.zero_grad()
            (ag.sum(ours[0] * x) + ag.sum(ours[1] * x)).backward()
            optimizer.step()
            return x * 1

        def plainly(x: Any) -> None:
            reference.zero_grad()
            (ag.sum(theirs[0] * x) + ag.sum(theirs[1] * x)).backward()
            reference.step()

        one, two = ag.capture(step, start, off), ag.capture(plain, start)
        other(nc.tensor(start), nc.tensor(off))
        plainly(nc.tensor(start))
        for number, (skipped, how) in enumerate(turns):
            x = np.float32(number - 3)
            flag = np.array([skipped], np.int32)
            if how in ("two", "plain"):
                (two if how == "two" else plain)(nc.tensor(x))
                plainly(nc.tensor(x))
                continue
            (one if how == "one" else step)(nc.tensor(x), nc.tensor(flag))
            if not skipped:
                other(nc.tensor(x), nc.tensor(off))
        same(ours, theirs)
        np.testing.assert_equal(optimizer.state_dict(), reference.state_dict())


@everywhere
def test_a_skipped_step_of_some_makes_no_counts_unequal(device: Device) -> None:
    with nc.use_device(device):
        tensors = leaves(device)[2:]
        optimizer = optim.Adam(tensors, lr=0.1)

        def step(due: list[nc.Tensor], flag: Any) -> Any:
            optimizer.zero_grad()
            for tensor in due:
                ag.sum(tensor * tensor).backward()
            optimizer.step(found_inf=flag)
            return flag * 1

        both = ag.capture(lambda flag: step(tensors, flag), np.zeros(1, np.int32))
        one = ag.capture(lambda flag: step(tensors[:1], flag), np.ones(1, np.int32))
        for _ in range(3):
            both(np.zeros(1, np.int32))
            one(np.ones(1, np.int32))
        assert [each["step"] for each in optimizer.state_dict()["state"].values()] == [4, 4]


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_launches(device: Device) -> None:
    tensors = leaves(device)
    give(tensors, 0)
    optimizer = optim.Adam(tensors)
    optimizer.step()
    with recorded(device) as stream:
        optimizer.step()
        assert stream.launched == ["adam_step"]
        optimizer.step(found_inf=nc.Tensor.zeros((1,), "int32", device))
        assert stream.launched == ["adam_step", "adam_count", "adam_step"]


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize("real", ["double", "float"])
def test_bias_corrections_on_the_device(device: Device, real: str) -> None:
    """In double precision they are the host's, bit for bit; in single precision close to them."""
    if real == "double" and not device.supports_fp64:
        pytest.skip("no double precision")
    context = {
        "settings": ("lr", "beta1", "beta2", "one_minus_beta1", "one_minus_beta2"),
        "stepwise": ("step_size", "root_correction"),
        "rows": 1,
        "compute": "float",
        "counting": True,
        "real": real,
    }
    scalars = ("ulong", *(real,) * 5)
    args = (("in", 0), ("out", 0), ("out", 1), *(("scalar", k) for k in range(6)))
    kernel = Kernel("optim/adam.cl.j2", "adam_count", args, (1,), (1,), context)
    bound = nc.Bound(device, Kernels((kernel,), scalars=scalars), (), ())
    flag, skipped = (nc.Tensor.zeros((1,), "int32", device) for _ in range(2))
    now = nc.Tensor.zeros((2,), device=device)
    steps = [*range(1, 70), 1000, 1023, 1024, 1025, 30_000, 123_457, 2**40]
    for beta1, beta2 in ((0.9, 0.999), (0.0, 0.5), (0.3, 0.9999)):
        for step in steps:
            numbers = (step, 1e-3, beta1, beta2, 1 - beta1, 1 - beta2)
            bound([flag.buffer], [skipped.buffer, now.buffer], numbers)
            right = [1e-3 / (1 - power(beta1, step)), np.sqrt(1 - power(beta2, step))]
            if real == "double":
                assert now.numpy().tolist() == np.float32(right).tolist()
            else:
                np.testing.assert_allclose(now.numpy(), right, rtol=1e-6)


def test_powers() -> None:
    for base in (0.0, 0.5, 0.9, 0.999, 0.99999):
        for exponent in (*range(70), 1000, 12345, 10**6, 2**40):
            np.testing.assert_allclose(
                power(base, exponent), base**exponent, rtol=1e-9, atol=1e-300
            )
        for real in (0.0, 0.1, 0.75, 3.3):
            np.testing.assert_allclose(root_power(base, real), base**real, rtol=1e-14)


def test_flags_are_checked() -> None:
    tensors = leaves(nc.get_device("numpy"))
    give(tensors, 0)
    optimizer = optim.SGD(tensors)
    with pytest.raises(ArgumentError, match=r"SGD.step: found_inf of float32 .* int32 of one"):
        optimizer.step(found_inf=nc.Tensor.zeros((1,), device="numpy"))
    with pytest.raises(ArgumentError, match=r"shape \(2,\)"):
        optimizer.step(found_inf=nc.Tensor.zeros((2,), "int32", "numpy"))
    for device in OPENCL[:1]:
        with pytest.raises(DeviceError, match="found_inf on"):
            optimizer.step(found_inf=nc.Tensor.zeros((1,), "int32", device))
