"""An implementation beside the one that it goes before: slower, blind to neighbours, refusing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import distributions
import numpy as np
import pytest
from click.testing import CliRunner, Result
from netcl_plugin_kit.speed import racing
from netcl_plugin_kit.speed.overrides import check_overrides
from netcl_plugin_kit.testing import Case, Table, normal, run_level
from netcl_plugin_kit.testing.records import Outcome

import netcl_core as nc
from netcl_core.autograd import Implementation, Operator, Requirements
from netcl_core.cli import main
from netcl_core.plugins.registry import registry
from netcl_core.runtime import rendering
from netcl_core.runtime.kernels import Kernel, Kernels, Spec

N = 4096
COPY = "out[i] = x[i]"
SLOW = "for (uint k = 0; k < 2000; ++k) if (x[(i + k) % count] == 99) out[i] = 1; out[i] = x[i]"

pytestmark = pytest.mark.skipif(
    nc.default_device().backend != "opencl", reason="there is no OpenCL device"
)


def implementation(label: str, store: str, **options: Any) -> Implementation:
    """Copies its input."""

    def plan(request: Any) -> Kernels:
        size = request.output.size
        args = (("in", 0), ("out", 0), ("scratch", 0), ("ulong", size))
        context = {"type": "float", "store": store}
        kernel = Kernel("guarding/guarded.cl.j2", "guarded", args, (size,), None, context)
        return Kernels((kernel,), (1,))

    return Implementation("kit_copy", label, plan, **options)


@pytest.fixture
def beside() -> Iterator[Callable[..., Table]]:
    """The table of a plugin that brings an implementation beside somebody's `plain` one."""

    def of(own: Implementation, **plain: Any) -> Table:
        copy = Operator(
            "kit_copy",
            lambda x: ([x], {}),
            lambda x: Spec(x.shape, x.dtype),
            np.array,
            implementations=(implementation("plain", COPY, **plain),),
        )
        for provider, kind, record in (("kit", "operator", copy), ("rival", "implementation", own)):
            change = registry.transaction(provider)
            change.add(kind, record, getattr(record, "priority", 0))
            change.commit()
        options: dict[str, Any] = {"dtypes": ("float32",), "differentiable": False}
        shapes = [[(7,)], [(N,)]]
        case = Case("kit_copy", (normal(),), shapes=shapes, reference=np.array, **options)
        return Table("rival", [Case(**{**vars(case), "provider": "rival"})])

    folder = Path(distributions.__file__).with_name("templates")
    rendering.add_prefix("guarding", folder)
    registry.load()
    yield of
    for provider in ("kit", "rival"):
        registry.remove_provider(provider)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which every call takes as long: kernels of microseconds are lost in noise."""
    real = racing._timed

    def timed(contender: Any, count: int, device: Any) -> float:
        assert real(contender, 1, device) > 0
        return 1e-5

    monkeypatch.setattr(racing, "_timed", timed)


def judged(table: Table) -> Outcome:
    (found,) = check_overrides(table, [nc.default_device()])
    return found


def test_a_slower_one_is_found(beside: Callable[..., Table]) -> None:
    found = judged(beside(implementation("slow", SLOW, priority=1)))
    assert found.state == "failed" and found.reason.startswith("NC705: slow on "), found.reason
    assert "kit_copy of 4096: " in found.reason and "the time of plain (kit)" in found.reason
    assert "netcl plugins bench kit_copy" in found.remedy


def test_one_that_is_only_asked_for_may_be_slower(beside: Callable[..., Table]) -> None:
    """Its figures are told."""
    found = judged(beside(implementation("slow", SLOW, priority=-1)))
    assert found.state == "passed" and "of the time of plain (kit)" in found.reason


@pytest.mark.usefixtures("steady")
def test_an_equal_one_is_not_taken_for_a_slower_one(beside: Callable[..., Table]) -> None:
    assert judged(beside(implementation("equal", COPY, priority=1))).state == "passed"


@pytest.mark.usefixtures("steady")
def test_lost_neighbours_are_found(beside: Callable[..., Table]) -> None:
    found = judged(beside(implementation("alone", COPY, priority=1), epilogue=True))
    assert (
        found.reason.startswith("NC706: alone on ") and "no epilogue, as plain has" in found.reason
    )


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize(("least", "state"), [(100, "passed"), (N + 1, "skipped")])
def test_what_it_refuses_is_skipped_with_its_reason(
    beside: Callable[..., Table], least: int, state: str
) -> None:
    """Neither a failure nor a pass; of several shapes those that it takes are checked."""

    def reject(request: Any) -> str | None:
        return f"fewer than {least} elements" if request.output.size < least else None

    table = beside(implementation("large", COPY, requires=Requirements(reject=reject), priority=1))
    device = nc.default_device()
    values, again = run_level(table, [device], only=["values", "deterministic"]).outcomes
    assert values.state == state and again.state == "skipped"
    assert again.reason == f"large refuses it: fewer than {least} elements"
    assert judged(table).state == state


def test_the_command_compares_all(beside: Callable[..., Table]) -> None:
    """With cases or with shapes; who serves by the rules is marked, who refuses says why."""

    def reject(request: Any) -> str:
        return "it takes nothing"

    beside(implementation("never", COPY, requires=Requirements(reject=reject), priority=1))
    words = ["plugins", "bench", "kit_copy", "--device", nc.default_device().id, "--json"]
    result = CliRunner().invoke(main.netcl, [*words, "--shapes", "64"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["calls"]
    plain, never = sorted(found["candidates"], key=lambda each: each["label"], reverse=True)
    assert found["inputs"] == "64" and plain["used"] and plain["ratio"] == 1.0
    assert plain["seconds"] > 0 and not never["used"]
    assert never["seconds"] is None and never["refused"] == "it takes nothing"
    assert CliRunner().invoke(main.netcl, ["plugins", "bench", "no_such_op"]).exit_code == 2


# -- what is remembered of it ----------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of records, empty."""
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    return tmp_path / "speed"


def why(*words: str) -> Result:
    device = ["--device", nc.default_device().id]
    return CliRunner().invoke(main.netcl, ["plugins", "why", "kit_copy", *device, *words])


def times(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(why("--json", *words).stdout)["measured"]
    return found


@pytest.mark.usefixtures("cache")
def test_why_shows_what_was_measured_last(beside: Callable[..., Table]) -> None:
    beside(implementation("slow", SLOW, priority=-1))
    unknown = "speed: not measured here; `netcl plugins bench kit_copy` measures it"
    assert why().stdout.splitlines()[-1] == unknown and times() == []
    words = ["plugins", "bench", "kit_copy", "--device", nc.default_device().id, "--shapes"]
    for shapes in ("64", "4096", "64"):
        assert CliRunner().invoke(main.netcl, [*words, shapes]).exit_code == 0
    found = {each["shapes"]: each for each in times()}
    assert found.keys() == {"64", "4096"}
    assert [each["label"] for each in found["64"]["times"]] == ["plain", "slow"]
    assert all(0 < each["seconds"] < 1 for each in found["64"]["times"])
    header, *rows = why().stdout.splitlines()[-3:]
    assert header.split("  ")[:1] == ["measured"] and "plain, us" in header and "slow, us" in header
    assert {row.split()[0] for row in rows} == {"64", "4096"}
    (row,) = times("--shapes", "64")
    assert row == found["64"] and times("--shapes", "65") == []
    assert why("--shapes", "65").stdout.splitlines()[-1] == unknown


def test_a_check_is_remembered_too(beside: Callable[..., Table], cache: Path) -> None:
    judged(beside(implementation("slow", SLOW, priority=-1)))
    (large, small) = sorted(times(), key=lambda each: -len(each["shapes"]))
    assert (large["shapes"], small["shapes"], small["call"]) == (str(N), "7", "kit_copy")
    for path in cache.iterdir():  # of another version, and damaged
        text = path.read_text()
        path.write_text(text.replace('"version": ""', '"version": "9"') if "4096" in text else "{")
    assert times() == [] and "not measured here" in why().stdout


@pytest.mark.usefixtures("cache")
def test_nothing_is_kept_where_nothing_may_be(
    beside: Callable[..., Table], monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("NETCL_CACHE", "0")
    judged(beside(implementation("slow", SLOW, priority=-1)))
    assert times() == [] and not cache.exists()
