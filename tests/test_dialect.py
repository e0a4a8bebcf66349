"""Dialects: every spelling of a function is accurate and right on special values, everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core.codegen import generation
from netcl_core.codegen.emit import ON_CPUS, ON_GPUS, PLAIN, Dialect, dialect_of
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import PrimitiveStep, Region, Signature
from netcl_core.errors import DeviceError
from netcl_core.hardware.device_table import get_device
from netcl_core.tape.computations import run_plan

DIALECTS = {each.name: each for each in (PLAIN, *ON_CPUS.values(), *ON_GPUS.values())}
#: The relative error of exp on its whole range; OpenCL grants its own 3 units in the last place.
BOUNDS = {"plain": 3.6e-7, "cpu": 2.5e-7, "pocl": 2.5e-7, "nvidia": 6e-6}
LOG_MAX, LOG_MIN = 88.72, -87.33  # of the numbers whose exp is a normal float32


@pytest.fixture(
    params=[
        "opencl:intel",
        pytest.param("opencl:portable", marks=pytest.mark.nightly),
        "opencl:nvidia",
    ]
)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each OpenCL device in turn as the default; skips where it is missing."""
    try:
        scope = nc.use_device(request.param)
    except DeviceError:
        pytest.skip(f"there is no device {request.param}")
    with scope as chosen:
        yield chosen


@pytest.fixture(params=DIALECTS)
def dialect(
    device: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Dialect:
    """Each dialect in turn, spoken on every device; a GPU's instructions are its own."""
    chosen = DIALECTS[request.param]
    if chosen in ON_GPUS.values() and chosen is not dialect_of(device):
        pytest.skip(f"{device.platform} has other instructions")
    monkeypatch.setattr(generation, "dialect_of", lambda device: chosen)
    return chosen


def planned(text: str, *arrays: Any) -> Plan:
    """A plan of one expression for these arrays."""
    record = AutogradPrimitive("p", lambda x, a: text, None, len(arrays))
    operands = tuple(("in", i) for i in range(len(arrays)))
    region = Region(len(arrays), 0, (PrimitiveStep(record, operands),), (("step", 0),))
    tensors = tuple((array.shape, array.dtype.name) for array in arrays)
    return Plan(region, nc.default_device(), Signature(tensors, ()))


def values(text: str, *arrays: Any) -> Any:
    """The values of an expression."""
    inputs = [nc.tensor(array) for array in arrays]
    (out,) = run_plan(planned(text, *arrays), inputs, ())
    return out.to_host()


def of(name: str, x: Any, form: str) -> Any:
    """A function: in vectors, one by one (rows shorter than a vector), or of uniform numbers."""
    if form == "vector":
        return values(f"{name}(x0)", np.resize(x, -(-x.size // 16) * 16))[: x.size]
    if form == "scalar":
        rows = np.resize(x, (-(-x.size // 7), 7))
        return values(f"{name}(x0) * x1", rows, np.ones(7, "float32")).reshape(-1)[: x.size]
    ones = np.ones(16, "float32")
    return np.float32([values(f"x1 * {name}(x0)", np.array(each), ones)[0] for each in x])


def test_erfc_is_accurate(device: Any, dialect: Dialect) -> None:
    x = np.linspace(-6, 9, 1 << 16).astype(np.float32)
    wanted = np.array([math.erfc(each) for each in x])
    assert np.max(np.abs(of("erfc", x, "vector") - wanted) / wanted) < 1e-6
    ends = np.array([np.inf, -np.inf, np.nan, 11, 30, 1e30, -1e30, 0], "f4")
    np.testing.assert_array_equal(of("erfc", ends, "vector"), [0, 2, np.nan, 0, 0, 0, 2, 1])


@pytest.mark.parametrize(
    ("form", "count"), [("vector", 1 << 18), ("scalar", 1 << 16), ("uniform", 20)]
)
def test_exp_is_accurate(device: Any, dialect: Dialect, form: str, count: int) -> None:
    x = np.linspace(LOG_MIN, LOG_MAX, count).astype(np.float32)
    wanted = np.exp(x.astype(np.float64))
    assert np.max(np.abs(of("exp", x, form) - wanted) / wanted) < BOUNDS[dialect.name]
    if dialect.name == "nvidia" and form != "uniform":  # what activations see
        near = np.abs(x) < 8
        error = np.abs(of("exp", x[near], form) - wanted[near]) / wanted[near]
        assert np.max(error) < 2e-6


@pytest.mark.parametrize("form", ["vector", "scalar", "uniform"])
def test_exp_of_special_values(device: Any, dialect: Dialect, form: str) -> None:
    infinite = np.float32([np.inf, 89, 128, 1e10, 3e38])
    assert np.isposinf(of("exp", infinite, form)).all()
    vanishing = of("exp", np.float32([-104, -150, -1e10, -3e38, -np.inf]), form)
    np.testing.assert_allclose(vanishing, 0, atol=1e-44)
    denormal = of("exp", np.float32([-87.4, -90, -100, -103]), form)
    assert ((denormal >= 0) & (denormal <= 1.2e-38)).all()  # exact, or flushed to 0
    ones = np.float32([0, -0.0, 1e-40, -1e-40, 1e-30])
    np.testing.assert_allclose(of("exp", ones, form), 1, BOUNDS[dialect.name])
    quiet = np.uint32([0x7FC00000, 0xFFC00000, 0x7FC001FF, 0xFFFFFFFF, 0x7FD55555])
    assert np.isnan(of("exp", quiet.view(np.float32), form)).all()


@pytest.mark.parametrize(("form", "count"), [("vector", 1 << 18), ("scalar", 1 << 16)])
def test_tanh_is_accurate(device: Any, dialect: Dialect, form: str, count: int) -> None:
    near, far = np.logspace(-30, 1.2, count // 2), np.linspace(0, 12, count // 2)
    x = np.concatenate([near, -near, far, -far]).astype(np.float32)
    wanted, given = np.tanh(x.astype(np.float64)), of("tanh", x, form)
    assert np.max(np.abs(given - wanted) - 6e-7 * np.abs(wanted)) <= 0
    assert np.max(np.abs(given)) <= 1


@pytest.mark.parametrize("form", ["vector", "scalar", "uniform"])
def test_tanh_of_special_values(device: Any, dialect: Dialect, form: str) -> None:
    x = np.float32([np.inf, -np.inf, 10, -10, 3e38, 0, -0.0])
    given = of("tanh", x, form)
    np.testing.assert_allclose(given, [1, -1, 1, -1, 1, 0, 0], 1e-7)
    np.testing.assert_array_equal(np.signbit(given), np.signbit(x))
    quiet = np.uint32([0x7FC00000, 0xFFC00000, 0x7FC001FF, 0xFFFFFFFF])
    assert np.isnan(of("tanh", quiet.view(np.float32), form)).all()


@pytest.mark.parametrize("form", ["vector", "scalar", "uniform"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_large_angle_spoils_no_other(device: Any, name: str, form: str) -> None:
    """PoCL's vector form takes one road for all lanes, which is wrong for the small ones."""
    random = np.random.default_rng(0)
    x = np.float32(10 ** random.uniform(-37, 38, 20 if form == "uniform" else 1 << 16))
    x[::3] = -np.float32(10 ** random.uniform(-10, 1, x[::3].size))  # small beside large
    x[5::8] = [random.choice([0, -0.0, 29999, 30001, 1e6]) for _ in x[5::8]]
    wanted = getattr(np, name)(x.astype(np.float64))
    given = of(name, x, form)
    near = np.abs(x) < 1
    assert np.max(np.abs(given - wanted)[near] - 6e-7 * np.abs(wanted)[near]) <= 0
    assert np.max(np.abs(given - wanted) - 6e-7 * np.abs(wanted)) <= 2e-7
    assert np.isnan(of(name, np.float32([np.nan, np.inf, -np.inf, np.nan]), form)).all()


def test_float64_is_the_runtimes_own(device: Any, dialect: Dialect) -> None:
    x = np.linspace(-700, 700, 1 << 12)
    np.testing.assert_allclose(values("exp(x0)", x), np.exp(x), 1e-14)
    assert "exp(v" in planned("exp(x0)", x).forward.generated.text


def test_float16_is_computed_in_float(device: Any, dialect: Dialect) -> None:
    x = np.linspace(-9, 11, 1 << 10).astype(np.float16)
    np.testing.assert_allclose(values("exp(x0)", x), np.exp(x.astype(np.float64)), 1e-3)


def test_only_what_is_called_is_printed(device: Any, dialect: Dialect) -> None:
    x = np.ones(16, np.float32)
    for function, helper in dialect.helpers.items():
        call = "1 / x0" if function == "recip" else f"{function}(x0)"
        text = planned(call, x).forward.generated.text
        width = 4 if device.kind == "gpu" else 16
        assert text.count(f"{helper}_{width}(") == text.count(f"{helper}_1(") == 2
        assert text == planned(call, x).forward.generated.text
    assert "static" not in planned("sqrt(x0)", x).forward.generated.text


def test_who_speaks_what(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measured spelling is for the runtime that it was measured on."""
    starts = {"cpu": "Intel", "pocl": "Portable", "nvidia": "NVIDIA", "plain": ""}
    assert device.platform.startswith(starts[dialect_of(device).name])
    assert dialect_of(get_device("numpy")) is PLAIN
    monkeypatch.setattr(device, "simulator", True)
    assert dialect_of(device) is PLAIN
    monkeypatch.setattr(device, "simulator", False)
    monkeypatch.setattr(device, "kind", "gpu")
    assert (dialect_of(device) is PLAIN) != device.platform.startswith("NVIDIA")


def test_chunks(device: Any) -> None:
    """Chunks are long where there are many of them, and every element is in one."""
    if device.kind == "gpu":
        pytest.skip("an item of a GPU handles one vector")
    units = device.compute_units
    for size in (1, 255, 1 << 10, (1 << 17) + 3, 1 << 20, (1 << 22) + 5):
        plan = planned("x0 + 1", np.broadcast_to(np.float32(0), (size,)))
        launch = plan.forward.launch
        assert launch is not None
        (items,) = launch.global_size
        chunk = int.from_bytes(launch.constants[1], "little")
        assert chunk % 16 == 0 and (items - 1) * chunk < size <= items * chunk
        assert chunk <= 4096 or items >= 32 * units
