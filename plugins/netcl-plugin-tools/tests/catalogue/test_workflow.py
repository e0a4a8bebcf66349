"""The workflow of the documentation: its steps run as they stand there, in a repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import samples
from netcl_market import signing
from netcl_plugin_tools.market.statements import statement_of

FILE = Path(__file__).resolve().parents[4] / "docs" / "catalogue-workflow.yml"
pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the documentation is not here")
_STEP = re.compile(r"- name: (.+)\n(?:.*\n)*?\s+run: (.+\n(?:(?: {10,}.*)?\n)*)")
#: `netcl`, but for the check, which takes minutes: it notes what it was asked, and what a check of
#: the plugin found; a wheel of no plugin ends as it does in a check.
TOOL = """\
#!/bin/sh
if [ "$1 $2" = "plugins check" ]; then
    echo "$@" >> "$RUNNER_TEMP/asked"
    case "$3" in *plugin*) cp "$RUNNER_TEMP/found" "$7"; exit 1;; *) exit 2;; esac
fi
exec {python} -m netcl_core.cli.start "$@"
"""


def steps() -> dict[str, str]:
    """The shell text of each step that has one, by its name."""
    text = FILE.read_text(encoding="utf-8")
    return {name: dedent(run.removeprefix("|\n")) for name, run in _STEP.findall(text)}


def git(folder: Path, words: str) -> None:
    who = "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false"
    subprocess.run(["git", *who.split(), *words.split()], cwd=folder, check=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_its_steps_run(tmp_path: Path) -> None:
    market, runner, tools = (tmp_path / name for name in ("market", "runner", "tools"))
    for folder in (market, runner, tools):
        folder.mkdir()
    (tools / "netcl").write_text(TOOL.format(python=shlex.quote(sys.executable)))
    (tools / "netcl").chmod(0o755)
    samples.wheel(market / "wheels", "sample-helper")
    keys = {name: signing.new_key(tmp_path / name) for name in ("alice", "farm")}
    lines = [f'keys.{name} = "{key}"' for name, key in keys.items()]
    lines += ['others = ["sample-helper"]', 'owners.netcl-plugin-gate = ["alice"]']
    (market / "owners.toml").write_text("\n".join(['checkers = ["farm"]', *lines]))
    git(market, "init -q -b main")
    git(market, "add -A")
    git(market, "commit -q -m first")
    git(market, "update-ref refs/remotes/origin/main HEAD")
    text = samples.manifest("gate", ["gate"])
    made = samples.wheel(market / "wheels", "netcl-plugin-gate", text=text, plugin="gate")
    envelope = signing.sign(statement_of(made), tmp_path / "alice")
    made.with_name(f"{made.name}.dsse.json").write_text(envelope)
    git(market, "add -A")
    git(market, "commit -q -m submitted")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    found = samples.record(plugin="netcl-plugin-gate", version="1.0", wheel_sha256=digest)
    (runner / "found").write_text(json.dumps(found.as_json()))
    away = tmp_path / "away"
    git(tmp_path, f"init -q --bare {away}")
    git(market, f"remote add origin {away}")
    there = steps()
    address = "https://example.org/market"
    key = (tmp_path / "farm").read_text()
    variables = {"RUNNER_TEMP": str(runner), "GITHUB_BASE_REF": "main", "URL": address}
    variables |= {"CHECKER_KEY": key, "TOKEN": "a token"}
    variables["PATH"] = os.pathsep.join((str(tools), os.environ["PATH"]))

    def step(name: str) -> int:
        command = ["bash", "-e", "-o", "pipefail", "-c", there[name]]
        return subprocess.run(
            command, cwd=market, env=os.environ | variables, check=False
        ).returncode

    check, out = "The check of each wheel without a signed record", runner / "records"
    for name in ("What was submitted", "A catalogue with it, which reads wheels and runs none"):
        assert step(name) == 0
    assert step("Its check") == 1  # as what was found
    (out / f"{made.name}.json").unlink()
    for name in (check, "The records, signed", "The records, kept", "The catalogue", check):
        assert step(name) == 0
    asked = (runner / "asked").read_text().splitlines()
    words = f"plugins check wheels/{made.name} --level full --out {out / made.name}.json"
    assert asked[:2] == [words, words] and words not in asked[2:]  # it has its record by then
    assert len(asked) == 4
    assert not (runner / "checker.pem").exists()
    kept = subprocess.check_output(["git", "-C", str(away), "ls-tree", "-r", "--name-only", "main"])
    assert f"records/{made.name}.json.dsse.json" in kept.decode().split()
    assert key not in subprocess.check_output(
        ["git", "-C", str(away), "log", "-p", "main"], text=True
    )
    assert (runner / "site" / "plugins" / "netcl-plugin-gate.html").is_file()
    page = (market / "site" / "plugins" / "netcl-plugin-gate.html").read_text(encoding="utf-8")
    assert f"pip install --index-url {address}/simple/ netcl-plugin-gate" in page
    assert "No record of a check" not in page and "Signed by</dt><dd>alice" in page


def test_what_runs_a_strangers_code_may_write_nothing() -> None:
    text = FILE.read_text(encoding="utf-8")
    strangers, ours = text[text.index("jobs:") :].split("  publish:")
    assert "pull_request_target" not in text and "secrets." not in strangers
    assert "write" not in strangers and "token" not in strangers
    assert "plugins check" not in ours and "pull_request'" in ours.splitlines()[1]
    assert text.count("secrets.") == 1 and "environment:" in ours
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    assert "github.event.pull_request" not in text  # what a stranger names is no shell text
