"""What `sanitize` says of another author's plugin, and where the simulator is looked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import distributions
import pytest
from netcl_plugin_kit.faults import sanitizer
from netcl_plugin_kit.faults.sanitizer import Simulated
from netcl_plugin_kit.testing import Table

import netcl_core as nc
from netcl_core.hardware import runtimes
from netcl_core.plugins.registry import registry

FAULTY = """
import os
import numpy as np
from netcl_core import Kernel, Kernels, Spec, hookimpl
from netcl_core.autograd import Implementation, Operator
from netcl_plugin_kit.testing import Case, normal

BOTH = (("in", 0), ("out", 0))
OPS = {
    "fine": (*BOTH, ("ulong", 37)),
    "crash": BOTH,
    "overrun": (*BOTH, ("ulong", 37)),
    "race": BOTH[1:],
    "divergence": BOTH,
    "uninitialized": (("scratch", 0), BOTH[1]),
    "unfit": BOTH,
    "partly": (*BOTH, ("ulong", 37)),
    "printing": BOTH,
    "unbarred": BOTH,
    "unsized": BOTH,
}

GROUPED = ("f_divergence", "f_unsized", "f_unbarred")

def made(name, args):
    def plan(request):
        if name == "crash":
            print("about to crash")
            os._exit(3)
        size = {"divergence": 32, "unsized": 32, "unbarred": 32, "overrun": 40}.get(name, 37)
        local = (32,) if name == "divergence" else None
        file = "unfit" if name == "partly" and request.device.kind == "gpu" else name
        kernel = Kernel(f"faulty/{file}.cl.j2", name, args, (size,), local, {"local": 32})
        return Kernels((kernel,), (4 * 37,) if name == "uninitialized" else ())
    return Operator(
        f"f_{name}", lambda x: ([x], {}), lambda x: Spec(x.shape, x.dtype), lambda x: np.array(x),
        implementations=(Implementation(f"f_{name}", "plain", plan),),
    )

class Plugin:
    @hookimpl
    def netcl_register_operators(self, registry):
        for name, args in OPS.items():
            registry.add(made(name, args))

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case(op, (normal(),), shapes=[[(32 if op in GROUPED else 37,)]],
                     dtypes=("float32",), differentiable=False)]

plugin = Plugin()
"""


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """The table of an installed plugin whose kernels are faulty in one way each."""
    folder = Path(distributions.__file__).with_name("templates")
    templates = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    fine = (folder.with_name("sound") / "fine.cl.j2").read_text(encoding="utf-8")
    templates |= {
        "fine.cl.j2": fine,
        "partly.cl.j2": fine,
        "crash.cl.j2": fine,
        "unfit.cl.j2": "no OpenCL C",
    }
    distributions.install_plugin(tmp_path / "site", "faulty", FAULTY, templates)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    spec = importlib.import_module("faulty_package")
    nc.plugins.register(spec.plugin, "faulty")
    rows = [row for row in registry.rows("operator") if row.record.name.startswith("f_")]
    cases = [case for row in rows for case in spec.plugin.netcl_conformance_cases(row.record.name)]
    yield Table("netcl-plugin-faulty", cases)
    nc.plugins.unregister("faulty")
    del sys.modules["faulty_package"]


def test_what_is_found_in_a_plugin(faulty: Table) -> None:
    """Through the public function: kernel and line of each fault, and a crash costs only itself."""
    if sanitizer.command() is None:
        pytest.skip(sanitizer.MISSING)
    heard: list[tuple[str, int, int]] = []
    found = {o.op: o for o in sanitizer.sanitize(faulty, lambda *news: heard.append(news))}
    assert list(dict.fromkeys(heard)) == [
        (f"sanitizer: {op}", i, 11) for i, op in enumerate(faulty.ops)
    ]
    assert heard.count(("sanitizer: f_fine", 0, 11)) > 2  # one that is slow is still heard of
    states = {op.removeprefix("f_"): outcome.state for op, outcome in found.items()}
    assert states.pop("fine") == "passed" and found["f_fine"].reason == ""
    assert states.pop("unfit") == "skipped" and "BuildError" in found["f_unfit"].reason
    assert states.pop("partly") == states.pop("printing") == "passed"
    half = "not all of it was run: BuildError: "
    assert found["f_partly"].reason.startswith(half) and " as a gpu)" in found["f_partly"].reason
    assert set(states.values()) == {"failed"} and len(states) == 7
    reasons = {op: outcome.reason for op, outcome in found.items()}
    assert "Write-write data race in kernel race, line 3: out0[0] = " in reasons["f_race"]
    assert "Invalid write of size 4 in kernel overrun, line 4:" in reasons["f_overrun"]
    assert "(f_overrun in float32 for [(37,)] as a cpu)" in reasons["f_overrun"]
    assert "divergence detected (barrier) in kernel divergence" in reasons["f_divergence"]
    assert "uninitialized value in kernel uninitialized, line 4:" in reasons["f_uninitialized"]
    assert "divergence detected (barrier) in kernel unsized" in reasons["f_unsized"]
    codes = {op: reason[:5] for op, reason in reasons.items() if reason[:2] == "NC"}
    assert codes == {
        "f_race": "NC711", "f_overrun": "NC701", "f_divergence": "NC712", "f_unsized": "NC712",
        "f_uninitialized": "NC713", "f_unbarred": "NC715",
    }  # fmt: skip
    ended = "the simulator ended with exit code 3: about to crash"
    assert reasons["f_crash"] == ended
    assert all("netcl kernels show" in found[f"f_{op}"].remedy for op in states if op != "crash")


def test_a_scenario_that_runs_on_one_kind_of_device_says_so() -> None:
    cpu = Simulated(launched=2, label="it as a cpu")
    gpu = Simulated(unfit="BuildError: no", label="it as a gpu")
    both = sanitizer._of_both([cpu, gpu])
    assert (both.launched, both.unfit) == (2, "BuildError: no (it as a gpu)")
    worse = Simulated(error="ValueError: no", label="it as a gpu")
    assert sanitizer._of_both([cpu, worse]) is worse


def test_a_simulator_that_does_not_start_is_no_verdict() -> None:
    """It is neither a pass nor a failure of the plugin, and is tried once, not once per op."""
    if sanitizer.command() is None:
        pytest.skip(sanitizer.MISSING)
    unknown = Table("netcl-plugin-unknown", [])
    one, two = sanitizer.sanitize(unknown, ops=["first", "second"])
    assert one.state == two.state == "skipped" and one.reason == two.reason
    assert "the simulator did not start: " in one.reason and "netcl-plugin-unknown" in one.reason


def test_without_the_tool_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitizer, "command", lambda: None)
    (outcome,) = sanitizer.sanitize(Table("kit", []), ops=["add"])
    assert (outcome.state, outcome.reason) == ("skipped", sanitizer.MISSING)


def test_where_the_tool_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On PATH, beside the interpreter, among the runtimes that pip installed."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr(sanitizer, "discover", list)
    assert sanitizer.command() is None
    runtime = runtimes.Runtime("oclgrind", "liboclgrind.so", "pip", None, True, "")
    monkeypatch.setattr(sanitizer, "discover", lambda: [runtime])
    assert sanitizer.command() == []
    for folder in ("bin", "first"):
        (tmp_path / folder).mkdir()
        tool = tmp_path / folder / "oclgrind"
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        if folder == "first":
            monkeypatch.setenv("PATH", str(tool.parent))
        assert sanitizer.command() == [str(tool)]
