"""No command of `netcl` touches the network: each runs where a socket is an error.

The watch is an audit hook of the interpreter, so that nothing goes past it, and lies in the
environment, so that child processes have it too, isolated ones (`python -I`) as well.
A new command belongs into COMMANDS.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from environments import Environment, succeed

from netcl_core.cli import main

#: They start processes.
pytestmark = pytest.mark.turns(3)

#: Every command -> what it is called with and the exit code. They run in this order, in one folder.
COMMANDS: dict[str, list[tuple[str, int]]] = {
    "tune": [("relu --device numpy --budget 0.01", 1)],
    "cache": [("", 0), ("--empty", 0)],
    "devices": [("", 0), ("--json", 0)],
    "doctor": [("--json", 0)],
    "graph": [
        ("model.py:f --svg f.svg", 0),
        ("model.py:f --recorded --svg r.svg", 0),
        ("model.py:f --dot", 0),
    ],
    "kernels show": [("relu --device numpy", 0), ("matmul --device numpy --shapes 2x3,3x4", 0)],
    "kernels list": [("", 0), ("relu", 0), ("no-such-op", 2)],
    "port": [("--check model.py", 0)],
    "plugins list": [("", 0), ("--json", 0)],
    "plugins info": [("elementwise --traceback", 0)],
    "plugins why": [("matmul --device numpy", 0)],
    "plugins search": [("gelu", 0), ("no-such-word", 1)],
    "plugins new": [("hello --kind primitive --out new", 0)],
    "plugins bench": [("softmax --device numpy --shapes 4x10", 2)],
    "plugins check": [("new --level static", 0), ("data --level run --device numpy", 0)],
    "plugins lock": [("--device numpy", 0), ("--check --device numpy", 0)],
    "plugins disable": [("losses", 0)],
    "plugins enable": [("losses", 0)],
    "plugins prefer": [("relu elementwise", 0), ("relu --forget", 0)],
    "catalogue build": [("--wheels wheels --records records --out site", 0)],
    "market key": [("key.pem", 0)],
    "market sign": [("nowhere.whl --key key.pem", 2)],
    "market verify": [("nowhere.whl --owners key.pem", 2)],
    "market submit": [("nowhere.whl --market wheels --key key.pem", 2)],
    "market publish": [("nowhere", 2)],
    "market serve": [("nowhere", 2)],  # whoever serves is asked by others
    "matrix run": [
        ("--cores empty --plugins empty --records more --runtime numpy", 3),
        ("--cores cores --plugins wheels --records more --runtime intel", 3),  # it is not to be had
    ],
    "matrix report": [("--records records --out board", 0)],
    "export": [("model.py:f --out served", 0)],
    "train": [("digits --device numpy --epochs 1", 0)],
}
CELL = {
    "schema": 1, "kind": "cell", "plugin": "netcl-plugin-n-one", "version": "1.0",
    "core": "0.1.1", "core_build": "x", "python": "3.11", "level": "run", "state": "pass",
    "content": {"python": "3.11.7"}, "reason": "",
    "runtime": {"name": "numpy", "platform": "NumPy", "driver": "1", "device": "numpy"},
    "date": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "packages": {}, "check": None,
}  # fmt: skip
#: pip asks the system whether it has IPv6, and workers' pipes are made of a pair of Unix sockets
#: (family 1); these are no looks at the network.
WATCH = """
import os, sys
def callers(frame):
    while frame is not None:
        yield f"{{frame.f_code.co_filename}}:{{frame.f_code.co_name}}"
        frame = frame.f_back
FINE = {{"socket.gethostname", "socket.sethostname"}}
def tell(what):
    file = os.open({path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (what + "\\n").encode())
    os.close(file)
    raise PermissionError(what)
def watch(event, args):
    pipe = event == "socket.__new__" and args[1:2] == (1,)
    if event.startswith("socket.") and event not in FINE and not pipe:
        stack = list(callers(sys._getframe(1)))
        if not any("pip" in one and one.endswith(":_has_ipv6") for one in stack):
            tell(f"{{event}} {{args[1:]}} in {{' '.join(stack)}}")
    if event == "subprocess.Popen":
        words = [os.fsdecode(word) for word in args[1]] if not isinstance(args[1], str) else []
        if "pip" in words and {{"install", "download"}} & {{*words}} and "--no-index" not in words:
            tell(" ".join(words))
        if "uv" in map(os.path.basename, words) and "--offline" not in words:
            tell(" ".join(words))
sys.addaudithook(watch)
"""
RUN = """
import json, sys
from click.testing import CliRunner
from netcl_core.cli import main, start
done = []
for command, calls in json.loads(sys.argv[1]).items():
    for words, _ in calls:
        result = CliRunner().invoke(main.netcl, [*command.split(), *words.split()])
        text = "" if result.exception is None else repr(result.exception)
        done.append([f"{command} {words}", result.exit_code, f"{text} {result.output[-2000:]}"])
print(json.dumps(done))
"""


def leaves(group: click.Group, context: click.Context, path: str = "") -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            with click.Context(command, parent=context, info_name=name) as below:
                yield from leaves(command, below, inner)
        else:
            yield inner


def test_every_command_has_a_row() -> None:
    with click.Context(main.netcl, info_name="netcl") as context:
        assert sorted(leaves(main.netcl, context)) == sorted(COMMANDS)


@pytest.fixture
def watched(tmp_path: Path) -> Environment:
    """An environment that has what the running one has, and the watch in every process."""
    empty = tmp_path / "none" / "lib" / "python" / "site-packages"
    empty.mkdir(parents=True)
    made = Environment(tmp_path / "watched", empty)
    here = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (made.site / "shared.pth").write_text(f"import site; list(map(site.addsitedir, {here}))\n")
    (made.site / "watching.py").write_text(WATCH.format(path=str(tmp_path / "attempts")))
    (made.site / "a_watch.pth").write_text("import watching\n")
    return made


@pytest.fixture
def attempts(tmp_path: Path) -> Callable[[], list[str]]:
    """What was tried."""
    path = tmp_path / "attempts"
    return lambda: path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('localhost', 80)",
        "import _socket; _socket.socket()",
        "import urllib.request; urllib.request.urlopen('http://localhost:9')",
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', 'x'])",
        "import subprocess; subprocess.run(['uv', 'pip', 'install', 'x'])",
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-I', '-c', 'import _socket; _socket.socket()'], check=1)",
    ],
)
def test_the_watch_sees(watched: Environment, attempts: Callable[[], list[str]], code: str) -> None:
    done = subprocess.run([watched.python, "-I", "-c", code], capture_output=True, check=False)
    assert done.returncode == 1 and len(attempts()) == 1


def part_of(command: str) -> str:
    """Which commands run together."""
    first = command.partition(" ")[0]
    return first if first in ("cache", "plugins") else "others"


@pytest.mark.parametrize("part", sorted(set(map(part_of, COMMANDS))))
def test_no_command_touches_the_network(
    watched: Environment, attempts: Callable[[], list[str]], part: str
) -> None:
    fill(watched.work)
    commands = {name: calls for name, calls in COMMANDS.items() if part_of(name) == part}
    command = [watched.python, "-I", "-c", RUN, json.dumps(commands)]
    variables = watched.variables()
    if part == "cache":  # which one of them empties
        variables["NETCL_CACHE_DIR"] = str(watched.work / "cache")
    ran = json.loads(succeed(command, watched.work, **variables).splitlines()[-1])
    wanted = [code for calls in commands.values() for _, code in calls]
    wrong = [row for row, code in zip(ran, wanted, strict=True) if row[1] != code]
    assert attempts() == []
    assert wrong == []
    if "matrix run" in commands:  # uv was asked, and the cell has its record
        assert list((watched.work / "more").glob("*__intel__*"))


def fill(work: Path) -> None:
    """What the commands are pointed at: a function, a wheel, a matrix cell, an empty folder."""
    model = "import netcl_core.autograd as ag\ndef f(x):\n    return ag.relu(x) * 2\n"
    model += "def example_inputs():\n    return [ag.tensor([1.0])]\n"
    (work / "model.py").write_text(model)
    for name in ("empty", "cores", "wheels", "records"):
        (work / name).mkdir()
    write_wheel(work / "cores", "netcl-core", "0.1.1", {})
    write_wheel(work / "wheels", "netcl-plugin-n-one", "1.0", PLUGIN)
    (work / "records" / "cell.json").write_text(json.dumps(CELL))


#: A plugin that brings nothing.
PLUGIN = {
    "netcl_plugin_n_one/__init__.py": "plugin = None\n",
    "netcl_plugin_n_one/netcl_plugin.toml": "schema = 1\n[plugin]\nname = 'n_one'\n"
    "api = [1, 0]\nsummary = 's'\nlicense = 'MIT'\n",
    "netcl_plugin_n_one-1.0.dist-info/entry_points.txt": "[netcl_core.plugins]\n"
    "n_one = netcl_plugin_n_one:plugin\n"
    "[netcl_core.manifest]\nn_one = netcl_plugin_n_one:netcl_plugin.toml\n",
}


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A wheel of some files and its metadata."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in files.items()]
    files[f"{info}/RECORD"] = "".join(rows) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
