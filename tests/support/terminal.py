"""Runs the command line on a pseudo-terminal, where it prints for people."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def on_terminal(words: Sequence[str], errors: Path, **variables: str) -> tuple[int, bytes]:
    """The exit code of `netcl WORDS` and what the terminal got; stderr goes into a file."""
    return _on_terminal(words, "stdout", "stderr", errors, variables)


def progress_on_terminal(words: Sequence[str], output: Path) -> tuple[int, bytes]:
    """The same with stderr on the terminal and stdout in a file."""
    return _on_terminal(words, "stderr", "stdout", output, {})


def _on_terminal(
    words: Sequence[str], shown: str, kept: str, path: Path, variables: Mapping[str, str]
) -> tuple[int, bytes]:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "netcl_core.cli.main", *words]
    with path.open("wb") as file:
        streams: dict[str, Any] = {shown: terminal, kept: file}
        child = subprocess.Popen(command, env=environment, **streams)
    os.close(terminal)
    text = b""
    while True:  # a terminal that nobody reads stops whoever writes
        try:
            piece = os.read(controller, 65536)
        except OSError:  # Linux says so when the child has closed its end
            break
        if not piece:
            break
        text += piece
    os.close(controller)
    return child.wait(SECONDS), text
