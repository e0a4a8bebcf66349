"""The first look at OpenCL runtimes, in a child process: a driver may abort or hang.

What a child does not survive, this process leaves out. Verdicts are kept in the cache folder, so
that a set of libraries that has not changed is tried once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from netcl_core import config
from netcl_core.files import Scratch, keep_whole
from netcl_core.inspect.runtimes import locate
from netcl_market import child_processes

SECONDS: Final = 30.0
#: With what the reason begins of one that a child did not survive.
ENDED: Final = "a trial process"
_CHILD: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
import pyopencl
for platform in pyopencl.get_platforms():
    for device in platform.get_devices():
        device.name
"""


def deadly(libraries: Sequence[str]) -> dict[str, str]:
    """Library -> what became of a process that used it; those that are fine are not named."""
    stamps = {library: _stamp(library) for library in libraries}
    if not stamps:
        return {}
    key = hashlib.sha256(repr(sorted(stamps.items())).encode()).hexdigest()[:16]
    note = config.cache_root() / "icd" / f"tried-{key}.json"
    reasons = _noted(note)
    if reasons is None:
        reasons = _tried(list(stamps))
        with contextlib.suppress(OSError):
            keep_whole(note, json.dumps(reasons).encode())
    return reasons


def _stamp(library: str) -> Any:
    path = Path(library) if "/" in library else locate(library)
    try:
        facts = None if path is None else path.stat()
    except OSError:
        return None
    return facts and (facts.st_size, facts.st_mtime_ns)


def _noted(note: Path) -> dict[str, str] | None:
    """What an earlier process has found, in a file of this user's."""
    try:
        if os.name == "posix" and note.stat().st_uid != os.getuid():
            return None
        note_of = json.loads(note.read_bytes())
    except (OSError, ValueError):
        return None
    texts = isinstance(note_of, dict) and all(isinstance(text, str) for text in note_of.values())
    return note_of if texts else None


def _tried(libraries: Sequence[str]) -> dict[str, str]:
    """The same by processes of now."""
    if not _end(libraries):
        return {}
    ends = {library: _end([library]) for library in libraries}
    return {library: end for library, end in ends.items() if end}


def _end(libraries: Sequence[str]) -> str:
    """How a process ends that uses some libraries; empty if as it should, whatever OpenCL says."""
    with Scratch("trial") as folder:
        for index, library in enumerate(libraries):
            Path(folder, f"{index:02}.icd").write_text(f"{library}\n", encoding="utf-8")
        try:
            done = child_processes.run(
                [sys.executable, "-I", "-c", _CHILD, json.dumps(sys.path)],
                SECONDS,
                shut_in=False,
                variables={**os.environ, "OCL_ICD_VENDORS": folder, "PYOPENCL_NO_CACHE": "true"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return f"{ENDED} that used it did not end within {SECONDS:g} s"
    if done.returncode in (0, 1):
        return ""
    return f"{ENDED} that used it ended: {child_processes.ended(done.returncode)}"
