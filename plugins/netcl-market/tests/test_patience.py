"""The patience with a child process that says nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from netcl_market import child_processes, patience
from netcl_market.patience import Patience

#: What a child does for long.
SILENT = {
    "it sleeps": "time.sleep(60)",
    "it computes": "while True: pass",
    "what it started computes": "subprocess.run([sys.executable, '-c', 'while True: pass'])",
    "it starts one after another": "while True: subprocess.run([sys.executable, '-SEc', '1'])",
}


@contextmanager
def silent(code: str, seconds: float) -> Iterator[Patience]:
    """The patience with a child, which has been over once."""
    words = [sys.executable, "-c", f"import subprocess, sys, time\n{code}"]
    child = child_processes.start(words, shut_in=False)
    left = Patience(child.pid, seconds)
    try:
        end = time.monotonic() + 60
        while not left.over():
            assert time.monotonic() < end
            time.sleep(0.05)
        yield left
    finally:
        child_processes.end(child)


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_silence_ends(code: str) -> None:
    with silent(code, 1.0) as left:
        left.renew()
        assert not left.over()


def test_waiting_for_a_processor_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that got a tenth of a core for a minute has been silent for six seconds."""
    clock, state = [0.0], [0.0, True]
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(patience, "_state_of", lambda pid: tuple(state))
    left = Patience(1, 6.5)
    for second in range(60):
        clock[0] += 1.0
        state[0] += 0.1
        assert not left.over(), second
    state[1] = False  # now it sleeps
    clock[0] += 1.0
    assert left.over()
