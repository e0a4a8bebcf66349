"""The conformance kit notices what it is there to notice: ops that are wrong in one way each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import (
    Case,
    Scenario,
    Table,
    conformance,
    normal,
    reference,
    run_level,
    table_of,
    uniform,
    usable_devices,
)
from netcl_plugin_kit.testing.derived import derived_cases
from netcl_plugin_kit.testing.fused import check_group
from netcl_plugin_kit.testing.inputs import as_view
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.reference import torch_module
from netcl_plugin_kit.testing.suite import Suite

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, Implementation, Requirements, composite
from netcl_core.errors import PluginError, RegistrationError
from netcl_core.hardware.device import Device
from netcl_core.ops.implementations import Request
from netcl_core.plugins.registry import registry
from netcl_core.runtime.host_calls import HostCall

NUMPY = nc.get_device("numpy")
needs_torch = pytest.mark.skipif(torch_module() is None, reason="PyTorch is not installed")


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Enter ops of a provider of the test's own."""

    def enter(record: Any) -> None:
        registry.remove_provider("cubes")
        kind = "primitive" if isinstance(record, AutogradPrimitive) else "operator"
        with_it = registry.transaction("cubes")
        with_it.add(kind, record)
        with_it.commit()

    registry.load()
    yield enter
    registry.remove_provider("cubes")


def cube(
    forward: str = "{0} * {0} * {0}", backward: str = "3 * {0} * {0} * {1}", **options: Any
) -> Any:
    """x * x * x by its expressions, right or wrong."""
    return AutogradPrimitive(
        "kit_cube",
        lambda args, _: forward.format(args[0]),
        lambda args, grad, *_: [backward.format(args[0], grad)],
        1,
        **options,
    )


def case(**options: Any) -> Case:
    options.setdefault("inputs", (uniform(-2, 2),))
    options.setdefault("reference", lambda x: x * x * x)
    return Case("kit_cube", **options)


def outcomes(
    *cases: Case, device: Device = NUMPY, only: Sequence[str] = (), **options: Any
) -> list[Outcome]:
    return run_level(Table("cubes", cases, **options), [device], only=only).outcomes


def failures(*cases: Case, **options: Any) -> dict[str, str]:
    """The checks that fail with the first reason of each."""
    found: dict[str, str] = {}
    for each in outcomes(*cases, **options):
        if each.state == "failed":
            found.setdefault(each.check, each.reason)
    return found


def test_a_right_op_passes_everything(register: Callable[..., None]) -> None:
    register(cube())
    for device in {NUMPY, nc.default_device()}:
        found = outcomes(case(), device=device)
        assert {each.state for each in found if each.dtype != "float64"} == {"passed"}
        expected = {"cases", "reference", "derivative", "gradient", "values", "deterministic"}
        expected |= {"strided", "pruning", "non-finite", "threads"}
        expected |= {"fused"} if device.backend == "opencl" else set()
        assert {each.check for each in found} == expected
        values = {each.dtype for each in found if each.check == "values" and each.device == "numpy"}
        assert values == (set(case().takes) if device is NUMPY else set())


WRONG: Sequence[tuple[Any, set[str], str]] = [
    (cube(forward="{0} * {0} * {0} + 1e-4f"), {"values"}, "output"),
    (cube(forward="{0} * {0} * ({0} < -1.99f ? 0 : {0})"), {"values"}, "output"),
    (cube(forward="{0} != {0} ? 0 : {0} * {0} * {0}"), {"non-finite"}, "non-finite"),
    (cube(backward="2.9997f * {0} * {0} * {1}"), {"gradient", "derivative"}, "direction"),
    (cube(backward="3 * {0} * {0}"), {"gradient", "derivative"}, "direction"),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("record", "checks", "complaint"), WRONG)
def test_a_wrong_op_is_noticed(
    register: Callable[..., None], record: Any, checks: set[str], complaint: str
) -> None:
    register(record)
    found = failures(case())
    assert checks <= found.keys()
    (first, *_) = sorted(checks, reverse=True)
    assert complaint in found[first] and "kit_cube on numpy in " in found[first]
    opencl = failures(case(), device=nc.default_device())
    assert opencl.keys() & {"fused", "gradient"}


#: exp(x) / (1 + exp(x)): nan where exp(x) is infinite, which float32 reaches at 89.
GATE = "(exp({0}) / (1 + exp({0})))"


def gated(x: Any) -> Any:
    return np.exp(x) / (1 + np.exp(x))


def test_non_finite_values_are_judged_as_float32_gives_them(
    register: Callable[..., None],
) -> None:
    """And no less strictly: what the reference gives in neither dtype is wrong."""
    options: dict[str, Any] = {"reference": gated, "specials": (200.0, -200.0, 1.0)}
    for forward, checks in ((GATE, set()), (f"({{0}} > 0 ? NAN : {GATE})", {"non-finite"})):
        register(cube(forward=forward, backward=f"{GATE} * (1 - {GATE}) * {{1}}"))
        found = failures(case(**options), device=nc.default_device(), only=["non-finite"])
        assert found.keys() == checks
    assert "; there input 0 is 1" in found["non-finite"]


@needs_torch
def test_pytorch_also_says_what_the_gradient_is(register: Callable[..., None]) -> None:
    register(cube(backward="{0} == 0 ? 1 : 3 * {0} * {0} * {1}"))
    there = case(torch=lambda t, x: x * x * x, reference=None)
    assert "gradient 0" in failures(there, only=["non-finite"])["non-finite"]


def test_finite_differences_need_no_counterpart(register: Callable[..., None]) -> None:
    register(cube(backward="2.999 * {0} * {0} * {1}"))
    found = failures(case(reference=None), only=["gradient"])
    assert "finite differences give" in found["gradient"]


def test_a_reference_that_nobody_gave_is_said(register: Callable[..., None]) -> None:
    register(cube())

    def said(given: Case) -> tuple[str, str]:
        (found,) = outcomes(given, only=["reference"])
        return found.state, found.reason

    assert said(case()) == ("passed", "")
    state, reason = said(case(reference=None))
    assert state == "skipped" and reason.startswith("none given; the NumPy path in float64")
    register(cube(reference=lambda x: x * x * x + 1))
    assert said(case(reference=None)) == ("passed", "")
    assert "output" in failures(case(reference=None), only=["values"])["values"]
    assert failures(case(), only=["values"]) == {}


def test_a_derived_case(register: Callable[..., None]) -> None:
    """An op without any case is checked too: its gradient, its dtypes, its attributes."""
    record = cube()
    register(record)
    (right,) = derived_cases(record, "cubes")
    assert right.differentiable and failures(right) == {}
    record = cube(backward="2.999 * {0} * {0} * {1}")
    register(record)
    assert {"derivative", "gradient"} <= failures(*derived_cases(record, "cubes")).keys()


def test_derived_inputs_suit_the_op() -> None:
    """A logarithm gets positive numbers; words all get a case; numbers a value."""

    def made(forward: str, **options: Any) -> list[Case]:
        record = AutogradPrimitive(
            "kit_cube",
            lambda args, attrs: forward.format(*args, **attrs),
            lambda args, grad, *_: ["1", None][: len(args)],
            **options,
        )
        with_it = registry.transaction("cubes")
        with_it.add("primitive", record)
        with_it.commit()
        try:
            return derived_cases(record, "cubes")
        finally:
            registry.remove_provider("cubes")

    registry.load()
    (positive,) = made("log({0})", arity=1)
    assert all(x.min() > 0 for x in positive.sample([(99,)], "float64"))
    (two,) = made("{0} + {1}", arity=2)
    assert two.gradients == [0] and len(two.inputs) == 2
    (mask,) = made("{0} < {1}", arity=2)
    assert not mask.differentiable
    words = made("{0} * {a}", arity=1, attrs={"a": 2.0, "b": "x"}, choices={"b": ("x", "y")})
    assert [each.attrs for each in words] == [{"a": 2.0, "b": "x"}, {"a": 2.0, "b": "y"}]


def test_a_wrong_expression_of_a_backward_is_noticed(register: Callable[..., None]) -> None:
    """Statically, whether the op has a case or not; a gradient meant to differ has to say so."""
    internal = {"internal": {"kit_cube": "a helper"}}
    register(cube())
    assert failures(**internal) == {}
    register(cube("rint({0})", "{1}"))
    text = failures(**internal)["derivative"]
    assert "kit_cube: the gradient of input 0 (x0) differs from the derivative" in text
    straight = case(reference=np.rint, inputs=(normal(),))
    assert "the derivative 0" in failures(straight, only=["derivative"])["derivative"]
    excused = case(skip={"derivative": "rounding passes the gradient straight through"})
    (found,) = outcomes(excused, only=["derivative"])
    assert (found.state, found.reason) == ("skipped", excused.skip["derivative"])


def test_a_structured_op(register: Callable[..., None]) -> None:
    """Composites that forget a dtype, a gradient, or to give the same result twice."""
    random = np.random.default_rng(0)

    def check(function: Callable[..., Any]) -> dict[str, str]:
        register(composite(function, name="kit_cube"))
        lenient = {"refusal": "whole dtypes are another test's"}
        return failures(case(shapes=[[(3, 5)], [(0,)]], skip=lenient))

    assert check(lambda x: ag.mul(ag.mul(x, x), x)) == {}
    assert "dtype float64" in check(lambda x: ag.mul(ag.mul(x, x), x).astype("float64"))["values"]
    assert "has no gradient" in check(lambda x: ag.mul(ag.mul(x, x), x).detach())["gradient"]
    assert "finite" in check(lambda x: ag.mul(ag.mul(x, x), x.detach()))["gradient"]
    noise = check(lambda x: ag.add(ag.mul(ag.mul(x, x), x), float(random.uniform(0, 1e-6))))
    assert "twice" in noise["deterministic"]


def test_an_input_may_have_no_dimension(register: Callable[..., None]) -> None:
    register(cube())
    assert failures(case(shapes=[[()]]), only=["values", "strided"]) == {}
    assert as_view(np.array(3.0), nc.get_device("numpy")).item() == 3.0


def test_two_cases_of_one_name_are_noticed(register: Callable[..., None]) -> None:
    """A report and the mutants know a case by its name alone."""
    register(cube())
    (found,) = outcomes(case(), case(), only=["cases"])
    assert found.state == "failed" and "two cases named kit_cube" in found.reason
    assert "note=" in found.reason
    assert failures(case(), case(note="again"), only=["cases"]) == {}


def test_an_op_that_threads_share_is_noticed(register: Callable[..., None]) -> None:
    """One that keeps its input in a place of the module; the barrier makes threads meet there."""
    place: list[Any] = []
    meeting = threading.Barrier(4)

    def shared(x: Any) -> Any:
        place[:] = [x]
        if threading.current_thread() is not threading.main_thread():
            meeting.wait(30)
        return ag.mul(ag.mul(place[0], place[0]), place[0])

    register(composite(shared, name="kit_cube"))
    found = failures(case(shapes=[[(3, 5)]]), only=["threads", "values"])
    assert found.keys() == {"threads"}
    assert "in thread" in found["threads"] and "elements differ" in found["threads"]


def test_an_unlisted_dtype_is_noticed(register: Callable[..., None]) -> None:
    register(cube())
    floating = case(dtypes=("float16", "float32", "float64"))
    assert "accepts bool" in failures(floating, only=["refusal"])["refusal"]


def test_an_op_without_a_case_is_noticed(register: Callable[..., None]) -> None:
    register(cube())
    (found,) = outcomes(only=["cases"])
    assert (found.state, found.op) == ("failed", "kit_cube")
    assert (
        "neither a case nor a reason" in found.reason and "netcl_conformance_cases" in found.remedy
    )


class KitPlugin:
    """A plugin of one op and perhaps a namespace, whose hook answers what a test says."""

    def __init__(self, answer: Callable[[str], Any], namespace: str = "") -> None:
        self._answer = answer
        self._namespace = namespace

    @nc.hookimpl
    def netcl_register_primitives(self, registry: Any) -> None:
        registry.add(cube())

    @nc.hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        if self._namespace:
            registry.add(self._namespace, "math")

    @nc.hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return self._answer(op)


@pytest.fixture
def collect() -> Iterator[Callable[..., Table]]:
    """The table of a plugin whose hook gives this answer."""

    def of(answer: Callable[[str], Any], namespace: str = "") -> Table:
        nc.plugins.register(KitPlugin(answer, namespace), "cubes")
        return table_of("cubes")

    yield of
    nc.plugins.unregister("cubes")


def test_cases_come_from_the_hook(collect: Callable[..., Table]) -> None:
    table = collect(lambda op: [case()])
    assert [(each.op, each.provider) for each in table.cases] == [("kit_cube", "cubes")]
    assert table.missing() == [] and not table.internal and not table.problems


def test_a_table_of_ones_own_is_of_the_installed_plugin(collect: Callable[..., Table]) -> None:
    """However its name is written, and where a rival has an op of this name, too."""
    collect(lambda op: None)
    table = Suite("CUBES", [case()], None).table()
    assert (table.provider, table.cases[0].provider, table.missing()) == (
        "cubes",
        "cubes",
        [],
    )
    assert [each.name for each in table.primitives()] == ["kit_cube"]
    with pytest.raises(PluginError, match="'no-kit'; expected an installed plugin"):
        conformance("no-kit", [case()])


def test_one_case_does_without_a_list(collect: Callable[..., Table]) -> None:
    assert len(collect(lambda op: case()).cases) == 1


def test_the_hook_may_give_a_reason(collect: Callable[..., Table]) -> None:
    table = collect(lambda op: f"{op} is a helper")
    assert table.internal == {"kit_cube": "kit_cube is a helper"} and not table.cases


@pytest.mark.parametrize("answer", [None, []])
def test_where_the_hook_gives_nothing_a_case_is_derived(
    collect: Callable[..., Table], answer: Any
) -> None:
    (derived,) = collect(lambda op: answer).cases
    assert str(derived) == "kit_cube-derived"


def fail(op: str) -> Any:
    raise ZeroDivisionError("no cases today")


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        (fail, "ZeroDivisionError: no cases today"),
        (lambda op: 7, "7"),
        (lambda op: [case(), "case"], "'case' among the cases"),
        (lambda op: "  ", "an empty reason"),
        (lambda op: Case("tanh", (normal(),)), "one of 'tanh'"),
        (lambda op: Case("kit_cube", (normal(),), tolerance=2), "without a reason"),
    ],
)
def test_a_hook_that_is_wrong_is_one_failure(
    collect: Callable[..., Table], answer: Any, given: str
) -> None:
    """It names plugin, op and remedy; nothing is raised, and nothing passes instead."""
    table = collect(answer)
    (found,) = run_level(table, [NUMPY], only=["cases"]).outcomes
    assert (found.op, found.state) == ("kit_cube", "failed") and not table.cases
    assert given in found.reason and "netcl_conformance_cases('kit_cube')" in found.reason
    assert "of plugin 'cubes' of cubes" in found.reason and found.remedy


def test_a_case_of_attributes_that_the_op_lacks_is_one_failure(
    collect: Callable[..., Table],
) -> None:
    """And none of its checks is made, since each would fail."""
    table = collect(lambda op: [case(), case(attrs={"alpha": 2.0})])
    assert not table.cases
    failed = [each for each in run_level(table, [NUMPY]).outcomes if each.state == "failed"]
    (found,) = failed
    said = "attrs= has alpha; expected attributes of kit_cube: it has none"
    assert found.check == "cases" and said in found.reason


def test_what_raises_is_named_with_its_place(register: Callable[..., None]) -> None:
    """The remedy is that of what is raised, not that of the check it was raised in."""

    def raising(x: Any) -> Any:
        raise OSError("no result")

    def refusing(x: Any) -> Any:
        raise nc.errors.ShapeError("kit_cube: no such shape. Reshape it.")

    for call, remedy in ((raising, "test_conformance_kit.py:"), (refusing, "")):
        register(composite(call, name="kit_cube"))
        (found,) = outcomes(case(shapes=[[(3,)]]), only=["deterministic"])[:1]
        assert found.state == "failed" and remedy in found.remedy
        assert found.remedy.startswith("Correct what raises it: tests/") or not remedy


def test_a_remedy_names_op_device_and_dtype(register: Callable[..., None]) -> None:
    register(cube("{0} * {0}"))
    found = [each for each in outcomes(case(), only=["values"]) if each.dtype == "float32"]
    assert "`netcl kernels show kit_cube --device numpy --dtype float32`" in found[0].remedy


# -- scenarios -------------------------------------------------------------------------


def test_scenarios_come_from_the_hook_and_run_on_each_device(
    collect: Callable[..., Table],
) -> None:
    """One that goes wrong is one failure; the device is the default one meanwhile."""
    seen: list[Any] = []

    def fine(device: Any) -> None:
        assert nc.default_device() is device
        seen.append(device)

    def wrong(device: Any) -> None:
        assert device is None, "three steps went astray"

    def broken(device: Any) -> None:
        raise ZeroDivisionError("in the plugin")

    names = {"fine": fine, "wrong": wrong, "broken": broken}
    scenarios = [Scenario("kit_space", *row) for row in names.items()]
    table = collect(lambda op: scenarios if op == "kit_space" else case(), "kit_space")
    assert table.scenarios == scenarios and [each.op for each in table.cases] == ["kit_cube"]
    devices = usable_devices()
    result = run_level(table, devices, only=["scenario"])
    found = {(each.op, each.device): each for each in result.outcomes}
    assert len(found) == 3 * len(devices) and seen == devices
    for device in devices:
        by_name = {name: found[f"kit_space-{name}", device.id] for name in names}
        assert [each.state for each in by_name.values()] == ["passed", "failed", "failed"]
        assert by_name["wrong"].reason.startswith("three steps went astray")
        assert "ZeroDivisionError: in the plugin" in by_name["broken"].reason
        assert by_name["wrong"].remedy


def test_a_namespace_may_have_no_scenario(collect: Callable[..., Table]) -> None:
    table = collect(lambda op: None, "kit_space")
    assert table.scenarios == [] and table.problems == {}


def test_a_hook_that_is_wrong_about_a_namespace_is_one_failure(
    collect: Callable[..., Table],
) -> None:
    table = collect(lambda op: case(), "kit_space")
    found = run_level(table, [NUMPY], only=["cases"]).outcomes
    assert [(each.op, each.state) for each in found] == [
        ("kit_cube", "passed"), ("kit_space", "failed")
    ]  # fmt: skip
    assert "expected a list of netcl_plugin_kit.testing.Scenario" in found[1].reason


@pytest.mark.parametrize("name", ["data", "nn", "optim"])
def test_every_namespace_of_ours_has_scenarios(name: str) -> None:
    table = table_of(name)
    others = {"nn": {"serialization"}}.get(name, set())
    assert {each.namespace for each in table.scenarios} == {name} | others
    assert table.problems == {}


def test_a_plugin_that_is_not_there() -> None:
    with pytest.raises(PluginError, match=r"Did you mean netcl-plugin-losses\?"):
        table_of("netcl-plugin-lossse")


def test_every_plugin_of_ours_has_its_cases() -> None:
    for name in ("elementwise", "linalg", "losses", "tensor"):
        table = table_of(name)
        assert table.provider == f"netcl-plugin-{name}" and table.cases
        assert table.missing() == [] and table.problems == {}
        assert not [each for each in table.cases if each.note == "derived"]


def test_the_op_of_the_plugin_is_checked_and_not_its_rival(register: Callable[..., None]) -> None:
    """Two plugins with one name and priority: each table is of its own op."""
    register(cube())
    rival = registry.transaction("rival")
    rival.add("primitive", cube(forward="{0} * {0}"))
    rival.commit()
    try:
        only = ["values", "gradient"]
        assert failures(case(provider="cubes"), only=only) == {}
        assert failures(case(provider="rival"), only=only).keys() == {"values", "gradient"}
    finally:
        registry.remove_provider("rival")


class FasterPlugin:
    """Brings nothing but an implementation of somebody's operator."""

    def __init__(self, operator: str, plan: Callable[..., Any], requires: Requirements) -> None:
        self._record = Implementation(operator, "cubes", plan, requires, priority=-1)

    @nc.hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        registry.add(self._record)


@pytest.fixture
def implement() -> Iterator[Callable[..., Table]]:
    """The table of a plugin that implements an operator by this plan."""

    def of(operator: str, plan: Callable[..., Any], **requires: Any) -> Table:
        nc.plugins.register(FasterPlugin(operator, plan, Requirements(**requires)), "cubes")
        return table_of("cubes")

    yield of
    nc.plugins.unregister("cubes")


def plan_cumsum(extra: float) -> Callable[[Request], HostCall]:
    """cumsum by NumPy, and a little beside it."""

    def plan(request: Request) -> HostCall:
        def run(inputs: Sequence[Any], output: Any) -> None:
            output[...] = np.cumsum(inputs[0], request.attrs["dim"]) + extra

        return HostCall(run)

    return plan


@pytest.mark.parametrize(("extra", "state"), [(0.0, "passed"), (0.5, "failed")])
def test_another_ones_operator_is_checked_by_its_cases(
    implement: Callable[..., Table], extra: float, state: str
) -> None:
    """With the implementation of the plugin under test, though its priority is the lowest."""
    device = nc.default_device()
    if device.backend != "opencl" or device.kind != "cpu":
        pytest.skip("there is no OpenCL device that shares the host's memory")
    table = implement("cumsum", plan_cumsum(extra), dtypes=("float32",))
    assert table.ops == ["cumsum"] and not table.problems
    assert {dtype for each in table.cases for dtype in each.takes} == {"float32"}
    (found,) = run_level(table, [device], only=["values"]).outcomes
    assert (found.device, found.dtype, found.state) == (device.id, "float32", state)


def test_an_operator_of_nobody_has_no_cases(implement: Callable[..., Table]) -> None:
    table = implement("kit_nothing", plan_cumsum(0))
    assert not table.cases and "cubes give no case of it" in table.problems["kit_nothing"]


def test_a_device_that_the_plugin_leaves_out_is_skipped(
    register: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(cube())
    device = nc.default_device()
    if device.backend != "opencl":
        pytest.skip("there is no OpenCL device")
    monkeypatch.setitem(registry.limits, "cubes", lambda device: "it needs a quantum computer")
    found = [each for each in outcomes(case(), device=device) if each.device == device.id]
    assert {(each.state, each.reason) for each in found} == {
        ("skipped", "it needs a quantum computer")
    }
    assert {each.dtype for each in found} == set(case().takes)


def test_an_op_that_does_not_fuse_runs_alone(register: Callable[..., None]) -> None:
    """In the dtype of the excuse; its reason is told."""
    register(cube())
    device = nc.default_device()
    if device.backend != "opencl":
        pytest.skip("there is no OpenCL device")
    excused = case(skip={"fused in float16": "half of it is lost"})
    found = outcomes(excused, device=device, only=["fused", "values"])
    states = {(each.check, each.dtype): each.state for each in found}
    assert states["fused", "float16"] == "skipped" and states["values", "float16"] == "passed"
    assert states["fused", "int32"] == "passed"


def test_collecting_imports_no_pytorch(python: Callable[..., str]) -> None:
    """Which takes seconds, in everybody's collection of tests."""
    code = "import sys\nfrom netcl_plugin_kit.testing import table_of\n"
    code += "from netcl_plugin_kit.testing.steps import steps_of\n"
    code += "steps_of(table_of('losses'), [])\nprint('torch' in sys.modules)"
    assert python(code) == "False"


def test_an_expected_failure(register: Callable[..., None]) -> None:
    """It is told apart, and one that passes is a failure."""
    register(cube(forward="{0} * {0} * {0} + 1e-4f"))
    excused = case(xfail={"values": "the runtime adds a little"})
    found = {each.dtype: each for each in outcomes(excused, only=["values"])}
    assert found["float64"].state == "xfailed"
    assert found["float64"].reason == "the runtime adds a little"
    assert found["int32"].state == "failed"  # 1e-4 is lost on the way to a whole number
    assert "was expected to fail (the runtime adds a little), but passes" in found["int32"].reason
    in_one = case(xfail={"values in float64 on NumPy": "the runtime adds a little"})
    found = {each.dtype: each for each in outcomes(in_one, only=["values"])}
    assert (found["float64"].state, found["float32"].state) == ("xfailed", "failed")
    elsewhere = case(xfail={"values on Portable": "the runtime adds a little"})
    assert "values" in failures(elsewhere, only=["values"])


def test_one_of_a_group_does_not_hide_the_others(register: Callable[..., None]) -> None:
    """A group of fused ops that fails is taken apart; whose fault it is, is said."""
    device = nc.default_device()
    if device.backend != "opencl":
        pytest.skip("there is no OpenCL device")
    register(cube(forward="{0} * {0} * {0} + 1e-4f"))
    other = Case("square", (normal(),), reference=np.square)
    table = Table("cubes", [case(), other])
    found = run_level(table, [device], only=["fused"]).outcomes
    states = {(each.op, each.state) for each in found if each.dtype == "float32"}
    assert states == {("kit_cube", "failed"), ("square", "passed")}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"skip": {"fused": " "}}, "skip of 'fused' without a reason"),
        ({"skip": {"everything": "why not"}}, "the check 'everything'"),
        ({"skip": {"values in float8": "why not"}}, "the check 'values in float8'"),
        ({"xfail": {"PyTorch": "why not"}}, "xfail has the check 'PyTorch'"),
        ({"skip": {"reference": "why not"}}, "the check 'reference'"),
        ({"skip": {"gradient at NaN on NumPy": "why not"}}, "the check 'gradient at NaN on NumPy'"),
        ({"skip": {"refusal in float16": "why not"}}, "the check 'refusal in float16'"),
        ({"xfail": {"scenario": "why not"}}, "xfail has the check 'scenario'"),
        ({"xfail": {"gradient in float32": "why not"}}, "the check 'gradient in float32'"),
        ({"xfail": {"values": ""}}, "xfail of 'values' without a reason"),
        ({"tolerance": 5}, r"tolerance=5 without a reason"),
        ({"shapes": [[(1,), (2,)]]}, "2 shapes; expected one per input, 1"),
    ],
)
def test_an_excuse_needs_a_reason(options: dict[str, Any], text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        case(**options)


@pytest.mark.parametrize("op", ["prelu", "pow"])
def test_ops_that_align_their_operands_are_fused_without_pytorch(
    monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """Their public functions refuse shapes that their expressions take."""
    monkeypatch.setattr(reference, "has_torch", lambda: False)
    monkeypatch.setattr(reference, "torch_module", lambda: None)
    cases = [case for case in table_of("netcl-plugin-elementwise").cases if case.op == op]
    for case in cases:
        for dtype in ("float16", "float32"):
            if dtype in case.takes:
                check_group([case], nc.default_device(), dtype)
