"""pytest finds the conformance kit by itself: `--netcl-plugin NAME`, and nothing without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from distributions import TEMPLATE, install, install_plugin

#: They start processes.
pytestmark = pytest.mark.turns(3)

#: What no run of anybody's may import because netcl is installed.
HEAVY = ("numpy", "pyopencl", "jinja2", "click", "rich", "importlib_metadata", "packaging.version")
HOOKED = """
from netcl_core import hookimpl

class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        registry.add_template("plus.cl.j2")

    @hookimpl
    def netcl_conformance_cases(self, op):
        from netcl_plugin_kit.testing import Case, normal
        return [Case(op, (normal(),), reference=lambda x: x * x + {term}, xfail={xfail})]

plugin = Plugin()
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for installed distributions."""
    return tmp_path / "site"


@pytest.fixture
def run(tmp_path: Path, site: Path) -> Callable[..., tuple[int, str]]:
    """pytest in an empty project, beside what lies in `site`."""

    def start(*arguments: str) -> tuple[int, str]:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return start


def hooked(site: Path, term: str = "1", xfail: str = "{}") -> None:
    """Install a plugin whose case says that its op is `x * x + term`."""
    code = HOOKED.format(term=term, xfail=xfail)
    install_plugin(site, "square", code, {"plus.cl.j2": TEMPLATE})


def test_an_installed_plugin_is_checked_without_a_test_file(
    run: Callable[..., tuple[int, str]], site: Path
) -> None:
    hooked(site)
    code, output = run("--netcl-plugin", "square", "--netcl-device", "numpy", "-v")
    assert code == 0, output
    assert "netcl-plugin-square::plus PASSED" in output
    assert "netcl-plugin-square::plus-numpy PASSED" in output
    assert "collected 2 items" in output and "2 passed" in output
    code, output = run("--netcl-plugin", "netcl-plugin-square", "-k", "nothing-of-this-name")
    assert code == 5 and "deselected" in output


def test_a_wrong_op_fails_and_says_where(run: Callable[..., tuple[int, str]], site: Path) -> None:
    hooked(site, term="2")
    code, output = run("--netcl-plugin", "square", "--netcl-device", "numpy")
    assert code == 1 and "1 failed, 1 passed" in output
    assert "values: plus on numpy in bfloat16" in output and "expected 2" in output
    assert "Traceback" not in output


def test_an_expected_failure_is_shown_as_one(
    run: Callable[..., tuple[int, str]], site: Path
) -> None:
    names = "('bfloat16', 'float16', 'float32', 'float64')"
    floats = f"{{f'values in {{each}}': 'it is off' for each in {names}}}"
    hooked(site, term="0.25", xfail=f"{floats} | {{'non-finite': 'it is off'}}")
    code, output = run("--netcl-plugin", "square", "--netcl-device", "numpy", "-rx")
    assert code == 0 and "1 passed, 1 xfailed" in output
    assert "values: it is off; non-finite: it is off" in output


def test_a_plugin_by_entry_point_alone_is_checked_too(
    run: Callable[..., tuple[int, str]], site: Path
) -> None:
    """It has no hook: its case is derived, and a wrong gradient is noticed."""
    code = "from netcl_core.autograd import AutogradPrimitive\n"
    code += "op = AutogradPrimitive.from_template('short_op/short_op.cl.j2')\n"
    wrong = TEMPLATE.replace("grad * 2 * x", "grad * 3 * x")
    files = {"short_road/__init__.py": code, "short_road/templates/short_op.cl.j2": wrong}
    points = {"netcl_core.primitives": {"short_op": "short_road:op"}}
    install(site, "short-road", files, points)
    status, output = run("--netcl-plugin", "short-road", "--netcl-device", "numpy")
    assert status == 1
    assert "gradient: short_op-derived on numpy in float64" in output
    assert "derivative: short_op: the gradient of input 0 (x) differs" in output


def test_the_static_level_is_a_test_per_check(
    run: Callable[..., tuple[int, str]], site: Path
) -> None:
    """Those of `netcl plugins check`; this plugin has no manifest."""
    pytest.importorskip("jsonschema")
    hooked(site)
    code, output = run("--netcl-plugin", "square", "--netcl-level", "static", "-v")
    assert code == 1
    assert "netcl-plugin-square::load PASSED" in output
    assert "netcl-plugin-square::manifest FAILED" in output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("--netcl-plugin", "squaer"),
            "'squaer'; expected an installed plugin. Did you mean",
        ),
        (
            ("--netcl-plugin", "square", "--netcl-level", "static", "--netcl-device", "numpy"),
            "a device for the level 'static'",
        ),
        (("--netcl-plugin", "square", "--netcl-device", "opencl:99"), "opencl:99"),
        (("--netcl-plugin", "broken"), "it is quarantined: ZeroDivisionError"),
    ],
)
def test_wrong_use_is_a_usage_error(
    run: Callable[..., tuple[int, str]], site: Path, arguments: tuple[str, ...], text: str
) -> None:
    hooked(site)
    install_plugin(site, "broken", "1 / 0")
    code, output = run("-W", "ignore", *arguments)
    assert code == 4 and text in output and "Traceback" not in output


def test_other_runs_are_not_disturbed(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Neither imports nor tests nor time: the core's packages stay out of anybody's tests."""
    (tmp_path / "project").mkdir()
    test = f"import sys\ndef test_it():\n    assert not set(sys.modules) & {set(HEAVY)!r}\n"
    (tmp_path / "project" / "test_it.py").write_text(test)
    code, output = run("-W", "error", "-p", "no:hypothesispytest")
    assert code == 0 and "1 passed" in output, output
    assert "netcl" in output  # it was there


def test_importing_the_plugin_imports_nothing_heavy(python: Callable[..., str]) -> None:
    code = "import sys, netcl_plugin_kit.check.pytest_plugin; print(' '.join(sys.modules))"
    assert not {*HEAVY, "pytest"} & set(python(code).split())  # pytest itself imports pluggy
