"""The session of docs/first-plugin.md: its very commands are run, in its order, offline."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import ROOT, Environment, build, run

PAGE = ROOT / "docs" / "first-plugin.md"
_FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)


def session(text: str) -> str:
    """A shell script of a page: commands are run, blocks with a file's name are written to it.

    `console exit=1` says how its commands end; else they succeed.
    """
    lines = []
    for language, what, body in _FENCE.findall(text):
        if language == "console":
            code = what.removeprefix("exit=") or "0"
            for command in _COMMAND.findall(body):
                lines.append(f"echo {shlex.quote('$ ' + command)}")
                lines.append(f"code=0; {command} || code=$?; [ $code = {code} ] || exit 90")
        else:
            lines.append(f"cat > {what} <<'END_OF_FILE'\n{body}END_OF_FILE")
    return "\n".join(lines)


def test_what_a_session_runs() -> None:
    page = (
        "text\n```console\n$ cd /tmp\nsome output\n$ ls\n```\n"
        "```py a.py\nprint('x')\n```\n```console exit=1\n$ false\n```\n"
    )
    script = session(page)
    assert "cd /tmp || " in script and "\ncat > a.py <<'END_OF_FILE'\nprint('x')\nEND" in script
    assert "some output" not in script
    assert "false || code=$?; [ $code = 1 ] || exit 90" in script


def test_the_page_is_a_session() -> None:
    """Every block of the page is either run or written to a file that it names."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = _FENCE.findall(text)
    assert len(blocks) == text.count("```") // 2
    assert all(what for language, what, _ in blocks if language != "console")
    script = session(text)
    for command in ("plugins new", "plugins check", "pip wheel", "catalogue build", "--index-url"):
        assert command in script


@pytest.mark.packaging
def test_the_session(
    core_wheel: Path, tmp_path: Path, third_party: Path, new_environment: Callable[..., Environment]
) -> None:
    shelf = tmp_path / "shelf"
    for name in (
        "netcl-market",
        *(f"netcl-plugin-{n}" for n in ("fusion", "patterns", "capture", "kit", "tools")),
    ):
        build(ROOT / "plugins" / name, shelf, "wheel")
    shutil.copy(core_wheel, shelf)
    (tmp_path / "no-index").mkdir()
    author = new_environment("author")
    done = run(
        ["bash", "-euc", session(PAGE.read_text(encoding="utf-8"))],
        author.work,
        PATH=os.pathsep.join((str(author.folder / "bin"), os.environ["PATH"])),
        PYTHONPATH=str(third_party),  # also for the environment that the session makes
        PIP_FIND_LINKS=str(shelf),  # netcl's own packages, and nothing from anywhere else
        PIP_INDEX_URL=(tmp_path / "no-index").as_uri(),
        PIP_NO_BUILD_ISOLATION="0",  # pip's way to say "no": the build backend is there already
        PIP_NO_CACHE_DIR="1",
        **author.variables(),
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    assert "1 kernel for both; the gradient starts with [" in done.stdout
    assert re.search(r"^market: .*\b1 records? of checks", done.stdout, re.MULTILINE)
    listed = done.stdout[done.stdout.rindex("$ elsewhere/bin/netcl plugins list") :]
    assert re.search(r"^lisht +netcl-plugin-lisht +0\.1\.0 +code +ready", listed, re.MULTILINE)
