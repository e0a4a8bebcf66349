"""An installed environment, the core included, that a strict lock holds, and what it computes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributions import install, install_plugin
from environments import ROOT
from locked import CODE, Site

TEMPLATE = """\
{% macro forward(x) %}x * 5{% endmacro %}
{% macro backward(x, grad, out) %}grad * 5{% endmacro %}
"""
BROUGHT = {
    "t_op": "primitive", "c_space": "namespace", "c_half": "amp_policy", "greet": "command",
}  # fmt: skip
MANIFEST = "[plugin]\nsummary = 'rich'\n" + "".join(
    f"\n[[provides]]\nname = '{name}'\nkind = '{kind}'\n" for name, kind in BROUGHT.items()
)
#: The code of a plugin that brings something of each kind; `{0}` says whose it is.
RICH = """\
import click
from netcl_core import hookimpl
from netcl_plugin_amp import AmpPolicy

factor = {0}

class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        registry.add_template("t.cl.j2", name="t_op")

    @hookimpl
    def netcl_register_namespaces(self, registry):
        registry.add("c_space", __name__)

    @hookimpl
    def netcl_register_amp_policies(self, registry):
        registry.add(AmpPolicy("c_half", "float16", default="allow"))

    @hookimpl
    def netcl_cli_commands(self, add_command):
        add_command(click.Command("greet"))

plugin = Plugin()
"""
#: One that brings an op for all others, as a first-party plugin does.
BASE = CODE.format(1, 0).replace(
    "'shared_op', lambda x, a: f'{x[0]} * 1'", "'relu', lambda x, a: f'{x[0]} > 0 ? {x[0]} : 0'"
)
SHORT = """\
from netcl_core.autograd import AutogradPrimitive
s_op = AutogradPrimitive("s_op", lambda x, a: f"{{x[0]}} * {0}", None, arity=1)
"""
#: What a program there gets, of every kind: values, and who brings each name.
PROGRAM = """
import json, warnings
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.commands import command_providers
from netcl_core.plugins.kinds import REGISTERED
from netcl_core.plugins.registry import registry
warnings.simplefilter("ignore")
with nc.use_device("numpy"):
    ops = [ag.shared_op, ag.relu, ag.t_op, ag.s_op]
    values = [op(x).item() for op in ops for x in (-1.0, 1.0)]
    import netcl_core.c_space as space
    compiled = ag.jit_compile(lambda x: ag.shared_op(ag.relu(x)))
    values += [compiled(ag.tensor([2.0])).item(), space.factor]
rows = [[kind, r.record.name, r.provider] for kind in REGISTERED for r in registry.rows(kind)]
states = {p.id: [p.state, p.reason] for p in nc.plugins.list()}
print(json.dumps([values, sorted(rows), sorted(command_providers()), states]))
"""
#: Reads where to run, and answers with the exit status of a copy of this process.
FORKING = f"""
import json, os, sys
import netcl_core.autograd as ag
ag.jit_compile
for line in sys.stdin:
    (before, folder, work, out, said), variables = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    for number, path in ((1, out), (2, said)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(work)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[sys.path.index(before)] = folder
    exec({PROGRAM!r})
    break
"""
STRICT = {"NETCL_LOCK_STRICT": "1"}


class Place(Site):
    """A folder with the core and plugins as pip leaves them, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = folder / "home"
        self.home.mkdir()
        self.names = ["c_first", "c_second", "c_base", "c_rich", "c_short"]

    def fill(self) -> None:
        """Install everything."""
        _copied(self.folder, ROOT, ROOT / "netcl_core", ROOT / "templates")
        install_plugin(self.folder, "c_base", BASE)
        install_plugin(self.folder, "c_first", CODE.format(2, 1))
        install_plugin(self.folder, "c_second", CODE.format(3, 4))
        install_plugin(self.folder, "c_rich", RICH.format(7), {"t.cl.j2": TEMPLATE}, MANIFEST)
        points = {"netcl_core.primitives": {"s_op": "c_short:s_op"}}
        install(self.folder, "netcl-plugin-c-short", {"c_short.py": SHORT.format(11)}, points)

    def lock_it(self) -> None:
        """Write the lock file; the plugin of the command is not installed itself."""
        code = "from netcl_plugin_tools.lock.run import run\nrun(False, None, ['numpy'], False)"
        written = self.run("-c", code)
        assert written.returncode == 0, written.stderr

    def copy(self, folder: Path) -> Place:
        """The same environment elsewhere; the core's files are linked, so write new ones there."""
        copy_of_place = Place(folder)
        shutil.copytree(self.folder, copy_of_place.folder, copy_function=_linked)
        shutil.copy(self.lock, copy_of_place.lock)
        return copy_of_place

    def environment(self, **variables: str) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (variables.pop("in_front", ""), str(self.folder))))
        return super().environment(**{"PYTHONPATH": path, "HOME": str(self.home), **variables})

    def result(self, started: Started | None = None, **variables: str) -> Any:
        """What the program gets, and the states of all plugins; its error output if it fails.

        Python itself is `started` already, unless a variable is Python's own.
        """
        own = any(name.startswith("PYTHON") for name in variables)
        if started is None or own or "in_front" in variables:
            done = self.run("-c", PROGRAM, **variables)
            failed, out, said = done.returncode != 0, done.stdout, done.stderr
        else:
            failed, out, said = started.run(self, variables)
        if failed:
            return None, said
        *result, states = json.loads(out.splitlines()[-1])
        return result, states

    def edit(self, name: str, old: str, new: str) -> Path:
        """Replace a text in a file; returns its path."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.unlink()  # others may have a link to it
        path.write_text(text.replace(old, new), encoding="utf-8")
        return path


class Started:
    """A process that has imported the core, and runs the program in copies of itself."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            env=place.environment(),
            cwd=place.work,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, place: Place, variables: Mapping[str, str]) -> tuple[bool, str, str]:
        """Whether the program failed there, its output and its error output."""
        assert self._process.stdin is not None and self._process.stdout is not None
        out, said = place.home / "out", place.home / "said"
        where = [str(self._place.folder), str(place.folder), str(place.work), str(out), str(said)]
        print(json.dumps([where, place.environment(**variables)]), file=self._process.stdin)
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return status != 0, out.read_text(), said.read_text()

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def _linked(source: str, target: str) -> None:
    copy = os.link if "netcl_core" in Path(source).parts else shutil.copy2
    copy(source, target)


def _copied(site: Path, project: Path, package: Path, *more: Path) -> None:
    """Install a copy of a package of the checkout, with its byte code."""
    shutil.copytree(package, site / package.name)
    for folder in more:
        shutil.copytree(folder, site / package.name / folder.name)
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points = table.get("entry-points", {})
    info = install(site, table["name"], {}, points, table["version"])
    files = [path for path in (site / package.name).rglob("*") if path.is_file()]
    rows = [f"{path.relative_to(site).as_posix()},," for path in files if path.suffix != ".pyc"]
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.write("\n".join([*rows, ""]))
