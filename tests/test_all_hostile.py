"""All hostile plugins of these tests at once, beside the first-party ones, whose results stay."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from broken import (
    BROKEN,
    CLASS,
    DEADLY,
    END,
    GOOD,
    HEAD,
    SQUARE,
    install_broken,
    install_duplicates,
)
from distributions import TEMPLATE, install, install_plugin
from environments import ROOT, run, succeed

from netcl_core import cache as programs

#: Values and gradients of ops, modules, an optimizer, a policy and a compiled function.
RESULTS = """
import json, warnings
warnings.simplefilter("ignore")
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag
def ramp(*shape):
    return nc.tensor(np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape))
def results():
    x, w, image = ramp(4, 6), ramp(6, 5), ramp(1, 2, 5, 5)
    yield from (ag.relu(x), ag.gelu(x), ag.matmul(x, w), ag.softmax(x, -1), ag.sum(x, 0))
    yield from (ag.conv2d(image, ramp(3, 2, 3, 3)), ag.max_pool2d(image, 2), ag.sort(x)[0])
    yield ag.cross_entropy(ag.matmul(x, w), nc.tensor([0, 1, 2, 3]))
    yield ag.layer_norm(x, (6,), None, None)
    yield ag.jit_compile(lambda x: ag.sum(ag.relu(ag.mul(x, x)), -1))(x)
    model = nc.nn.Linear(6, 5)
    for each in model.parameters():
        each.overwrite(ag.mul(nc.ones(each.shape), 0.25))
    step = nc.optim.SGD(model.parameters(), lr=0.5)
    with ag.Tape() as tape, nc.amp.autocast():
        loss = ag.mse_loss(model(x), ramp(4, 5))
    tape.backward(loss)
    step.step()
    yield from model.parameters()
print(json.dumps([each.to_host().tolist() for each in results()]))
"""
#: What becomes of all plugins, and what is said of those who claim what others have.
REPORT = """
import json, warnings
from click.testing import CliRunner
import netcl_core as nc
from netcl_core.cli import main
from netcl_market.doctor_checks import doctor_checks
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = {p.id: [p.state, p.code, p.reason] for p in nc.plugins.list()}
    helped = CliRunner().invoke(main.netcl, ["plugins", "lock", "--help"])
    checks = [[name, fine, said] for name, fine, said in doctor_checks() if not fine]
    why = {name: CliRunner().invoke(main.netcl, ["plugins", "why", name]).output
           for name in ("relu", "matmul", "nn", "plugins lock")}
print(json.dumps([found, helped.output, checks, why, [str(each.message) for each in caught]]))
"""
CLAIMS = """\
from netcl_core import hookimpl
import netcl_core.autograd as ag
class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        wrong = lambda x, a: f"{x[0]} * -100"
        registry.add(ag.AutogradPrimitive("relu", wrong, None, arity=1), priority=9)
    @hookimpl
    def netcl_register_operators(self, registry):
        registry.add(ag.Implementation("matmul", "wrong", print, priority=9))
    @hookimpl
    def netcl_register_namespaces(self, registry):
        registry.add("nn", "json")
    @hookimpl
    def netcl_register_amp_policies(self, registry):
        registry.add(ag.AmpPolicy("fp16-storage", "float16", default="allow"), 9)
    @hookimpl
    def netcl_cli_commands(self, add_command):
        import click
        add_command(click.Command("lock"), group="plugins")
plugin = Plugin()
"""
LEAVES = """\
from netcl_core import hookimpl
print("\\x1b[2Ja banner")
class Plugin:
    @hookimpl
    def netcl_cli_commands(self, add_command):
        raise SystemExit(0)
    @hookimpl
    def netcl_doctor(self):
        raise KeyboardInterrupt
plugin = Plugin()
"""
#: Those who end the interpreter: the doctor finds them in a process of their own.
ENDING = ("crash", "leaving")


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Everything hostile on the path, and the settings that say who is preferred."""
    site, cache = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("cache")
    for name in (*BROKEN, *ENDING):
        install_broken(site, name)
    install_duplicates(site)
    install_plugin(site, "claims", CLAIMS)
    install_plugin(site, "leaves", LEAVES)
    relu = f"{HEAD}op = AutogradPrimitive('relu', {SQUARE}, 1)\n"
    for name in ("elementwise", "nn"):
        plugin = f"{CLASS}        registry.add(AutogradPrimitive('relu', {SQUARE}, 1)){END}"
        files = {f"thief_{name}/__init__.py": plugin, f"thief_{name}/templates/x.cl.j2": TEMPLATE}
        points = {"netcl_core.plugins": {name: f"thief_{name}:plugin"}}
        install(site, f"netcl-plugin-aaa-{name}", files, points)
    install(
        site, "short-a", {"short_a.py": relu}, {"netcl_core.primitives": {"relu": "short_a:op"}}
    )
    info = install_plugin(site, "piped", GOOD.format(name="piped_op"))
    (info / "RECORD").unlink()
    os.mkfifo(info / "RECORD")
    (cache / "programs").symlink_to(programs.folder())
    ours = ",".join(
        path.parent.name for path in sorted(ROOT.glob("plugins/netcl-*/pyproject.toml"))
    )
    path = os.pathsep.join((str(site), str(ROOT)))
    return {"PYTHONPATH": path, "NETCL_CACHE_DIR": str(cache), "NETCL_RANK": ours}


@pytest.fixture(scope="module")
def found(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a process says of all of them, after the doctor has looked."""
    folder = tmp_path_factory.mktemp("work")
    command = [sys.executable, "-m", "netcl_core.cli.main", "doctor", "--json"]
    assert json.loads(run(command, folder, **variables).stdout)["findings"]
    return json.loads(succeed([sys.executable, "-c", REPORT], folder, **variables))


def test_every_first_party_result_is_right(
    found: Any, variables: dict[str, str], tmp_path: Path
) -> None:
    program = [sys.executable, "-c", RESULTS]
    alone = {**variables, "PYTHONPATH": str(ROOT)}
    assert succeed(program, tmp_path, **variables) == succeed(program, tmp_path, **alone)
    states = [state for name, (state, *_) in found[0].items() if name.startswith("netcl-plugin-")]
    assert len(states) > 14 + len(BROKEN)


@pytest.mark.parametrize("name", [*BROKEN, *ENDING])
def test_every_broken_one_is_named_with_its_reason(found: Any, name: str) -> None:
    row = {**BROKEN, **DEADLY}[name]
    own = f"netcl-plugin-{name}" if name == "malformed" else name
    state, code, reason = found[0][f"netcl-plugin-{name.replace('_', '-')}:{own}"]
    assert (state, code) == (row.state, row.failure) and row.reason in reason


def test_everybody_who_claims_what_another_has_is_named(found: Any) -> None:
    states, helped, checks, why, warned = found
    for each in ("claims:claims", "aaa-elementwise:elementwise", "aaa-nn:nn", "leaves:leaves"):
        assert states[f"netcl-plugin-{each}"][0] == "active"
    for each in ("netcl-plugin-claims", "netcl-plugin-aaa-nn", "short-a"):
        assert each in why["relu"]
    assert "netcl-plugin-claims" in why["nn"] and "netcl-plugin-claims" in why["plugins lock"]
    assert "Usage: " in helped and "--check" in helped
    assert any("does not get the command 'plugins lock'" in each for each in warned)
    assert any("'leaves'" in each and "has no commands (SystemExit" in each for each in warned)
    assert any("leaves" in name and "Interrupt" in said for name, _, said in checks)
    assert "\x1b" not in json.dumps(found)
