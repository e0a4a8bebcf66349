"""Random programs: as they are, compiled, and by PyTorch in float64, they agree.

`make fuzz` runs many more, and larger ones.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import differential
import pytest
from daily import examples
from differential import Found, check, covectors, functions, run_netcl, sample
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices
from programs import FLOATS, Program, generate

import netcl_core as nc
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.plugins.registry import registry

pytest.importorskip("torch")
for _plugin in ("elementwise", "tensor", "linalg"):
    pytest.importorskip(f"netcl_plugin_{_plugin}")


def fuzz(count: int) -> settings:
    """So many programs, by day a quarter."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@st.composite
def programs(draw: Any, length: int = 10, dtypes: Any = FLOATS) -> Any:
    """A program; Hypothesis makes all its choices, and shrinks them."""
    return generate(lambda count: draw(st.integers(0, count - 1)), length=length, dtypes=dtypes)


@pytest.fixture(autouse=True)
def no_warnings_of_skipped_fusion() -> Iterator[None]:
    """A structured op in the middle of a chain is said aloud; here that is meant."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@fuzz(300)
@given(programs())
def test_the_numpy_path(program: Program) -> None:
    report = check(program, nc.get_device("numpy"))
    assert not report.mismatches, f"{report.mismatches}\n{program}"


@fuzz(40)
@given(programs(length=6, dtypes=("float32",)))
def test_an_opencl_runtime(program: Program) -> None:
    device = usable_devices()[0]
    if device.backend != "opencl":
        pytest.skip("only the NumPy path here")
    report = check(program, device)
    assert not report.mismatches, f"{report.mismatches}\n{program}"


# -- the fuzzer itself ------------------------------------------------------------------------


def _seeded(count: int) -> Iterator[Program]:
    for seed in range(count):
        yield generate(random.Random(seed).randrange, dtypes=("float32",))


def test_programs_are_varied() -> None:
    made = list(_seeded(300))
    text = "\n".join(map(str, made))
    for part in ("@ag.jit_compile", ".astype('float16')", "ag.sum(", "ag.softmax(", " @ ",
                 "ag.reshape(", "ag.where(", ".detach()", "k0", "bool", "int64"):  # fmt: skip
        assert part in text, part
    calls = {line.netcl.split("(")[0] for program in made for line in program.lines}
    assert len(calls) > 50
    assert sum(len(set(program.outputs)) > 1 for program in made) > 100


def _mismatches(count: int) -> int:
    device = nc.get_device("numpy")
    return sum(bool(check(program, device).mismatches) for program in _seeded(count))


def test_a_gradient_that_is_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth is more than rounding explains."""
    real = differential.run_netcl

    def wrong(*args: Any) -> Found:
        found = real(*args)
        gradients = [None if x is None else x * 1.001 for x in found.gradients]
        return Found(found.outputs, found.dtypes, gradients)

    assert _mismatches(40) == 0
    monkeypatch.setattr(differential, "run_netcl", wrong)
    assert _mismatches(40) > 8


def test_a_wrong_formula_is_found_and_made_small() -> None:
    record = registry.find_op("tanh").record
    broken = AutogradPrimitive("tanh", record.forward, lambda x, g, a, o: [f"{g} * (1 - {o})"], 1)
    change = registry.transaction("fuzz", override=True)
    change.add("primitive", broken, 1000)
    change.commit()
    try:
        found = next(
            each for each in _seeded(400) if check(each, nc.get_device("numpy")).mismatches
        )
        while smaller := [
            each for each in found.smaller() if check(each, nc.get_device("numpy")).mismatches
        ]:
            found = smaller[0]
        assert len(found.lines) <= 5 and "tanh" in str(found)
    finally:
        registry.remove_provider("fuzz")


def test_a_program_runs_as_its_source_says() -> None:
    program = next(each for each in _seeded(100) if each.nested != (0, 0) and each.numbers)
    plain, compiled = functions(program)
    device = nc.get_device("numpy")
    one, two = (run_netcl(program, *sample(program), device, f) for f in (plain, compiled))
    assert "def part(" in program.netcl() and compiled.cache_info().misses == 1
    assert [x.shape for x in one.outputs] == [x.shape for x in two.outputs]
    assert len(covectors(one.outputs, one.dtypes)) == len(program.outputs)
