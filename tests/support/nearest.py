"""`make test-fast`: the tests nearest to the change at hand, for as long as the bound allows.

    python -m pytest -p nearest [--seconds 70] [--jobs 2]

What changed is what differs from the branch `main`, or else the last commit. A file is as far
from it as it takes imports to get there (a template, a page: files that name it); ties are in
the order of the files' sizes, small ones first.
"""

from __future__ import annotations

import ast
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Test files that are looked at; the bound ends before the last of them.
FILES = 40
#: They are not installed beside the others; `make packages` tests their wheels.
EXAMPLES = ROOT / "plugins" / "examples"
_FOLDERS = ("netcl_core", "tests", "plugins", "templates", "benchmarks", "docs")


def changed() -> set[Path]:
    """The files that this branch or the working tree has changed, or else the last commit."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    ours = _git("diff", "--name-only", base[0]) + _git("ls-files", "-o", "--exclude-standard")
    return {ROOT / name for name in ours or _git("diff", "--name-only", "HEAD~1")}


def _git(*command: str) -> list[str]:
    done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def users() -> dict[Path, set[Path]]:
    """What uses each file of the checkout directly: imports it, or names it."""
    files = {path for name in _FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()}
    sources = {path for path in files if path.suffix == ".py"}
    others = files - sources
    modules = {_module(path): path for path in sources}
    users_of: dict[Path, set[Path]] = {path: set() for path in files}
    for path in sources:
        text = path.read_text(encoding="utf-8")
        for name in _imports(ast.parse(text)):
            if name in modules:
                users_of[modules[name]].add(path)
        for other in others:
            if other.name in text or f"*{other.suffix}" in text:
                users_of[other].add(path)
    return users_of


def _module(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    for root in ("src", "support"):
        if root in parts[:-1]:
            parts = parts[parts.index(root) + 1 :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def nearest(
    change: Iterable[Path] | None = None, uses: Mapping[Path, Set[Path]] | None = None
) -> list[Path]:
    """The test files in the order of their distance from a change, if it is not that at hand."""
    uses = users() if uses is None else uses
    distance = dict.fromkeys(changed() if change is None else change, 0)
    front = list(distance)
    while front:
        path = front.pop(0)
        for user in uses.get(path, set()) - distance.keys():
            distance[user] = distance[path] + 1
            front.append(user)
    tests = [path for path in uses if path.name.startswith("test_") and path.suffix == ".py"]
    tests = [path for path in tests if EXAMPLES not in path.parents]
    return sorted(tests, key=lambda path: (distance.get(path, 99), path.stat().st_size))


# -- pytest's hooks --------------------------------------------------------------------

_LATE = "not reached in time; `make test` runs it"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the bound."""
    parser.addoption("--seconds", type=float, default=70.0, help="no test begins later than that")


#: When the last test may begin, which the first process tells its workers.
_END = "NETCL_TEST_END"


def pytest_configure(config: pytest.Config) -> None:
    """Take the nearest files."""
    if _END not in os.environ:
        os.environ[_END] = str(time.time() + config.getoption("seconds"))
        config.args[:] = [str(path) for path in nearest()[:FILES]]
    config.pluginmanager.register(Bounded(float(os.environ[_END])))


class Bounded:
    """Skips what comes too late."""

    def __init__(self, end: float) -> None:
        self.end = end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Skip it."""
        if time.time() > self.end:
            pytest.skip(_LATE)


def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    """No letter for each test that was not reached."""
    late = report.skipped and _LATE in str(report.longrepr)
    return ("not reached", "", "") if late else None
