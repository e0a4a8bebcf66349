"""Clean virtual environments that know nothing of the checkout, made in a second.

Third-party packages are not installed again: a folder of links shows those of the
running environment, without netcl's own packages and without anybody's .pth files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from netcl_core import cache, config

ROOT = Path(__file__).resolve().parents[2]
_FOREIGN = ("PIP_", "PYTHON", "NETCL_", "OCL_ICD_", "OPENCL_VENDOR_PATH", "VIRTUAL_ENV", "PYTEST_")


#: Prints every plugin of an environment with its state, as JSON.
LISTED = """
import json
import netcl_core as nc
print(json.dumps([[p.distribution, p.state, p.reason] for p in nc.plugins.list()]))
"""


def projects() -> list[Path]:
    """The folders of the core and of every plugin."""
    return [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]


def run(command: Sequence[Any], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command without the settings of the caller's environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        | variables,
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )


def succeed(command: Sequence[Any], cwd: Path, **variables: str) -> str:
    """What a command printed on stdout; an AssertionError with all its output if it fails."""
    done = run(command, cwd, **variables)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(project: Path, target: Path, *kinds: str) -> list[Path]:
    """Build a project's packages (`wheel`, `sdist`) into a folder; returns the new files."""
    before = set(target.glob("*"))
    options = [option for kind in kinds for option in ("-t", kind)]
    succeed([sys.executable, "-m", "hatchling", "build", "-d", target, *options], project)
    return sorted(set(target.glob("*")) - before)


def share_third_party(folder: Path) -> Path:
    """Link everything that is installed here except netcl's packages; returns site-packages.

    The layout is that of an environment, so that OpenCL runtimes are found beside it.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shared = folder / "lib" / version / "site-packages"
    shared.mkdir(parents=True)
    for kind in ("purelib", "platlib"):
        for entry in Path(sysconfig.get_path(kind)).iterdir():
            ours = "netcl" in entry.name.lower() or entry.suffix == ".pth"
            _link(shared / entry.name, entry, skip=ours or entry.name == "__pycache__")
    for entry in Path(sys.prefix, "lib").glob("*"):
        _link(folder / "lib" / entry.name, entry, skip=entry.name.startswith("python"))
    etc = Path(sys.prefix, "etc")
    _link(folder / "etc", etc, skip=not etc.is_dir())
    (folder / "bin").mkdir()  # uv finds its program beside its package
    uv = Path(sysconfig.get_path("scripts"), "uv")
    _link(folder / "bin" / "uv", uv, skip=not uv.exists())
    return shared


def _link(path: Path, target: Path, skip: bool) -> None:
    if not skip and not path.exists():
        path.symlink_to(target)


class Environment:
    """A virtual environment without pip that sees the shared third-party packages."""

    def __init__(self, folder: Path, shared: Path) -> None:
        succeed([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
        self.folder = folder
        self.python = folder / "bin" / "python"
        (site,) = folder.glob("lib/python*/site-packages")
        self.site = site
        (site / "shared.pth").write_text(f"{shared}\n")
        self.work = folder / "work"
        self.work.mkdir()
        self._cache = shared.parents[2] / "cache"
        if not self._cache.exists():  # one for all, with the kernels that this environment built
            self._cache.mkdir()
            cache.folder().mkdir(parents=True, exist_ok=True)
            (self._cache / "programs").symlink_to(cache.folder())

    def install(self, *what: Any, links: Path | None = None) -> str:
        """Let pip install packages; nothing comes from an index, ours come from `links`."""
        options = ["--find-links", links] if links else []
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-index"]
        return succeed(
            [*pip, "--no-build-isolation", "--no-warn-script-location", *options, *what], self.work
        )

    def execute(self, code: str, **variables: str) -> str:
        """Run a piece of Python; returns what it printed, without the last line's end."""
        command = [self.python, "-I", "-W", "error", "-c", code]
        return succeed(command, self.work, **self.variables(), **variables).strip()

    def variables(self) -> dict[str, str]:
        """The settings under which everything runs here: a cache that is not the user's."""
        size = str(config.get("cache-size-mb"))
        return {"NETCL_CACHE_DIR": str(self._cache), "NETCL_CACHE_SIZE_MB": size}
