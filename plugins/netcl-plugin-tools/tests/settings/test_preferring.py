"""`netcl plugins prefer`: a choice by name or by what was measured, in settings and lock."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given import Given
from netcl_market import lock as locks
from netcl_market.lock import DevicePart, Lock, Pin
from netcl_plugin_kit.speed import comparing
from netcl_plugin_kit.speed.comparing import Measured, TimedCall, TimedCandidate
from netcl_plugin_tools.lock.text import text_of
from netcl_plugin_tools.settings.preferring import fastest_order
from project_settings import PROJECT, run, settings

import netcl_core as nc
from netcl_core.autograd import AutogradPrimitive, Implementation, Operator
from netcl_core.runtime.kernels import Kernels, Spec

# -- prefer --------------------------------------------------------------------------------


@pytest.fixture
def tied() -> Iterator[None]:
    """An op that two plugins bring with equal priority."""
    record = AutogradPrimitive(
        "tied_op",
        lambda inputs, attrs: f"{inputs[0]} * 2",
        lambda inputs, grad, attrs, out: [f"{grad} * 2"],
        arity=1,
    )
    for name in ("left", "right"):
        nc.plugins.register(Given(record), name)
    yield
    for name in ("left", "right"):
        nc.plugins.unregister(name)


@pytest.mark.filterwarnings("ignore::netcl_core.errors.PluginWarning")  # of the lock's pins
@pytest.mark.usefixtures("tied")
def test_a_choice_is_written_into_settings_and_lock_and_undone(project: Path) -> None:
    lock, path = Lock(Pin("1"), {"left": Pin("2")}, {}), project.with_name("netcl.lock")
    other = DevicePart({"f": {"*": ("left",)}}, {"f": "0"})
    lock = Lock(lock.core, lock.plugins, {"NumPy": other, "Elsewhere | gone": other})
    path.write_text(text_of(lock))
    said = run("prefer", "tied_op", "right")
    assert said.exit_code == 0, said.output
    first, second, third = said.stdout.splitlines()
    assert first == f"tied_op: right in {project}"
    assert "chooses so too; as before for Elsewhere | gone" in second
    assert third.startswith("-> primitive tied_op (right): used: the setting resolve")
    assert settings(project)["resolve"] == {"tied_op": "right"}
    found = locks.read(path)
    assert (found.core, found.plugins) == (lock.core, lock.plugins)
    assert found.devices["Elsewhere | gone"] == other
    numpy = found.devices["NumPy"]
    assert numpy.choices == {**other.choices, "tied_op": {"*": ("right",)}}
    assert numpy.sources["f"] == other.sources["f"]
    again = run("prefer", "tied_op", "right").stdout.splitlines()
    assert again[:2] == [f"tied_op: already right in {project}", f"{path}: unchanged"]
    assert run("prefer", "tied_op", "left").stdout.startswith(
        f"tied_op: left in {project}, before: right"
    )
    assert run("prefer", "tied_op", "--forget").exit_code == 0
    assert tomllib.loads(project.read_text()) == tomllib.loads(PROJECT)
    assert "tied_op" not in locks.read(path).devices["NumPy"].choices


@pytest.mark.filterwarnings("ignore::netcl_core.errors.PluginWarning")
def test_a_lock_that_cannot_be_read_leaves_the_settings(project: Path) -> None:
    project.with_name("netcl.lock").write_text("no lock")
    said = run("prefer", "matmul", "linalg")
    assert said.exit_code == 3 and "it is no JSON" in said.stderr
    assert project.read_text() == PROJECT


def test_a_part_of_an_op_can_be_chosen(project: Path) -> None:
    """Such as what computes its gradients; `why` does not explain it."""
    said = run("prefer", "conv2d_weight_gradient", "packed panels")
    assert said.stdout == f"conv2d_weight_gradient: netcl-plugin-conv:packed panels in {project}\n"
    assert "conv2d_weight_gradient" in settings(project)["resolve"]


def implementation(label: str) -> Implementation:
    return Implementation("kit_double", label, lambda request: Kernels(()))


@pytest.fixture
def doubling() -> Iterator[Operator]:
    """An operator with two implementations of one plugin."""
    found = Operator(
        "kit_double",
        lambda x: ([x], {}),
        lambda x: Spec(x.shape, x.dtype),
        lambda x: np.asarray(2 * x),
        implementations=(implementation("first"), implementation("second")),
    )
    nc.plugins.register(Given(found), "own")
    yield found
    nc.plugins.unregister("own")


@pytest.mark.skipif(nc.default_device().backend != "opencl", reason="there is no OpenCL device")
@pytest.mark.parametrize("choice", ["Second", "own:second"])
def test_an_implementation_can_be_chosen(
    doubling: Operator, project: Path, choice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = nc.devices()[0]
    assert not nc.plugins.why("kit_double", device=device).decided
    assert run("prefer", "kit_double", choice).exit_code == 0
    assert settings(project)["resolve"] == {"kit_double": "own:second"}
    chosen = [x.label for x in nc.plugins.why("kit_double", device=device).candidates if x.chosen]
    assert chosen == ["operator kit_double", "second"]
    monkeypatch.setenv("NETCL_RANK", "own:kit_double:first")
    chosen = [x.label for x in nc.plugins.why("kit_double", device=device).candidates if x.chosen]
    assert chosen == ["operator kit_double", "first"]


# -- measured ------------------------------------------------------------------------------


def measured(*calls: dict[str, float | None]) -> Measured:
    """What a race would have found: the ratio of each candidate to the first; None refuses."""
    device = nc.get_device("numpy")
    rows = [
        [
            TimedCandidate("own", name, 0, not i, ratio and 1e-6, ratio)
            for i, (name, ratio) in enumerate(c.items())
        ]
        for c in calls
    ]
    return Measured(
        "kit_double", device, "float32", [(TimedCall("", [], print), row) for row in rows]
    )


@pytest.mark.parametrize(
    ("calls", "order", "part"),
    [
        ([{"a": 1.0, "b": 0.5}], ["own:b"], 0.5),
        ([{"a": 1.0, "b": 2.0}], ["own:a"], 1.0),
        ([{"a": 1.0, "b": 0.5}, {"a": 1.0, "b": None}], ["own:b", "own:a"], 0.5**0.5),
        # c is the fastest where it serves, and slower than b on average
        ([{"a": 1.0, "b": 0.9, "c": 0.2}, {"a": 1.0, "b": 0.5, "c": 4.0}], ["own:b"], 0.45**0.5),
        (
            [{"a": 1.0, "c": 0.5, "b": 0.8}, {"a": 1.0, "b": 0.8, "c": None}],
            ["own:c", "own:b"],
            0.4**0.5,
        ),
        ([{"a": None}], [], 1.0),
    ],
)
def test_the_order_that_takes_the_least_time(
    calls: list[dict[str, float | None]], order: list[str], part: float
) -> None:
    found, ratio = fastest_order(measured(*calls))
    assert found == order and ratio == pytest.approx(part)


@pytest.mark.parametrize(
    ("ratio", "choice"), [(0.5, "own:second"), (0.97, None)], ids=["faster", "noise"]
)
def test_the_fastest_is_written(
    doubling: Operator,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    ratio: float,
    choice: str | None,
) -> None:
    monkeypatch.setattr(
        "netcl_plugin_tools.settings.preferring.measured",
        lambda *given: measured({"first": 1.0, "second": ratio}),
    )
    said = json.loads(run("prefer", "kit_double", "--measured", "--json").stdout)
    assert said["choice"] == choice and said["calls"][0]["candidates"][1]["ratio"] == ratio
    assert settings(project).get("resolve", {}).get("kit_double") == choice


@pytest.mark.skipif(nc.default_device().backend != "opencl", reason="there is no OpenCL device")
def test_it_measures_as_bench_does(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it on a real op; what wins on this machine is another's business."""
    seen: list[tuple[Any, ...]] = []
    real: Callable[..., Any] = comparing.compared
    monkeypatch.setattr(comparing, "compared", lambda *a: seen.append(a) or real(*a))
    device = nc.devices()[0].id
    words = ["prefer", "matmul", "--measured", "--shapes", "4x5,5x6", "--device", device]
    said = run(*words)
    assert said.exit_code == 0, said.output
    assert f"measured with: {seen[0][1]}\n" in said.stdout and "4x5,5x6" in str(seen[0][1])
    assert len(seen) == 1 and "us" in said.stdout and "note: the shapes" not in said.stdout
    assert ("stays as it is" in said.stdout) == ("resolve" not in settings(project))
