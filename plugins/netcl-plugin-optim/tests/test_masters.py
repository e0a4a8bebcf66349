"""Masters: 16-bit parameters are updated in float32, and never lose a small step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, optim

torch = pytest.importorskip("torch")
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1}),
    ("Adam", {"lr": 1e-3}),
    ("AdamW", {"lr": 1e-3, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 1e-4, "momentum": 0.9, "centered": True, "eps": 1e-2}),
    ("Lion", {"lr": 1e-5, "weight_decay": 0.1}),
]
each = pytest.mark.parametrize(("name", "kept"), KINDS, ids=[name for name, _ in KINDS])
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)
NARROW = {name: nc.DTYPES[name].numpy for name in ("float16", "bfloat16")}
in_both = pytest.mark.parametrize("dtype", NARROW)
SHAPES = ((), (0, 3), (7, 5), (4099,))


def drawn(seed: int, shapes: Any = SHAPES, dtype: str = "float16") -> list[Any]:
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(shape)).astype(NARROW[dtype]) for shape in shapes]


def leaves(arrays: list[Any], device: Device, dtype: str = "float16") -> list[nc.Tensor]:
    kept = nc.DTYPES[dtype].numpy
    return [nc.tensor(array.astype(kept), device, requires_grad=True) for array in arrays]


def give(tensors: list[nc.Tensor], arrays: list[Any]) -> None:
    for tensor, array in zip(tensors, arrays, strict=True):
        tensor.grad = nc.tensor(array.astype(nc.DTYPES[tensor.dtype].numpy), tensor.device)


def masters(optimizer: Any) -> list[Any]:
    state = optimizer.state_dict()["state"]
    return [state[key]["master"] for key in sorted(state)]


@everywhere
@each
@in_both
def test_the_master_is_what_float32_would_be(
    device: Device, name: str, kept: Any, dtype: str
) -> None:
    """Bit for bit, after every step, with the same gradients."""
    start = drawn(0, dtype=dtype)
    halves, wides = leaves(start, device, dtype), leaves(start, device, "float32")
    ours, reference = getattr(optim, name)(halves, **kept), getattr(optim, name)(wides, **kept)
    for turn in range(1, 12):
        give(halves, drawn(turn, dtype=dtype))
        give(wides, drawn(turn, dtype=dtype))
        ours.step()
        reference.step()
        full = [wide for wide in wides if wide.size]
        for master, wide in zip(masters(ours), full, strict=True):
            np.testing.assert_array_equal(master, wide.numpy())
        for half, wide in zip(halves, wides, strict=True):
            np.testing.assert_array_equal(half.numpy(), wide.numpy().astype(NARROW[dtype]))
    for key, value in reference.state_dict()["state"].items():
        held = {k: v for k, v in ours.state_dict()["state"][key].items() if k != "master"}
        np.testing.assert_equal(held, value)


@everywhere
@each
@in_both
def test_small_steps_add_up(device: Device, name: str, kept: Any, dtype: str) -> None:
    """Each is less than half a unit in the last place, and all together are not."""
    (half,) = leaves([np.ones(40, np.float16)], device, dtype)
    optimizer = getattr(optim, name)([half], **{**kept, "lr": 2e-5, "weight_decay": 0.0})
    for _ in range(300):
        half.grad = nc.Tensor.ones((40,), dtype, device)
        optimizer.step()
    assert (half.numpy() < 0.999).all()


@everywhere
@in_both
@pytest.mark.parametrize("how", ["copy", "one element", "negative zero", "nan"])
def test_the_master_follows_a_changed_parameter(device: Device, how: str, dtype: str) -> None:
    (half,) = leaves([np.linspace(-1, 1, 40).astype(np.float16)], device, dtype)
    optimizer = optim.SGD([half], lr=2.0**-14)
    half.grad = nc.Tensor.ones((40,), dtype, device)
    optimizer.step()
    wanted, values = masters(optimizer)[0], half.numpy()
    if how == "copy":
        values[:] = 0.5
        wanted[:] = 0.5
    else:
        values[7] = wanted[7] = {"one element": 3.0, "negative zero": -0.0, "nan": np.nan}[how]
    half.overwrite(values)
    optimizer.lr = 0.0
    optimizer.step()
    found = masters(optimizer)[0]
    np.testing.assert_array_equal(found, wanted)
    assert np.signbit(found[7]) == np.signbit(wanted[7]) or how == "nan"
    np.testing.assert_array_equal(nc.widened(half.numpy()), nc.widened(values))


@everywhere
@each
def test_saved_with_and_without_a_master(device: Device, name: str, kept: Any) -> None:
    """With it a new optimizer goes on as the old one; without, from the rounded parameter."""
    halves = leaves(drawn(0), device)
    first = getattr(optim, name)(halves, **kept)
    for turn in range(1, 4):
        give(halves, drawn(turn))
        first.step()
    saved, rounded = first.state_dict(), [half.numpy() for half in halves]
    for key, value in saved["state"].items():
        assert value["master"].dtype == np.float32 and value["master"].shape == SHAPES[int(key)]
    twins = leaves(rounded, device)
    second = getattr(optim, name)(twins, **kept)
    second.load_state_dict(saved)
    give(halves, drawn(9))
    give(twins, drawn(9))
    first.step()
    second.step()
    for one, other in zip(masters(first), masters(second), strict=True):
        np.testing.assert_array_equal(one, other)
    bare = {k: {n: v for n, v in s.items() if n != "master"} for k, s in saved["state"].items()}
    third_params = leaves(rounded, device)
    wide_params = leaves(rounded, device, "float32")
    third = getattr(optim, name)(third_params, **kept)
    wide = getattr(optim, name)(wide_params, **kept)
    for optimizer in (third, wide):
        optimizer.load_state_dict({**saved, "state": bare})
    give(third_params, drawn(9))
    give(wide_params, drawn(9))
    third.step()
    wide.step()
    for one, tensor in zip(masters(third), [w for w in wide_params if w.size], strict=True):
        np.testing.assert_array_equal(one, tensor.numpy())


def test_a_state_that_is_loaded_before_the_parameters() -> None:
    """The values that a checkpoint brings are roundings of its masters, which stay."""
    with nc.use_device("numpy"):
        halves = leaves(drawn(0), nc.get_device("numpy"))
        first = optim.Adam(halves, lr=1e-3)
        give(halves, drawn(1))
        first.step()
        saved, values = first.state_dict(), [half.numpy() for half in halves]
        twins = leaves(drawn(5), nc.get_device("numpy"))
        second = optim.Adam(twins, lr=0.0)
        second.load_state_dict(saved)
        for twin, value in zip(twins, values, strict=True):
            twin.overwrite(value)
        second.lr = 0.0
        give(twins, drawn(1))
        second.step()
        for one, other in zip(masters(first), masters(second), strict=True):
            np.testing.assert_array_equal(one, other)


def test_pytorch_has_none() -> None:
    theirs = torch.nn.Parameter(torch.ones(5, dtype=torch.float16))
    reference = torch.optim.Adam([theirs], lr=1e-3)
    theirs.grad = torch.ones(5, dtype=torch.float16)
    reference.step()
    (half,) = leaves([np.ones(5, np.float16)], nc.get_device("numpy"))
    optimizer = optim.Adam([half], lr=1e-3)
    optimizer.load_state_dict(reference.state_dict())
    give([half], [np.ones(5, np.float16)])
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 2


@everywhere
def test_masters_move_with_their_parameters(device: Device) -> None:
    """To another device with their values, and away where the parameter is no half any more."""
    (half,) = leaves([np.ones(40, np.float16)], nc.get_device("numpy"))
    (wide,) = leaves([np.ones(40, np.float16)], nc.get_device("numpy"), "float32")
    optimizer, reference = optim.SGD([half], lr=2.0**-13), optim.SGD([wide], lr=2.0**-13)
    for turn in range(6):
        if turn == 2:
            moved = nc.tensor(half.numpy(), device)
            half.buffer, half.device, half.grad = moved.buffer, moved.device, None
        give([half], [np.ones(40)])
        give([wide], [np.ones(40)])
        optimizer.step()
        reference.step()
    np.testing.assert_array_equal(masters(optimizer)[0], wide.numpy())
    single = nc.tensor(half.numpy().astype(np.float32), device)
    half.buffer, half.dtype, half.grad = single.buffer, "float32", None
    give([half], [np.ones(40)])
    optimizer.step()
    assert "master" not in optimizer.state_dict()["state"][0]


@everywhere
@each
def test_replays_update_the_master(device: Device, name: str, kept: Any) -> None:
    with nc.use_device(device):
        twins = []
        for _ in range(2):
            (half,) = leaves([np.linspace(-1, 1, 33).astype(np.float16)], device)
            optimizer = getattr(optim, name)([half], **kept)

            def step(x: Any, half: Any = half, optimizer: Any = optimizer) -> Any:
                optimizer.zero_grad()
                loss = ag.sum(half * x)
                loss.backward()
                optimizer.step()
                return loss

            twins.append((half, optimizer, step))
        (ours, first, captured), (theirs, second, eager) = twins
        arrays = [array for turn in range(8) for array in drawn(turn, [(33,)])]
        graph = ag.capture(captured, arrays[0])
        eager(nc.tensor(arrays[0]))
        for turn, array in enumerate(arrays[1:]):
            if turn == 3:
                for half in (ours, theirs):
                    half.overwrite(np.zeros(33, np.float16))
            graph(array)
            eager(nc.tensor(array))
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
        np.testing.assert_equal(first.state_dict()["state"], second.state_dict()["state"])


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 70), st.integers(0, 2**31), st.sampled_from(list(NARROW)))
def test_any_size(size: int, seed: int, dtype: str) -> None:
    """Vectors and the tail after them."""
    device = next((each for each in usable_devices() if each.backend == "opencl"), None)
    if device is None:
        pytest.skip("no OpenCL device")
    start = drawn(seed, [(size,)], dtype)
    (half,), (wide,) = leaves(start, device, dtype), leaves(start, device, "float32")
    for tensor in (half, wide):
        optimizer = optim.Adam([tensor], lr=1e-2)
        for turn in range(3):
            give([tensor], drawn(seed + turn, [(size,)], dtype))
            optimizer.step()
    np.testing.assert_array_equal(half.numpy(), wide.numpy().astype(NARROW[dtype]))
