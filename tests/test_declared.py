"""Plugins that are data: nothing of them is imported, and what reads them is no stranger's code.

What their definitions may hold is tested with netcl-plugin-data-kernels, which reads them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broken import GOOD
from distributions import TEMPLATE, install, install_plugin
from locked import Site
from netcl_market.installed import Installed
from netcl_market.states import States
from netcl_market.survey import survey
from netcl_plugin_tools.lock.run import pin

#: They start processes.
pytestmark = pytest.mark.turns(2)

EXAMPLE = Path(__file__).parent.parent / "plugins/examples/netcl-plugin-standardize/src"
PACKAGE = "netcl_plugin_standardize"
MANIFEST = EXAMPLE / PACKAGE / "netcl_plugin.toml"
READER = "netcl_plugin_data_kernels"
SOURCES = Path(__file__).parent.parent / "plugins/netcl-plugin-data-kernels/src"


def install_example(site: Path, **further: str) -> None:
    """The example as pip would leave it, with further files."""
    points = {"netcl_core.manifest": {"standardize": f"{PACKAGE}:netcl_plugin.toml"}}
    install(site, "netcl-plugin-standardize", {**texts(EXAMPLE), **further}, points)


def install_reader(site: Path, **further: str) -> None:
    """What reads such plugins as pip would leave it, with further files."""
    points = {
        "netcl_core.plugins": {"data-kernels": f"{READER}:plugin"},
        "netcl_core.manifest": {"data-kernels": f"{READER}:netcl_plugin.toml"},
    }
    install(site, "netcl-plugin-data-kernels", {**texts(SOURCES), **further}, points)


def texts(folder: Path) -> dict[str, str]:
    """The files of a folder by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*.*")
        if path.is_file() and path.suffix != ".pyc"
    }


# -- in a process ----------------------------------------------------------------------

USE = """
import json, sys
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag

found = []
for device in dict.fromkeys([nc.default_device(), nc.get_device("numpy")]):
    with nc.use_device(device):
        x = ag.tensor(np.arange(12, dtype=np.float32).reshape(3, 4) ** 1.5, requires_grad=True)
        y = ag.standardize(ag.squareplus(x, b=2.0), eps=0.5)
        y.backward(np.eye(3, 4, dtype=np.float32))
        z = ag.jit_compile(lambda x: ag.standardize(ag.squareplus(x, b=2.0), eps=0.5))(x)
        found.append([y.numpy().tolist(), z.numpy().tolist(), x.grad.numpy().tolist()])
plugins = {p.name: [p.kind, p.state, p.reason] for p in nc.plugins.list()}
print(json.dumps([found, plugins, [name for name in sys.modules if "standardize" in name]]))
"""


def test_its_ops_work_and_nothing_of_it_is_imported(
    python: Callable[..., str], tmp_path: Path
) -> None:
    """Not even what lies in its package.

    Of plugins with code, its reader alone is loaded, while the first op is looked up; others are
    left out with the remedy, also one that offers to read data.
    """
    install_example(tmp_path, **{f"{PACKAGE}/__init__.py": "raise SystemExit('imported')"})
    offer = (SOURCES / READER / "netcl_plugin.toml").read_text(encoding="utf-8")
    install_plugin(tmp_path, "stranger", "raise SystemExit('imported')", manifest=offer)
    said = json.loads(python(USE, PYTHONPATH=str(tmp_path), NETCL_TRUST="data"))
    found, plugins, modules = said
    assert modules == [] and plugins.pop("standardize") == ["data", "active", ""]
    assert plugins.pop("data-kernels") == ["code", "active", ""]
    assert {state for _, state, _ in plugins.values()} == {"disabled"}
    reasons = {reason.partition("; to load it, name ")[0] for _, _, reason in plugins.values()}
    assert reasons == {'NETCL_TRUST (trust) is "data", and it brings code'}
    x = np.arange(12.0).reshape(3, 4) ** 1.5
    u = (x + np.sqrt(x * x + 2)) / 2
    y = (u - u.mean(-1, keepdims=True)) / np.sqrt(u.var(-1, keepdims=True) + 0.5)
    for eager, compiled, gradient in found:
        np.testing.assert_allclose(eager, y, atol=1e-5)
        np.testing.assert_allclose(compiled, y, atol=1e-5)
        np.testing.assert_allclose(gradient, found[-1][2], atol=1e-5)
        assert np.abs(gradient).max() > 0.1


def test_its_templates_are_its_own(python: Callable[..., str], tmp_path: Path) -> None:
    """Its package has no `__init__`, so that a folder later on the path could add to it."""
    site, behind = tmp_path / "site", tmp_path / "behind" / PACKAGE / "templates"
    install_example(site)
    (site / PACKAGE / "__init__.py").unlink(missing_ok=True)
    behind.mkdir(parents=True)
    text = texts(EXAMPLE)[f"{PACKAGE}/templates/squareplus.cl.j2"]
    (behind / "squareplus.cl.j2").write_text(text.replace("0.5 *", "-100 *"))
    code = "import netcl_core.autograd as ag; print(ag.squareplus(1.0, b=0.0).item())"
    path = os.pathsep.join((str(site), str(tmp_path / "behind")))
    assert python(code, PYTHONPATH=path, NETCL_TRUST="data") == "1.0"


COMMAND = """
import netcl_core.autograd as ag
try:
    ag.standardize(ag.tensor([[1.0, 2.0]])).numpy()
except Exception as error:
    print(getattr(error, "code", ""), error)
"""


def test_its_kernel_runs_no_command(python: Callable[..., str], tmp_path: Path) -> None:
    """A CPU's runtime links what a kernel declares against the process, `system` too."""
    name = f"{PACKAGE}/templates/standardize.cl.j2"
    kernel = texts(EXAMPLE)[name].replace("const size_t at =", "command(); const size_t at =")
    touch = ", ".join(map(str, f"touch {tmp_path}/marker\0".encode()))
    command = (
        "int system(const __private char *);\n"
        f"void command(void) {{ const char c[] = {{{touch}}}; system(c); }}\n"
    )
    install_example(tmp_path, **{name: command + kernel})
    said = python(COMMAND, PYTHONPATH=str(tmp_path), NETCL_TRUST="data")
    assert not (tmp_path / "marker").exists()
    assert said.startswith("NP320 the kernel of data 'standardize/standardize.cl.j2': line 1: ")


@pytest.mark.parametrize(
    ("trust", "listed", "loaded"),
    [
        ("all", None, {"standardize", "good", "data-kernels"}),
        ("all", "good", {"good"}),
        ("data", None, {"standardize", "data-kernels"}),
        ("data", "good", {"standardize", "good", "data-kernels"}),
        ("listed", None, set()),
        ("listed", "good", {"good"}),
        ("listed", "standardize", {"standardize"}),
    ],
)
def test_what_is_trusted_is_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trust: str,
    listed: str | None,
    loaded: set[str],
) -> None:
    install_example(tmp_path)
    install_plugin(tmp_path, "good", GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NETCL_TRUST", trust)
    monkeypatch.delenv("NETCL_PLUGINS", raising=False)
    if listed is not None:
        monkeypatch.setenv("NETCL_PLUGINS", listed)
    ours = {"standardize", "good", "data-kernels"}
    found = {each.name: each for each in survey(States()) if each.name in ours}
    assert {name for name, each in found.items() if each.state == "found"} == loaded
    assert all(each.reason for name, each in found.items() if name not in loaded)
    assert (found["standardize"].kind, found["good"].kind) == ("data", "code")


def test_a_wrong_definition_is_quarantined_whole(
    python: Callable[..., str], tmp_path: Path
) -> None:
    wrong = MANIFEST.read_text(encoding="utf-8").replace("x.ndim > 0 and", "y.ndim > 0 and")
    install_example(tmp_path, **{f"{PACKAGE}/netcl_plugin.toml": wrong})
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import netcl_core as nc, netcl_core.autograd as ag\n"
        "(p,) = [p for p in nc.plugins.list() if p.name == 'standardize']\n"
        "print(hasattr(ag, 'squareplus'), p.state, p.code, p.reason)"
    )
    said = python(code, PYTHONPATH=str(tmp_path), NETCL_TRUST="data")
    assert said.startswith("False quarantined NP318") and "the name 'y' is unknown" in said


UNREAD = """
import json, warnings
import netcl_core as nc, netcl_core.autograd as ag
from netcl_market.states import States
from netcl_market.survey import survey
from netcl_core.plugins.registry import registry

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    there = [hasattr(ag, "standardize"), *registry.rows_of("netcl-plugin-standardize")]
with nc.use_device("numpy"):
    works = ag.good_op(3.0).item()
(p,) = [p for p in nc.plugins.list() if p.name == "standardize"]
(later,) = [each.state for each in survey(States()) if each.name == "standardize"]
warned = [str(each.message) for each in caught if "'standardize'" in str(each.message)]
print(json.dumps([there, works, later, p.state, p.code, p.reason, warned]))
"""


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("missing", "no active plugin reads it. Install it with: pip install netcl-plugin-data-"),
        ("disabled", "netcl-plugin-data-kernels is installed but disabled (NETCL_PLUGINS_DISABLE"),
        ("broken", "netcl-plugin-data-kernels is installed but quarantined (RuntimeError: not"),
        ("half broken", "what reads plugins that are data failed: RuntimeError: not this"),
    ],
)
def test_without_a_reader_the_others_go_on(
    python: Callable[..., str], tmp_path: Path, case: str, reason: str
) -> None:
    """The plugin says what it lacks, nothing of it is there, and another process tries again."""
    install_example(tmp_path)
    install_plugin(tmp_path, "good", GOOD.format(name="good_op"), {"plus.cl.j2": TEMPLATE})
    wrong = {"broken": "__init__.py", "half broken": "hooks.py"}
    if case == "missing":  # the first copy of a distribution counts, and this one is no plugin
        install(tmp_path, "netcl-plugin-data-kernels", {}, {})
    elif case in wrong:
        install_reader(tmp_path, **{f"{READER}/{wrong[case]}": "raise RuntimeError('not this')"})
    disabled = "data-kernels" if case == "disabled" else ""
    said = python(UNREAD, PYTHONPATH=str(tmp_path), NETCL_PLUGINS_DISABLE=disabled)
    there, works, later, state, code, text, warned = json.loads(said)
    assert (there, works, later) == ([False], 10.0, "found")
    assert (state, code) == ("incompatible", "NP106") and reason in text
    assert len(warned) == 1 and reason in warned[0]


def test_a_strict_lock_holds_the_reader(tmp_path: Path) -> None:
    """As any other distribution, and before it is imported."""
    site = Site(tmp_path)
    site.names += ["standardize", "data-kernels"]
    install_example(site.folder)
    install_reader(site.folder)
    written = site.command()
    assert written.returncode == 0, written.stderr
    use = "import netcl_core as nc; nc.use_device('numpy'); print(nc.squareplus(0.0).item())"
    settings = {"NETCL_LOCK_STRICT": "1", "NETCL_TRUST": "data"}
    done = site.run("-c", use, **settings)
    assert done.stdout == "1.0\n", done.stderr
    (site.folder / READER / "hooks.py").write_text("raise SystemExit('imported')")
    done = site.run("-c", use, **settings)
    assert done.returncode != 0 and "NP505: netcl-plugin-data-kernels" in done.stderr
    assert "imported" not in done.stderr


def test_a_lock_counts_every_file_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was added later: its folder need not be a package."""
    install_example(tmp_path)
    (tmp_path / PACKAGE / "templates" / "later.cl.j2").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [each for each in survey(States()) if each.name == "standardize"]
    places = Installed("netcl-plugin-standardize", "1.0", found.source).places()
    names = {name for name, _ in places.all()}
    templates = [f"{PACKAGE}/templates/{file}.cl.j2" for file in ("later", "standardize")]
    assert {f"{PACKAGE}/netcl_plugin.toml", *templates} <= names and not places.shadowed
    assert found.source is not None and pin(Installed("x", "1", found.source)).data
