"""Seeded faults: which there are, that strong cases catch them, and that weak ones are named."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributions
import numpy as np
import pytest
from netcl_plugin_kit.check import full as level
from netcl_plugin_kit.check.full import full_level
from netcl_plugin_kit.check.roofline import rooflines, verdicts
from netcl_plugin_kit.faults import kernel_mutants
from netcl_plugin_kit.faults.expression_faults import expression_faults
from netcl_plugin_kit.faults.kernel_faults import KernelFault, kernel_faults
from netcl_plugin_kit.faults.kernel_mutants import run_kernel_mutants
from netcl_plugin_kit.faults.mutants import WANTED, rows_of, run_mutants
from netcl_plugin_kit.faults.sanitizer import NO_START, Simulated, SimulatorJob
from netcl_plugin_kit.faults.substitution import substituted
from netcl_plugin_kit.testing import Case, Table, reference, table_of, uniform
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.reference import torch_module
from netcl_plugin_kit.testing.renderings import kernel_sources

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, composite
from netcl_core.plugins.registry import Row, registry
from netcl_core.runtime import rendering

NUMPY = nc.get_device("numpy")
needs_torch = pytest.mark.skipif(torch_module() is None, reason="PyTorch is not installed")
needs_opencl = pytest.mark.skipif(
    nc.default_device().backend == "numpy", reason="there is no OpenCL device"
)


def hinge(**options: Any) -> AutogradPrimitive:
    """max(x, 0) * y."""
    return AutogradPrimitive(
        "kit_hinge",
        lambda args, _: f"{args[0]} > 0 ? {args[0]} * {args[1]} : 0",
        lambda args, grad, *_: [
            f"{args[0]} > 0 ? {grad} * {args[1]} : 0",
            f"{args[0]} > 0 ? {grad} * {args[0]} : 0",
        ],
        2,
        **options,
    )


@pytest.fixture
def row() -> Iterator[Callable[[Any], Row]]:
    """Enter an op of a provider of the test's own; gives its row."""

    def enter(record: Any) -> Row:
        registry.remove_provider("kit")
        change = registry.transaction("kit")
        change.add("primitive" if isinstance(record, AutogradPrimitive) else "operator", record)
        change.commit()
        return registry.op_rows(record.name)[0]

    registry.load()
    yield enter
    registry.remove_provider("kit")


def case(**options: Any) -> Case:
    options.setdefault("inputs", (uniform(-2, 2), uniform(-2, 2)))
    options.setdefault("reference", lambda x, y: np.where(x > 0, x * y, 0 * x))
    return Case("kit_hinge", **options)


WEAK = case(
    inputs=(uniform(1, 2), uniform(1, 2)),
    skip=dict.fromkeys(
        ("derivative", "gradient", "non-finite", "broadcasting", "threads"), "what is left?"
    ),
    dtypes=("float32",),
    reference=None,
)


# -- which faults there are ------------------------------------------------------------


def texts(record: AutogradPrimitive, kind: str) -> list[str]:
    return [fault.text for fault in expression_faults(record) if fault.kind == kind]


def test_what_leaves_an_op_as_it_is_is_no_fault() -> None:
    """The operands of a sum may change places, those of a difference may not."""
    registry.load()
    add, sub, maximum, lt = (
        registry.op_rows(op)[0].record for op in ("add", "sub", "maximum", "lt")
    )
    assert texts(add, "operands swapped") == []
    assert texts(sub, "operands swapped") == ["forward: y - x"]
    assert texts(lt, "sign") == texts(lt, "factor") == []  # -1 is as true as 1
    assert texts(lt, "operands swapped") == ["forward: y < x"]
    assert "gradient of x: x == y ? grad : x < y ? 0 : grad" in texts(maximum, "term missing")
    found = Counter(fault.kind for fault in expression_faults(hinge()))
    assert found == {
        "sign": 3, "factor": 3, "term missing": 6, "other operator": 3, "operands swapped": 3,
        "branch": 9, "constant": 6, "upstream gradient missing": 2,
        "other input's gradient": 2, "dtype rule": 2,
    }  # fmt: skip


def test_a_fault_is_in_one_use_of_an_op_only() -> None:
    """Of one choice of the words that steer an expression."""
    registry.load()
    gelu = registry.op_rows("gelu")[0].record
    for fault in list(expression_faults(gelu))[:5]:
        assert "approximate='tanh'" in fault.text
        key = (1, (("approximate", "none"),))
        assert fault.record.parsed(*key).forward == gelu.parsed(*key).forward
        key = (1, (("approximate", "tanh"),))
        assert fault.record.parsed(*key).forward != gelu.parsed(*key).forward


# -- what is caught --------------------------------------------------------------------


def test_strong_cases_catch_everything(row: Callable[[Any], Row]) -> None:
    verdicts = list(run_mutants(row(hinge()), Table("kit", [case()])))
    missed = [each for each in verdicts if not each.caught_by]
    assert len(verdicts) > 35 and {each.kind for each in missed} <= {"dtype rule"}
    assert {each.caught_by for each in verdicts} >= {"derivative", "values"}


def test_weak_cases_are_named(row: Callable[[Any], Row]) -> None:
    """One branch, no independent reference, no derivative: what they let through is listed."""
    row(hinge())
    result = full_level(Table("kit", [WEAK]), [NUMPY], only=["mutants"])
    (outcome,) = result.outcomes
    assert (outcome.check, outcome.state) == ("mutants", "failed")
    (mutants,) = result.mutants
    assert mutants.caught < WANTED * mutants.total
    assert len(mutants.missed) == mutants.total - mutants.caught
    assert "factor: forward: 1.01 * (x0 > 0 ? x0 * x1 : 0)" in mutants.missed
    assert f"{mutants.caught} of {mutants.total} seeded faults caught" in outcome.reason
    assert f"missed: kit_hinge: {mutants.missed[0]}" in outcome.reason
    assert f"and {len(mutants.missed) - 10} more" in outcome.reason
    assert "no OpenCL device" in outcome.reason and "each branch" in outcome.remedy
    assert result.roofline == []


def test_without_pytorch_what_is_missed_is_no_failure(
    row: Callable[[Any], Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases that state PyTorch's function are strong where it is installed, and known not to be."""
    row(hinge())
    weak = replace(WEAK, torch=lambda t, x, y: t.where(x > 0, x * y, 0))
    monkeypatch.setattr(reference, "has_torch", lambda: False)
    (outcome,) = full_level(Table("kit", [weak]), [NUMPY], only=["mutants"]).outcomes
    assert outcome.state == "skipped" and "missed: kit_hinge" in outcome.reason
    assert "since PyTorch is not installed, compared with their own NumPy path" in outcome.reason
    assert outcome.reason.endswith("changes, too: kit_hinge")


def test_a_step_that_fails_anyway_catches_nothing(row: Callable[[Any], Row]) -> None:
    """The derivative of this op is wrong to begin with; its values and slopes are not looked at."""
    broken = replace(hinge(), backward=lambda args, grad, *_: [grad, grad])
    weak = replace(WEAK, skip={**WEAK.skip} | {"pruning": "as above"})
    del weak.skip["derivative"]  # type: ignore[attr-defined]  # a dict
    verdicts = list(run_mutants(row(broken), Table("kit", [weak])))
    assert "derivative" not in {each.caught_by for each in verdicts}
    assert any(not each.caught_by for each in verdicts)


def test_an_op_is_itself_again(row: Callable[[Any], Row]) -> None:
    own = row(hinge())
    with pytest.raises(ZeroDivisionError), substituted(own, replace(own.record, arity=2)):
        assert registry.op_rows("kit_hinge")[0].record is not own.record
        raise ZeroDivisionError
    assert registry.op_rows("kit_hinge")[0] == own
    assert ag.kit_hinge(2.0, 3.0).item() == 6


def test_faults_of_structured_ops(row: Callable[[Any], Row]) -> None:
    """An operator's backward and reference, and a composite without a backward of its own."""
    table = table_of("netcl-plugin-linalg")
    (linear,) = rows_of(table, ["linear"])
    found = list(run_mutants(linear, table))
    assert all(each.caught_by for each in found)
    assert Counter(each.kind for each in found) == {
        "gradient factor": 1, "gradient sign": 1, "gradient zero": 3, "gradients swapped": 3,
        "forward factor": 1,
    }  # fmt: skip
    hinge = row(composite(lambda x, y: ag.mul(ag.relu(x), y), name="kit_hinge"))
    shapes = [[(3, 5)] * 2]
    strong, weak = case(shapes=shapes), replace(WEAK, shapes=shapes, inputs=case().inputs)
    found = list(run_mutants(hinge, Table("kit", [strong])))
    assert [each.kind for each in found if not each.caught_by] == []
    assert {"gradient factor", "gradient zero", "forward factor"} <= {each.kind for each in found}
    found = list(run_mutants(hinge, Table("kit", [weak])))
    assert {each.caught_by for each in found} == {""}


def test_a_gradient_that_does_not_exist_is_no_fault() -> None:
    """Labels have no gradient, so that there is none to be spoiled."""
    table = table_of("netcl-plugin-tensor")
    rows = rows_of(table, ["index_select", "one_hot"])
    found = [each for one in rows for each in run_mutants(one, table)]
    zero = [each.text for each in found if each.kind == "gradient zero"]
    assert zero == ["gradient of input 0 zero"]
    assert {each.op for each in found} == {"index_select"}


# -- kernels ---------------------------------------------------------------------------

#: The lines of a generated kernel that faults are seeded in.
SOURCE = (Path(distributions.__file__).parent / "sound" / "lines_of_a_kernel.cl.j2").read_text(
    encoding="utf-8"
)


@pytest.mark.parametrize(
    ("kind", "place", "expected"),
    [
        ("broadcast", 0, ["p_in0 = in0 + 0 + 0;"]),
        ("broadcast", 1, ["p_in1 = in1 + 0;"]),
        ("bound above", 0, ["i <= end"]),
        ("bound below", 0, ["i + 1 < end"]),
        ("race", 0, ["v1, 0, p_out0 + 0)", "p_out0[0] = v1", "vstore_half(v2, 0, p_grad1)"]),
    ],
)
def test_a_kernel_fault_is_one_change(kind: str, place: int, expected: list[str]) -> None:
    fault = KernelFault("maximum", kind, "forward", place)
    found = fault.applied(SOURCE).splitlines()
    changed = [new for new, old in zip(found, SOURCE.splitlines(), strict=True) if new != old]
    assert len(changed) == len(expected)
    assert all(part in line for part, line in zip(expected, changed, strict=True))
    other = replace(fault, direction="backward")
    assert other.applied(SOURCE) == SOURCE
    assert replace(fault, op="max").applied(SOURCE) == SOURCE


@needs_opencl
def test_kernel_faults_are_caught() -> None:
    """Wrong values on a device, overruns and races in Oclgrind, where it is installed."""
    table = table_of("netcl-plugin-elementwise")
    rows = rows_of(table, ["maximum"])
    found = run_kernel_mutants(rows, table, nc.default_device())
    assert [each for each in found if not each.caught_by] == []
    expected = {fault.text for fault in kernel_faults(rows[0].record, 2)}
    hidden = {"one element too many", "all work-items store at one place"}
    if level.command() is None:
        expected = {text for text in expected if text.split(": ")[1] not in hidden}
    assert {each.text for each in found} == expected


@pytest.mark.parametrize(("without", "caught"), [("", "sanitizer"), ("a race", "")])
def test_what_the_simulator_says_anyway_catches_nothing(
    monkeypatch: pytest.MonkeyPatch, without: str, caught: str
) -> None:
    """It counts for a fault only if the op as it is gives no complaint."""

    def simulate(provider: str, jobs: Sequence[SimulatorJob], progress: Any) -> list[Simulated]:
        return [
            Simulated(1, 1, "a race") if job.fault else Simulated(1, 0, without) for job in jobs
        ]

    monkeypatch.setattr(kernel_mutants, "simulate", simulate)
    monkeypatch.setattr(kernel_mutants, "command", list)
    table = table_of("netcl-plugin-elementwise")
    found = run_kernel_mutants(rows_of(table, ["tanh"]), table, None)
    assert {each.kind for each in found} == {"bound above", "race"}
    assert {each.caught_by for each in found} == {caught}


# -- the rest of the level -------------------------------------------------------------


def test_roofline() -> None:
    """A positive fraction per op on each OpenCL device; the NumPy path has none."""
    table = table_of("netcl-plugin-elementwise")
    device = nc.default_device()
    heard: list[str] = []
    found = rooflines(table, [device, NUMPY], lambda what, *_: heard.append(what), ops=["add"])
    assert [each.op for each in found] == (["add"] if device.backend == "opencl" else [])
    assert all(
        each.fraction > 0 and each.elements > 3 << 22 for each in found if device.kind == "cpu"
    )
    assert verdicts(found) == [] and all(each.items > 1 for each in found)
    assert heard == [f"roofline: {each.op} on {each.device}" for each in found]


@needs_opencl
def test_one_work_item_for_a_million_elements_is_too_slow(
    row: Callable[[Any], Row], tmp_path: Path
) -> None:
    """At a size that its author has not chosen; what takes no other is no verdict."""
    kernel = (
        "kernel void slow(__global const float *x, __global float *y, const ulong n) {"
        "for (ulong i = 0; i < n; ++i) { float s = x[i];"
        "for (int k = 0; k < 60; ++k) s = native_sin(s) + x[(i * 7919 + k) % n]; y[i] = s; } }"
    )
    (tmp_path / "slow.cl.j2").write_text(kernel)
    rendering.add_prefix("kit_slow", tmp_path)

    def plan(request: ag.Request) -> nc.Kernels:
        args = (("in", 0), ("out", 0), ("ulong", request.output.size))
        return nc.Kernels((nc.Kernel("kit_slow/slow.cl.j2", "slow", args, (1,)),))

    row(
        ag.Operator(
            "kit_slow",
            bind=lambda x: ((x,), {}),
            infer=lambda x: x,
            reference=np.sin,
            backward=None,
            implementations=[ag.Implementation("kit_slow", "one item", plan)],
        )
    )
    device = nc.default_device()
    case = Case("kit_slow", (uniform(0, 1),), shapes=[[(3,)]])
    # The time that this process has a core, which no other process lengthens.
    (found,) = rooflines(Table("kit", [case]), [device], seed=5, clock=time.process_time)
    assert found.items == 1 and found.elements > 1_000_000 and found.seed == 5
    (failed,) = verdicts([found])
    assert failed.reason.startswith("NC707: one work-item for 2,") and "seed 5" in failed.reason
    (unknown,) = verdicts([replace(found, elements=6)])
    assert unknown.state == "skipped" and "6 elements" in unknown.reason
    rendering.drop_prefix("kit_slow")


@needs_opencl
def test_an_op_that_raises_is_left_to_the_checks(row: Callable[[Any], Row]) -> None:
    """It costs neither the others' figures nor the record: `run` says what is wrong."""

    def raising(x: Any) -> Any:
        raise ZeroDivisionError

    row(composite(raising, name="kit_raising"))
    raised = Case("kit_raising", (uniform(0, 1),), call=raising, shapes=[[(3,)]])
    table = Table("kit", [raised])
    assert kernel_sources(table, [nc.default_device()]) == []
    assert rooflines(table, [nc.default_device()]) == []


def test_an_expression_that_cannot_be_had_has_no_faults(row: Callable[[Any], Row]) -> None:
    record = hinge()
    object.__setattr__(record, "forward", lambda args, attrs: {}[args])
    assert list(run_mutants(row(hinge()), Table("kit", [])))
    assert list(run_mutants(replace(row(hinge()), record=record), Table("kit", []))) == []


def test_only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("kit", [])
    monkeypatch.setattr(level, "sanitize", lambda *_: pytest.fail("nobody asked"))
    assert full_level(table, [], only=["values"]) == level.FullResult([], [], [])
    (outcome,) = full_level(table, [], only=["mutants"]).outcomes
    assert (outcome.state, outcome.reason) == (
        "skipped",
        "the plugin has nothing in which a fault could be seeded",
    )
    sanitized = Outcome("sanitizer", "skipped", reason=f"{NO_START}no reason")
    monkeypatch.setattr(level, "sanitize", lambda *_: [sanitized])
    found = full_level(table, [], only=["sanitizer"])
    assert found.outcomes == [sanitized] and not found.whole  # no record says that it ran
    assert len(full_level(table, []).outcomes) == 2


def test_a_part_of_an_op_is_broken_too() -> None:
    """Ops have their parts as records, not by name."""
    table = table_of("netcl-plugin-losses")
    (row,) = [row for row in rows_of(table) if row.record.name == "squared_error_elements"]
    assert row.part_of

    def loss() -> float:
        return float(ag.mse_loss(nc.tensor([1.0, 3.0]), nc.tensor([0.0, 0.0])).item())

    assert loss() == 5.0
    broken = replace(row.record, forward=lambda *_: "7.0f")
    with substituted(row, broken):
        assert loss() == 7.0
    assert loss() == 5.0
    verdicts = list(run_mutants(row, table))
    assert verdicts
    assert all(each.caught_by for each in verdicts if each.kind != "dtype rule")
