"""A folder of installed plugins that all offer one op, and a folder to lock them in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from distributions import install_plugin
from environments import ROOT

CODE = (
    "from netcl_core import hookimpl\nfrom netcl_core.autograd import AutogradPrimitive\n"
    "class Plugin:\n    @hookimpl\n    def netcl_register_primitives(self, registry):\n"
    "        registry.add(AutogradPrimitive('shared_op', lambda x, a: f'{{x[0]}} * {0}',"
    " None, arity=1), priority={1})\nplugin = Plugin()\n"
)
ASK = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_kit.why.decisions import why
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with nc.use_device("numpy"):
        said = [ag.shared_op(1.0).item(), why("shared_op").rules]
print(json.dumps([*said, [str(each.message) for each in caught]]))
"""


class Site:
    """Installed plugins, a folder to work in, and what a process there says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder / "site", folder / "work"
        self.work.mkdir(parents=True)
        self.lock = self.work / "netcl.lock"
        self.names = ["tools"]

    def install(self, name: str, factor: int, priority: int) -> Path:
        self.names.append(name)
        return install_plugin(self.folder, name, CODE.format(factor, priority))

    def environment(self, **variables: str) -> dict[str, str]:
        """The environment variables of a process there."""
        path, names = os.pathsep.join((str(self.folder), str(ROOT))), ",".join(self.names)
        return {**os.environ, "PYTHONPATH": path, "NETCL_PLUGINS": names, **variables}

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            env=self.environment(**variables),
            cwd=self.work,
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, **variables: str) -> tuple[int, list[str], list[str]]:
        """The factor that served, the rules, the warnings."""
        done = self.run("-c", ASK, **variables)
        assert done.returncode == 0, done.stderr
        value, rules, warned = json.loads(done.stdout)
        return int(value), rules, warned

    def command(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        main = ("-W", "error", "-m", "netcl_core.cli.start", "plugins", "lock", "--device", "numpy")
        return self.run(*main, *words, **variables)
