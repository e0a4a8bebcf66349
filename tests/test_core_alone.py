"""The core without netcl-market: it loads plugins by their entry points, and runs under no lock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import install

#: They start processes.
pytestmark = pytest.mark.turns(2)

ALONE = "import sys; sys.modules['netcl_market'] = None; import netcl_core as nc\n"
NAMED = {"NETCL_PLUGINS": "elementwise, losses"}


def test_plugins_are_loaded_by_their_entry_points(python: Callable[..., str]) -> None:
    code = (
        ALONE
        + """
import netcl_core.autograd as ag
x = ag.tensor([0.5, -0.5], requires_grad=True)
f = ag.jit_compile(lambda x: ag.sum(ag.gelu(x) * 2))
with nc.use_device("numpy"):
    f(x).backward()
print({each.name: each.state for each in nc.plugins.list() if each.state != "disabled"})
"""
    )
    assert python(code, NETCL_PLUGINS="elementwise, tensor") == (
        "{'elementwise': 'active', 'tensor': 'active'}"
    )


@pytest.mark.parametrize("device", ["numpy", ""])
def test_gradients_of_broadcast_inputs_need_no_reductions(
    python: Callable[..., str], device: str
) -> None:
    """Without the namespace `reductions` the engine adds halves."""
    code = (
        ALONE
        + """
import netcl_core.autograd as ag, numpy as np
column, row = np.arange(5.0).reshape(5, 1), np.arange(14.0).reshape(7, 1, 2)
x, y = (nc.tensor(part, requires_grad=True) for part in (column, row))
ag.mul(x, y).backward(nc.ones(7, 5, 2))
print(np.ptp(x.grad), x.grad.numpy()[0, 0] == row.sum(), np.ptp(y.grad), y.grad.shape)
"""
    )
    said = python(code, NETCL_PLUGINS="elementwise", NETCL_DEVICE=device)
    assert said == "0.0 True 0.0 (7, 1, 2)"


@pytest.mark.parametrize(
    ("asked", "who", "plugin"),
    [
        ("ag.grad(ag.gelu(x), x, create_graph=True)", "create_graph=True through gelu", "fusion"),
        ("ag.grad(f(x)[1], f(x)[0])", "a gradient for one of several results of", "fusion"),
        ("ag.no_grad(numbers)", "no_grad of a generator or a coroutine", "autodiff"),
    ],
)
def test_it_says_what_to_install(
    python: Callable[..., str], asked: str, who: str, plugin: str
) -> None:
    code = (
        ALONE
        + f"""
import netcl_core.autograd as ag
x = nc.tensor([0.5], requires_grad=True)
f = ag.jit_compile(lambda x: [y := ag.gelu(x), ag.gelu(y)])
def numbers(): yield 1
try:
    {asked}
except nc.errors.MissingNamespaceError as error:
    print(error)
"""
    )
    said = python(code, NETCL_PLUGINS="elementwise", NETCL_DEVICE="numpy")
    assert said.startswith(who) and f"netcl-plugin-{plugin}" in said


def test_a_table_of_devices_needs_no_market(python: Callable[..., str]) -> None:
    code = ALONE + "from netcl_core.cli import devices; print('-'); devices.show_devices(False)"
    _, header, *rows = python(code, NETCL_DEVICE="numpy").splitlines()
    (row,) = [row for row in rows if row.startswith("* ") and "NumPy" in row]
    assert row.index("NumPy") == header.index("name")


def test_the_settings_hold(python: Callable[..., str]) -> None:
    code = ALONE + "print({each.name: each.reason for each in nc.plugins.list()}['losses'])"
    said = python(code, **NAMED, NETCL_PLUGINS_DISABLE="losses")
    assert said == "NETCL_PLUGINS_DISABLE (plugins-disable) names it"
    assert 'is "listed"' in python(code, NETCL_TRUST="listed")


@pytest.mark.parametrize("file", [True, False])
def test_a_strict_lock_is_refused(python: Callable[..., str], tmp_path: Path, file: bool) -> None:
    if file:
        (tmp_path / "netcl.lock").write_text("{}")
    code = (
        ALONE
        + f"""
import os; os.chdir({str(tmp_path)!r})
try:
    nc.plugins.list()
except nc.errors.PluginError as error:
    print(error.code, error)
"""
    )
    said = python(code, **NAMED, NETCL_LOCK_STRICT="1")
    assert said.startswith("NP511 ") and "pip install netcl-market" in said
    if file:
        code = (
            ALONE
            + f"""
import os, warnings; os.chdir({str(tmp_path)!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    nc.plugins.list()
print(*(each.message for each in caught))
"""
        )
        assert python(code, **NAMED).startswith("NP511: ")


def test_data_needs_a_market(python: Callable[..., str], tmp_path: Path) -> None:
    package = {"only_data/__init__.py": "", "only_data/netcl_plugin.toml": "schema = 1\n"}
    points = {"netcl_core.manifest": {"only_data": "only_data:netcl_plugin.toml"}}
    install(tmp_path, "netcl-plugin-only-data", package, points)
    code = (
        ALONE
        + """
import warnings; warnings.simplefilter("ignore")
(one,) = [each for each in nc.plugins.list() if each.kind == "data"]
print(one.state, one.code)
"""
    )
    assert python(code, PYTHONPATH=str(tmp_path)) == "incompatible NP106"


def test_a_broken_market_is_no_missing_one(python: Callable[..., str], tmp_path: Path) -> None:
    """Its lock would be ignored."""
    package = {"netcl_market/__init__.py": "", "netcl_market/market.py": "1 / 0"}
    install(tmp_path, "netcl-market", package, {})
    code = """
import netcl_core as nc
try:
    nc.plugins.list()
except nc.errors.PluginError as error:
    print(error)
"""
    said = python(code, PYTHONPATH=str(tmp_path))
    assert said.startswith("netcl-market: it is installed, and importing it raised ZeroDivision")


def test_the_command_line_says_who_has_the_doctor(python: Callable[..., str]) -> None:
    code = (
        ALONE
        + """
import importlib.metadata; importlib.metadata.distributions = lambda: []
from click.testing import CliRunner
from netcl_core.cli.main import netcl
listed, asked = (CliRunner().invoke(netcl, [word]) for word in ("devices", "doctor"))
print(listed.exit_code, "* the default: " in listed.stdout, asked.exit_code, asked.stderr)
"""
    )
    said = python(code, NETCL_DEVICE="numpy")
    assert said.startswith("0 True 2 ") and "pip install netcl-market" in said
