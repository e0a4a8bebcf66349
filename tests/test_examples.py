"""The example plugins as others get them: built, installed in a clean environment, checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from environments import ROOT, Environment, build, run

EXAMPLES = sorted(path.parent for path in ROOT.glob("plugins/examples/*/pyproject.toml"))
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def shelf(core_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of the examples and of all that they require."""
    folder = tmp_path_factory.mktemp("shelf")
    shutil.copy(core_wheel, folder)
    plugins = (
        "amp", "optim", "elementwise", "tensor", "linalg", "fusion", "patterns", "kit",
        "data-kernels",
    )  # fmt: skip
    for name in ("netcl-market", *(f"netcl-plugin-{each}" for each in plugins)):
        build(ROOT / "plugins" / name, folder, "wheel")
    for project in EXAMPLES:
        build(project, folder, "wheel")
    return folder


#: A policy is tried with every op on every device, which builds for minutes.
LONG = "netcl-plugin-half-inference"
CHECKED = [
    pytest.param(each, id=each.name, marks=[pytest.mark.nightly] if each.name == LONG else [])
    for each in EXAMPLES
]


@pytest.mark.parametrize("project", CHECKED)
def test_an_example_passes_its_check(
    project: Path, shelf: Path, new_environment: Callable[..., Environment]
) -> None:
    clean = new_environment()
    clean.install(f"{project.name}[dev]", links=shelf)
    command = [clean.folder / "bin" / "netcl", "plugins", "check", project.name, "--level", "run"]
    done = run([*command, "--json"], clean.work, **clean.variables())
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    record = json.loads(done.stdout)
    assert record["state"] == "pass" and record["level"] == "run"
    checked = {(each["check"], each["op"]) for each in record["outcomes"]}
    op = project.name.removeprefix("netcl-plugin-").replace("-", "_")
    wanted = {"half_inference": {("policy", op)}, "unit_lines": {("values", "l2_normalize")}}
    assert wanted.get(op, {("values", op), ("gradient", op)}) <= checked


#: A model that knows no plugin's name: the policy that it runs under is a setting.
MODEL = """
import contextlib, json, os
import numpy as np
import netcl_core as nc, netcl_core.autograd as ag

gated = ag.jit_compile(lambda x, z, w: ag.rms_norm(x * ag.silu(z), (64,), w, eps=1e-5))
x, z = (nc.tensor(each) for each in np.random.default_rng(0).normal(size=(2, 8, 64)).astype("f4"))
w = nc.tensor(np.ones(64, np.float32), requires_grad=True)
policy = os.environ.get("POLICY")
with ag.casting(policy) if policy else contextlib.nullcontext():
    explained, y = gated.explain(x, z, w), gated(x, z, w)
ag.sum(y * y).backward()
print(json.dumps({
    "dtype": y.dtype, "explained": explained, "launches": gated.lower(x, z, w).launches,
    "values": y.numpy().astype(float).tolist(), "gradient": w.grad.numpy().tolist(),
}))
"""


def test_a_model_uses_what_is_installed(
    shelf: Path, new_environment: Callable[..., Environment]
) -> None:
    """A pattern and a policy of packages that it does not name; it stays as it is written."""
    clean = new_environment()
    clean.install("netcl-core[cpu]", links=shelf)
    clean.install("netcl-plugin-tensor", links=shelf)

    def answer(**settings: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(clean.execute(MODEL, **settings))
        return found

    before = answer()
    assert "pattern" not in before["explained"]
    clean.install("netcl-plugin-gated-rms-norm", links=shelf)
    clean.install("netcl-plugin-half-inference", links=shelf)
    after, half = answer(), answer(POLICY="half_inference")
    assert "pattern gated_rms_norm (netcl-plugin-gated-rms-norm)" in after["explained"]
    assert after["launches"] < before["launches"]
    assert (before["dtype"], half["dtype"]) == ("float32", "float16")
    assert "under the amp policy half_inference" in half["explained"]
    for name in ("values", "gradient"):
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(half[name], before[name], rtol=2e-2, atol=2e-2)


#: Eager, compiled and NumPy; the last line tells what of the plugin Python has seen.
OF_DATA = """
import json, sys
import numpy as np
import netcl_core as nc, netcl_core.autograd as ag

found = []
for device in dict.fromkeys([nc.default_device(), nc.get_device("numpy")]):
    with nc.use_device(device):
        x = ag.tensor(np.random.default_rng(0).normal(size=(37, 130)).astype("f4"), True)
        y = ag.standardize(ag.squareplus(x))
        y.backward(np.cos(np.arange(37 * 130, dtype=np.float32)).reshape(37, 130))
        z = ag.jit_compile(lambda x: ag.standardize(ag.squareplus(x)))(x)
        found += [y.numpy().tolist(), z.numpy().tolist(), x.grad.numpy().tolist()]
kinds = {p.distribution: [p.kind, p.state] for p in nc.plugins.list()}
print(json.dumps([found, kinds, [name for name in sys.modules if "standardize" in name]]))
"""


def test_a_plugin_that_is_data_is_never_imported(
    shelf: Path, new_environment: Callable[..., Environment]
) -> None:
    """From its wheel, where nothing else is trusted; the kit is, for its own check alone."""
    clean = new_environment()
    clean.install("netcl-plugin-standardize[dev]", links=shelf)
    clean.install("netcl-plugin-elementwise", links=shelf)
    found, kinds, modules = json.loads(clean.execute(OF_DATA, NETCL_TRUST="data"))
    assert modules == []
    assert kinds.pop("netcl-plugin-standardize") == ["data", "active"]
    assert kinds.pop("netcl-plugin-data-kernels") == ["code", "active"]  # what reads it
    assert {*map(tuple, kinds.values())} == {("code", "disabled")}
    half = len(found) // 2
    for one, other in zip(found[:half], found[half:], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    trusted = {"NETCL_TRUST": "data", "NETCL_PLUGINS": "netcl-plugin-kit"}
    command = [clean.folder / "bin" / "netcl", "plugins", "check", "standardize", "--level", "full"]
    done = run([*command, "--json"], clean.work, **clean.variables(), **trusted)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    record = json.loads(done.stdout)
    assert (record["state"], record["level"]) == ("pass", "full")
    assert {"sanitizer", "mutants"} <= {*record["parts"]}
