"""What a kernel does outside its outputs is found on every device, by name and without any tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from netcl_plugin_kit.testing import Case, Table, normal, run_level, usable_devices
from netcl_plugin_kit.testing.findings import KINDS
from netcl_plugin_kit.testing.guards import guarded
from netcl_plugin_kit.testing.records import Outcome

import netcl_core as nc
from netcl_core.autograd import Implementation, Operator
from netcl_core.dtypes import DTYPES
from netcl_core.hardware.device import Device
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering
from netcl_core.runtime.kernels import Kernel, Kernels, Spec
from netcl_core.runtime.stream import stream_of

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
SOUND = "out[i] = x[i]"
N = 37
#: A copy needs no arithmetic, which not every device has in every dtype.
WORDS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
#: What is wrong, the statement that does it, the code and what the finding says.
WRONG = {
    "behind": ("if (i == 0) out[count] = 0; out[i] = x[i]", "NC701", "writes to element 37"),
    "before": ("if (i == 0) out[-1] = x[0]; out[i] = x[i]", "NC701", "writes to element -1"),
    "scratch": ("rest[i + 1] = 0; out[i] = x[i]", "NC701", "rest of the kernel guarded has 37"),
    "input": ("out[i] = x[i]; x[i] = 0", "NC702", "it is x of the kernel guarded"),
    "unwritten": ("if (i + 1 < count) out[i] = x[i]", "NC703", "the first at (36,)"),
}


@pytest.fixture(params=OPENCL, ids=str)
def device(request: pytest.FixtureRequest) -> Device:
    found: Device = request.param
    return found


@pytest.fixture
def check() -> Iterator[Callable[..., list[Outcome]]]:
    """The outcomes of an op that copies its input by a statement."""

    def of(device: Device, store: str, dtype: str = "float32", **options: str) -> list[Outcome]:
        def plan(request: object) -> Kernels:
            args = (("in", 0), ("out", 0), ("scratch", 0), ("ulong", N))
            context = {"type": WORDS[DTYPES[dtype].itemsize], "store": store}
            kernel = Kernel("guarding/guarded.cl.j2", "guarded", args, (64,), None, context)
            return Kernels((kernel,), (N,))

        copy = Operator(
            "kit_copy",
            lambda x: ([x], {}),
            lambda x: Spec(x.shape, options.get("into", x.dtype)),
            np.array,
            implementations=(Implementation("kit_copy", "plain", plan),),
        )
        change = registry.transaction("kit")
        change.add("operator", copy)
        change.commit()
        case = Case(
            "kit_copy",
            (normal(),),
            reference=lambda x: x,
            shapes=[[(N,)]],
            dtypes=(dtype,),
            differentiable=False,
            xfail={"deterministic": "it cannot be excused"} if "excused" in options else {},
        )
        found = run_level(Table("kit", [case]), [device], only=["values", "deterministic"])
        registry.remove_provider("kit")
        return found.outcomes

    rendering.add_prefix("guarding", Path(__file__).with_name("support") / "templates")
    registry.load()
    yield of
    registry.remove_provider("kit")


@pytest.mark.parametrize("fault", [*WRONG])
def test_a_fault_has_its_name(
    device: Device, check: Callable[..., list[Outcome]], fault: str
) -> None:
    store, code, says = WRONG[fault]
    (found, *_) = check(device, store)
    assert (found.state, found.reason[:7]) == ("failed", f"{code}: "), found.reason
    assert says in found.reason and found.remedy == KINDS[code].remedy


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8", "int64"])
def test_one_element_of_any_size_is_seen(
    device: Device, check: Callable[..., list[Outcome]], dtype: str
) -> None:
    """And a kernel that does nothing wrong is not blamed."""
    assert {each.state for each in check(device, SOUND, dtype)} == {"passed"}
    (values, again) = check(device, "out[i + 1] = x[i]", dtype, excused="yes")
    assert "NC701" in values.reason and f"37 elements of {dtype}" in values.reason
    assert again.state == "failed" and "NC701" in again.reason


def test_another_dtype_has_its_name(device: Device, check: Callable[..., list[Outcome]]) -> None:
    (found, *_) = check(device, SOUND, into="int32")
    assert found.reason.startswith("NC704: ") and "dtype int32; expected float32" in found.reason


def test_memory_is_guarded_for_a_while(device: Device) -> None:
    """It comes filled: else a kernel that writes nothing finds the right result of before."""
    stream, dtype = stream_of(device), DTYPES["float32"]
    with pytest.raises(ZeroDivisionError), guarded(device):
        fresh = stream.download(stream_of(device).allocate(N, dtype), N, dtype)
        assert np.isnan(fresh).all()
        raise ZeroDivisionError
    assert stream_of(device) is stream
    for without in (None, nc.get_device("numpy")):
        with guarded(without) as guard:
            assert guard is None
