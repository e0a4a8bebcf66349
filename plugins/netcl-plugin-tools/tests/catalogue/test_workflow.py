"""The workflow of the documentation: its steps run as they stand there, in a repository."""

from __future__ import annotations

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
#: `netcl`, but for the check, which takes minutes: it notes what it was asked.
TOOL = """\
#!/bin/sh
if [ "$1 $2" = "plugins check" ]; then echo "$@" >> "$RUNNER_TEMP/asked"; exit 0; fi
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
    public = signing.new_key(tmp_path / "key")
    (market / "owners.toml").write_text(
        f'others = ["sample-helper"]\nkeys.alice = "{public}"\n'
        'owners.netcl-plugin-gate = ["alice"]\n'
    )
    git(market, "init -q -b main")
    git(market, "add -A")
    git(market, "commit -q -m first")
    git(market, "update-ref refs/remotes/origin/main HEAD")
    text = samples.manifest("gate", ["gate"])
    made = samples.wheel(market / "wheels", "netcl-plugin-gate", text=text, plugin="gate")
    envelope = signing.sign(statement_of(made), tmp_path / "key")
    made.with_name(f"{made.name}.dsse.json").write_text(envelope)
    git(market, "add -A")
    git(market, "commit -q -m submitted")
    there = steps()
    address = "https://example.org/market"
    variables = {"RUNNER_TEMP": str(runner), "GITHUB_BASE_REF": "main", "URL": address}
    path = os.pathsep.join((str(tools), os.environ["PATH"]))
    for name in (
        "What was submitted",
        "A catalogue with it, which reads wheels and runs none",
        "Its check",
        "The catalogue",
    ):
        subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", there[name]],
            cwd=market,
            env={**os.environ, **variables, "PATH": path},
            check=True,
        )
    (asked,) = (runner / "asked").read_text().splitlines()
    out = runner / "records" / f"{made.name}.json"
    assert asked == f"plugins check wheels/{made.name} --level full --out {out}"
    assert (runner / "site" / "plugins" / "netcl-plugin-gate.html").is_file()
    page = (market / "site" / "plugins" / "netcl-plugin-gate.html").read_text(encoding="utf-8")
    assert f"pip install --index-url {address}/simple/ netcl-plugin-gate" in page


def test_what_runs_a_strangers_code_may_write_nothing() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert "pull_request_target" not in text and "secrets." not in text
    submitted = text[text.index("  submitted:") : text.index("  publish:")]
    assert "write" not in submitted.replace("which may write", "")
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    assert "github.event.pull_request" not in text  # what a stranger names is no shell text
