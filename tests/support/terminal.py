"""Runs the command line on a pseudo-terminal, where it prints for people."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def on_terminal(words: Sequence[str], errors: Path, **variables: str) -> tuple[int, bytes]:
    """The exit code of `netcl WORDS` and what the terminal got; stderr goes into a file."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "netcl_core.cli.main", *words]
    with errors.open("wb") as file:
        child = subprocess.Popen(command, stdout=terminal, stderr=file, env=environment)
    os.close(terminal)
    text = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:  # Linux says so when the child has closed its end
            break
        if not piece:
            break
        text += piece
    os.close(controller)
    return child.wait(SECONDS), text
