"""Where a wheel comes from: its source, built twice in a sandbox and compared with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from netcl_market import child_processes
from netcl_plugin_kit.packages.building import build_wheel, project_table

from netcl_core.inspect.data import Scratch
from netcl_plugin_tools.market.statements import files_digest

_SECONDS = 60


def rebuilt(source: Path, wheel: Path) -> tuple[str, str]:
    """What a record says of the builds of a wheel, and why it is not what its source gives.

    Compared are the files, each by its digest, as a lock has them. One of both texts is empty.
    """
    digests = []
    for _ in range(2):
        with Scratch("rebuild") as folder:
            built, said = build_wheel(source, Path(folder))
            if built is None:
                return "", f"its source cannot be built: {said}"
            digests.append(files_digest(built))
    if digests[0] != digests[1]:
        return "", "two builds of its source differ"
    if digests[0] != files_digest(wheel):
        return "", "its files are not those that its source gives"
    backend = project_table(source).get("build-system", {}).get("build-backend", "setuptools")
    return f"{commit_of(source) or 'a folder without a commit'}, built twice by {backend}", ""


def commit_of(source: Path) -> str:
    """The commit of a folder that is a repository without changes; empty for any other.

    A repository's own settings name programs that git runs, so it runs in the sandbox.
    """
    words = ["git", "-c", "safe.directory=*", "-C", str(source.resolve())]
    said = []
    for more in (["rev-parse", "HEAD"], ["status", "--porcelain", "."]):
        try:
            done = child_processes.run(
                [*words, *more],
                _SECONDS,
                readable=[source.resolve()],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        if done.returncode:
            return ""
        said.append(done.stdout.strip())
    return "" if said[1] else f"commit {said[0]}"
