"""`netcl plugins lock --check`: a verdict of a process in which no plugin has run.

Code that is imported can change what compares it. So files are compared first, by what imports no
plugin; if they are the locked ones, a child process loads them and writes what is chosen and
rendered, which is compared here.

Exit codes: 0 it fits; 1 it differs; 3 there is no lock file that can be read, or the child failed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from netcl_core.cli import print_json
from netcl_core.errors import PluginError, RecordError
from netcl_core.inspect.data import Scratch
from netcl_core.plugins.protocol import LOCK_FILE, lock_file, nearest_lock_file
from netcl_market import child_processes
from netcl_market.finding import distributions
from netcl_market.installed import by_name, core
from netcl_market.lock import Lock, read
from netcl_market.lock_differences import differences, notes
from netcl_market.lock_verification import Difference, compare, withdrawn
from netcl_market.tables import waiting

_SECONDS: Final = 600


def run(words: Sequence[str]) -> int | None:
    """The command with these words; None if they are not all understood, which `click` says."""
    given: dict[str, list[str]] = {"--out": [], "--device": []}
    waiting = [half for word in words for half in word.split("=", 1)]
    flags = set()
    while waiting:
        word = waiting.pop(0)
        if word in given and waiting:
            given[word].append(waiting.pop(0))
        elif word in ("--check", "--json"):
            flags.add(word)
        else:
            return None
    out = given["--out"][-1] if given["--out"] else None
    return check(place(out), given["--device"], "--json" in flags)


def place(out: str | None) -> Path:
    """The file to write or check: what is asked for, what holds here, or a new one."""
    if out is not None:
        return Path(out)
    return lock_file() or nearest_lock_file() or Path.cwd() / LOCK_FILE


def lock_in(path: Path) -> tuple[Lock | None, str]:
    """The lock that is there, or why there is none."""
    if not path.exists():
        return None, f"there is no {path}. `netcl plugins lock` writes it."
    try:
        return read(path), ""
    except PluginError as error:
        return None, f"{path}: {error.code}: {error}"


def check(path: Path, devices: Sequence[str], as_json: bool) -> int:
    """Compare what is installed with a lock file, print it, and return the exit code."""
    locked, problem = lock_in(path)
    if locked is None:
        return no_lock(path, problem, as_json)
    installed = by_name(distributions())
    mismatches = compare(locked, core(), installed, strict=True)
    said: list[str] = []
    if not mismatches:
        now, problem = _rendered(devices)
        if now is None:
            return no_lock(path, problem, as_json)
        mismatches, said = differences(locked, now), notes(locked, now)
    else:
        said = ["what is chosen and rendered was not compared: files come first"]
    try:
        mismatches += withdrawn(
            {name: distribution.version for name, distribution in installed.items()}
        )
    except RecordError as error:
        return no_lock(path, str(error), as_json)
    _print(path, mismatches, said, as_json)
    return 1 if mismatches else 0


def no_lock(path: Path, problem: str, as_json: bool) -> int:
    """Say why there is no verdict; returns the exit code."""
    if as_json:
        print_json({"lock": str(path), "fits": False, "problem": problem})
    print(f"netcl: {problem}", file=sys.stderr)
    return 3


def _rendered(devices: Sequence[str]) -> tuple[Lock | None, str]:
    """What a child process locks here now, or what became of it."""
    with (
        waiting("the files fit; rendering kernels in a child process ..."),
        Scratch("lock") as folder,
    ):
        fresh = Path(folder) / LOCK_FILE
        words = [
            "plugins",
            "lock",
            "--out",
            str(fresh),
            *(f"--device={device}" for device in devices),
        ]
        try:
            done = child_processes.run(
                [sys.executable, "-m", "netcl_core.cli.main", *words],
                _SECONDS,
                shut_in=False,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return None, f"rendering took more than {_SECONDS} s"
        if done.returncode:
            said = done.stderr.strip().removeprefix("netcl: ")
            return None, said or f"rendering ended with {done.returncode}"
        return lock_in(fresh)


def _print(
    path: Path, mismatches: Sequence[Difference], said: Sequence[str], as_json: bool
) -> None:
    if as_json:
        rows = [{**asdict(mismatch), "remedy": mismatch.remedy} for mismatch in mismatches]
        data = {"lock": str(path), "fits": not mismatches, "differences": rows, "notes": [*said]}
        print_json(data)
        return
    for mismatch in mismatches:
        print(mismatch)
    for note in said:
        print(f"note: {note}")
    print(f"{path}: {len(mismatches)} differences" if mismatches else f"{path} fits")
