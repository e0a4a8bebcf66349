"""The first look at OpenCL runtimes, in a child process: a driver may abort or hang.

What a child does not survive, this process leaves out. Verdicts are kept in the cache folder, so
that a set of libraries that has not changed is tried once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from netcl_core import config
from netcl_core.files import keep_whole
from netcl_core.hardware.runtimes import Runtime, locate

_SECONDS: Final = 30.0
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


def tried(listed: Sequence[Runtime]) -> list[Runtime]:
    """The runtimes, those that end or hang a child process no longer accepted."""
    libraries = {runtime.library: _stamp(runtime.library) for runtime in listed if runtime.accepted}
    if not libraries:
        return [*listed]
    key = hashlib.sha256(repr(sorted(libraries.items())).encode()).hexdigest()[:16]
    note = config.cache_root() / "icd" / f"tried-{key}.json"
    wrong = _noted(note)
    if wrong is None:
        wrong = _wrong(list(libraries))
        with contextlib.suppress(OSError):
            keep_whole(note, json.dumps(wrong).encode())
    return [
        replace(runtime, accepted=False, reason=wrong[runtime.library])
        if runtime.accepted and runtime.library in wrong
        else runtime
        for runtime in listed
    ]


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


def _wrong(libraries: Sequence[str]) -> dict[str, str]:
    """Library -> what became of a process that used it; those that are fine are not named."""
    if not _end(libraries):
        return {}
    ends = {library: _end([library]) for library in libraries}
    return {library: end for library, end in ends.items() if end}


def _end(libraries: Sequence[str]) -> str:
    """How a process ends that uses some libraries; empty if as it should, whatever OpenCL says."""
    with tempfile.TemporaryDirectory(prefix="netcl-trial-") as folder:
        for index, library in enumerate(libraries):
            Path(folder, f"{index:02}.icd").write_text(f"{library}\n", encoding="utf-8")
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, json.dumps(sys.path)],
            env={**config.environment(), "OCL_ICD_VENDORS": folder, "PYOPENCL_NO_CACHE": "true"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = child.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            return f"{ENDED} that used it did not end within {_SECONDS:g} s"
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code < 0:
        return f"{ENDED} that used it was ended by {signal.Signals(-code).name}"
    return "" if code in (0, 1) else f"{ENDED} that used it ended with exit code {code}"
