"""Child processes that end when they are told to: with a time limit, and all of them at once.

Each child leads a process group of its own, so that what it started ends with it, and an
interrupt at the terminal reaches the matrix alone, which then decides.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_market import child_processes
from netcl_market.child_processes import ended

#: What must not reach a cell from the caller's environment.
_FOREIGN: Final = ("PYTHON", "NETCL_", "OCL_ICD_", "OPENCL_VENDOR_PATH", "VIRTUAL_ENV", "POCL_",
                   "UV_", "__PYVENV_LAUNCHER__")  # fmt: skip
_SHOWN: Final = 12  # lines of a failed command that are worth keeping
_NO_START: Final = 127


class StoppedError(Exception):
    """The run was interrupted; what it was doing has no result."""


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `code` is None if it ran out of time, negative for a signal."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def how(self) -> str:
        """Its end in words."""
        if self.code is None:
            return "ran out of time"
        if self.code < 0:
            return f"was ended by {ended(self.code)}"
        return f"ended with {ended(self.code)}"

    @property
    def tail(self) -> str:
        """The last lines that it wrote, those of stderr if there are any."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return "\n".join(lines[-_SHOWN:])


def clean_variables() -> dict[str, str]:
    """The caller's environment without what would change how a cell behaves."""
    return {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}


@final
class Processes:
    """The children of one run; `stop` ends them and lets no other start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self.stopped = False

    def run(
        self,
        command: Sequence[Any],
        cwd: Path,
        variables: Mapping[str, str],
        timeout: float | None = None,
        **places: Any,
    ) -> Ended:
        """Run a command to its end; raises StoppedError if `stop` came in between.

        One that cannot be started ends with 127, as in a shell. `places` says what it may touch,
        as for `netcl_market.child_processes.start`.
        """
        try:
            child = self._start(command, cwd, variables, places)
        except OSError as error:
            return Ended(_NO_START, "", str(error))
        try:
            stdout, stderr = child.communicate(timeout=timeout)
            code: int | None = child_processes.code_of(child)
        except subprocess.TimeoutExpired:
            child_processes.end(child)
            stdout, stderr = child.communicate()
            code = None
        except BaseException:  # an interrupt does not reach the child, so it is passed on
            child_processes.end(child)
            raise
        finally:
            with self._lock:
                self._running.discard(child)
        if self.stopped:
            raise StoppedError
        return Ended(code, stdout, stderr)

    def _start(
        self,
        command: Sequence[Any],
        cwd: Path,
        variables: Mapping[str, str],
        places: Mapping[str, Any],
    ) -> subprocess.Popen[str]:
        with self._lock:
            if self.stopped:
                raise StoppedError
            child = child_processes.start(
                command,
                cwd=cwd,
                variables=variables,
                **places,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
            self._running.add(child)
            return child

    def stop(self) -> None:
        """End every child."""
        with self._lock:
            self.stopped = True
            for child in self._running:
                child_processes.end(child)
