"""A market from end to end, over http on one machine: submit, publish, install, train, yank."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import samples
from click.testing import CliRunner, Result
from locked import CODE
from netcl_market import signing
from netcl_market.child_processes import BUBBLEWRAP, held
from netcl_plugin_kit.packages.building import build_wheel
from netcl_plugin_tools.market import provenance, serving

from netcl_core.cli.main import netcl
from netcl_core.errors import NetclError

NAME = "netcl-plugin-gate"
MANIFEST = (
    'schema = 1\n[plugin]\nname = "gate"\napi = [1, 0]\nlicense = "MIT"\nsummary = "A gate"\n'
    'maturity = "stable"\n[[provides]]\nname = "gated"\nkind = "primitive"\nelementwise = true\n'
    'differentiable = true\npriority = 1\ndtypes = ["bfloat16", "float16", "float32", "float64"]\n'
)
#: x * factor, with its gradient.
RIGHT = CODE.replace("shared_op", "gated").replace(
    "None, arity=1", "lambda x, g, a, out: [f'{{g}} * {0}'], arity=1"
)
TRAIN = """
import netcl_core as nc, netcl_core.autograd as ag
with nc.use_device("numpy"):
    w, losses = ag.tensor([5.0], requires_grad=True), []
    for _ in range(20):
        loss = ag.gated(w) * ag.gated(w)
        loss.backward()
        losses.append(loss.item())
        w = ag.tensor(w.numpy() - 0.05 * w.grad.numpy(), requires_grad=True)
assert losses[-1] < 0.01 * losses[0], losses
print("trained")
"""


class Fair:
    """A market's folder, an author's, and their keys."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.author = folder / "market", folder / "author"
        self.site = folder / "published" / "site"
        self.folder.mkdir()
        self.author.mkdir()
        keys = {name: signing.new_key(folder / f"{name}.pem") for name in ("alice", "farm")}
        lines = [f'keys.{name} = "{key}"' for name, key in keys.items()]
        lines += ['checkers = ["farm"]', f'owners.{NAME} = ["alice"]']
        (self.folder / "owners.toml").write_text("\n".join(lines))

    def wheel(self, version: str = "1.0", code: str = RIGHT, sign: bool = True) -> Path:
        files = {
            "netcl_plugin_gate/__init__.py": code.format(2, 1),
            f"netcl_plugin_gate-{version}.dist-info/licenses/LICENSE": "MIT",
        }
        headers = ["License-Expression: MIT", "License-File: LICENSE", "Summary: A gate",
                   "Requires-Dist: netcl-core>=0.1,<0.2", "Requires-Python: >=3.11"]  # fmt: skip
        made = samples.wheel(
            self.author, NAME, version, files, MANIFEST, headers, "A gate.", plugin="gate"
        )
        if sign:
            assert run("sign", made, "--key", self.author.parent / "alice.pem").exit_code == 0
        return made

    def submit(self, wheel: Path) -> Result:
        key = self.author.parent / "farm.pem"
        only = ["--level", "run", "--device", "numpy"]
        return run("submit", wheel, "--market", self.folder, "--key", key, *only)


def run(*words: object) -> Result:
    return CliRunner().invoke(netcl, ["market", *map(str, words)])


@pytest.fixture
def fair(tmp_path: Path) -> Fair:
    return Fair(tmp_path)


@pytest.fixture
def address(fair: Fair) -> Iterator[str]:
    """The market over http, served by a process of its own."""
    assert fair.submit(fair.wheel()).exit_code == 0
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ["-m", "netcl_core.cli.start", "market", "serve", str(fair.folder), "--port", str(port)]
    words += ["--site", str(fair.site)]
    child = subprocess.Popen([sys.executable, *words])
    try:
        made = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{made}/simple/", timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield made
    finally:
        child.terminate()
        child.wait()


def pip(address: str, target: Path, *what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"]
    command += ["--no-deps", "--no-cache-dir", "--target", str(target), "--upgrade"]
    command += ["--index-url", f"{address}/simple/", *what]
    variables = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*"}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.packaging
def test_from_a_submission_to_a_withdrawal(fair: Fair, address: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = pip(address, site, NAME)
    assert done.returncode == 0, done.stderr
    trained = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAIN],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert trained.stdout == "trained\n", trained.stderr
    page = urllib.request.urlopen(f"{address}/plugins/{NAME}.html", timeout=9).read().decode()
    assert "Signed by</dt><dd>alice" in page and "No record of a check" not in page
    assert fair.submit(fair.wheel("1.1")).exit_code == 0
    (fair.folder / "wheels" / "withdrawals.toml").write_text(
        f'[[yanked]]\nname = "{NAME}"\nversions = "==1.1"\n'
        'text = "It is wrong"\ndate = "2026-11-27"'
    )
    assert run("publish", fair.folder, "--site", fair.site, "--url", address).exit_code == 0
    assert not (fair.folder / "site").exists()
    done = pip(address, site, NAME)  # the same server, which shows what is published now
    assert done.returncode == 0 and "gate-1.0" in done.stdout.replace("_", "-"), done.stdout
    done = pip(address, site, f"{NAME}==1.1")
    assert done.returncode == 0 and "It is wrong" in done.stderr
    with pytest.raises(OSError, match="404"):
        urllib.request.urlopen(f"{address}/../owners.toml", timeout=9)


def test_what_is_not_signed_or_fails_is_not_taken_in(fair: Fair) -> None:
    wrong = RIGHT.replace("[f'{{g}} * {0}']", "[f'{{g}} * 7']")
    said = fair.submit(fair.wheel("1.0", wrong))
    assert said.exit_code == 1 and "failed: derivative" in said.output, said.output
    unsigned = fair.wheel("2.0", sign=False)
    with pytest.raises(NetclError, match=r"there is no .*dsse\.json"):
        serving.submit(unsigned, fair.folder, fair.author.parent / "farm.pem", "static", ())
    with pytest.raises(NetclError, match="the key of none of the checkers"):
        serving.submit(fair.wheel(), fair.folder, fair.author.parent / "alice.pem", "static", ())
    assert not [*fair.folder.rglob("*.whl")] and not [*fair.folder.rglob("*.json")]


def test_a_version_is_never_replaced(fair: Fair) -> None:
    assert fair.submit(fair.wheel()).exit_code == 0
    other = fair.wheel(code=f"{RIGHT}# other\n")
    with pytest.raises(NetclError, match="another"):
        serving.submit(other, fair.folder, fair.author.parent / "farm.pem", "static", ())


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "netcl-plugin-odd"
version = "1.0"
"""


def test_a_wheel_is_what_its_source_gives(tmp_path: Path) -> None:
    """Built twice; a repository's own settings run nothing outside of the sandbox."""
    source, marker = tmp_path / "source", tmp_path / "marker"
    package = source / "netcl_plugin_odd"
    package.mkdir(parents=True)
    (source / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("x = 1\n")
    made, said = build_wheel(source, tmp_path)
    assert made is not None, said
    assert provenance.rebuilt(source, made) == (
        "a folder without a commit, built twice by hatchling.build", ""
    )  # fmt: skip
    for words in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -q -m x"):
        subprocess.run(["git", "-C", str(source), *words.split()], check=True)
    assert provenance.rebuilt(source, made)[0].startswith("commit ")
    hook = f"#!/bin/sh\ntouch {marker}\n"
    (source / "hook").write_text(hook)
    (source / "hook").chmod(0o755)
    subprocess.run(["git", "-C", str(source), "config", "core.fsmonitor", "./hook"], check=True)
    assert provenance.commit_of(source) == ""  # `hook` is a change
    if held() == BUBBLEWRAP:
        assert not marker.exists()
    (package / "__init__.py").write_text("x = 2\n")
    assert provenance.rebuilt(source, made)[1] == "its files are not those that its source gives"
    (source / "hatch_build.py").write_text(CHANGING)
    (source / "pyproject.toml").write_text(f"{PROJECT}[tool.hatch.build.hooks.custom]\n")
    assert provenance.rebuilt(source, made)[1] == "two builds of its source differ"


CHANGING = """
import uuid
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        open(self.root + "/netcl_plugin_odd/y.py", "w").write(f"x = {uuid.uuid4().int}")
"""
