"""Starts child processes that run a stranger's code: the one place that does.

Each has limits on memory, time, processes and files (Unix), and ends with who started it. Where
Linux has bubblewrap (`bwrap`), it is shut in besides: it sees the system read-only and nothing of
the user's but what it is given, has no network and no process to talk to, and may write into
folders of its own alone. `held` says which of both holds here; a record repeats it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import netcl_core
from netcl_core import config
from netcl_market import confined

BUBBLEWRAP: Final = "bubblewrap"
LIMITS: Final = "limits"
#: What a machine is called from inside, so that those there know.
_HOST: Final = "netcl-sandbox"
#: What a child may see of the environment, by name and by how names begin: the rest may be secret.
_NAMES: Final = frozenset({
    "HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "LOGNAME", "NO_COLOR", "PATH", "SHELL",
    "SOURCE_DATE_EPOCH", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
})  # fmt: skip
_PREFIXES: Final = (
    "CL_", "CUDA_", "HIP_", "HSA_", "LC_", "NETCL_", "NVIDIA_", "OCL", "ONEAPI_", "OPENCL_",
    "POCL_", "PYOPENCL_", "PYTEST_", "PYTHON", "ROCR_", "ZE_",
)  # fmt: skip
#: Folders that are other people's, or hold sockets of services; a child has empty ones instead.
_HIDDEN: Final = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/media", "/mnt", "/srv")
#: Bytes that may be written there: they are memory.
_SCRATCH: Final = 1 << 30
#: How many of the last lines that a process said are quoted.
_QUOTED: Final = 3
#: What drivers have outside the system's folders, where it is there.
_DRIVERS: Final = ("/run/opengl-driver", "/run/current-system", "/etc/resolv.conf")
_DEVICES: Final = ("dri", "kfd", "nvidia*", "mali*")
#: Variables that name files and folders of OpenCL's runtimes.
_PLACES: Final = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "LD_LIBRARY_PATH")


def start(
    command: Sequence[Any],
    *,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
    shut_in: bool = True,
    readable: Iterable[str | Path] = (),
    writable: Iterable[str | Path] = (),
    **streams: Any,
) -> subprocess.Popen[Any]:
    """Start a command in a session of its own; `end` ends it with all that it started.

    Args:
        command: The program and its words.
        cwd: The folder that it runs in; default: this process's.
        variables: Its environment, of which it sees what no secret is in; default: this one's.
        shut_in: Whether it runs in bubblewrap where that is there. What is installed here and only
            tried for a crash is not: everybody's programs run it.
        readable: Files and folders that it may read besides the system's and Python's own.
        writable: Those that it may write, too.
        streams: As `subprocess.Popen` takes them; by default it reads nothing.

    Raises FileNotFoundError if there is no such program.
    """
    shown = dict(os.environ if variables is None else variables)
    words = [str(word) for word in command]
    if shutil.which(words[0], path=shown.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), words[0])
    if shut_in:
        shown = {name: text for name, text in shown.items() if _is_shown(name)}
        if _usable() and not _inside():
            places = [*readable, *_named(shown)]
            words = [*_bubblewrap(cwd or Path.cwd(), places, [*writable]), *words]
    if os.name == "posix":
        words = [sys.executable, "-I", "-S", confined.__file__, str(os.getpid()), *words]
    given = {"stdin": subprocess.DEVNULL, **streams}
    return subprocess.Popen(words, cwd=cwd, env=shown, start_new_session=True, **given)


def run(command: Sequence[Any], seconds: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end; options as for `start`.

    Raises subprocess.TimeoutExpired, when all of it has ended.
    """
    child = start(command, **options)
    try:
        stdout, stderr = child.communicate(timeout=seconds)
    finally:
        end(child)
    return subprocess.CompletedProcess(command, code_of(child), stdout, stderr)


def end(child: subprocess.Popen[Any]) -> None:
    """End a child and all that it started; it may have ended by itself."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def code_of(child: subprocess.Popen[Any]) -> int:
    """The exit code of a child that has ended, negative for a signal.

    Bubblewrap says, as shells do, 128 and the signal's number.
    """
    code: int = child.returncode
    of_signal = held() == BUBBLEWRAP and 128 < code < 128 + signal.NSIG
    return 128 - code if of_signal else code


def ended(returncode: int) -> str:
    """How a process ended: its exit code, or the signal by name."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"


def last_words(errors: Path) -> str:
    """The last lines of what a process wrote into a file, in one line."""
    lines = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " / ".join(lines[-_QUOTED:]) or "it said nothing"


def held() -> str:
    """What bounds a child that is shut in: `bubblewrap`, `limits`, or nothing (empty)."""
    if _inside() or _usable():
        return BUBBLEWRAP
    return LIMITS if os.name == "posix" else ""


def _inside() -> bool:
    """Whether this process is shut in itself, and its children with it."""
    if sys.platform != "linux" or os.uname().nodename != _HOST:
        return False
    with contextlib.suppress(OSError):
        return Path("/proc/1/comm").read_text(encoding="utf-8").strip() == "bwrap"
    return False


def _usable() -> bool:
    program = shutil.which("bwrap") if sys.platform == "linux" else None
    return program is not None and _works(program)


@cache
def _works(program: str) -> bool:
    """Whether it may make namespaces, which some containers forbid."""
    words = [program, "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "true"]
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(words, capture_output=True, timeout=10, check=False).returncode == 0
    return False


def _is_shown(name: str) -> bool:
    return os.name != "posix" or name in _NAMES or name.startswith(_PREFIXES)


def _named(variables: Mapping[str, str]) -> Iterator[str]:
    for name in _PLACES:
        yield from filter(None, variables.get(name, "").split(os.pathsep))


def _bubblewrap(cwd: Path, readable: Sequence[Any], writable: Sequence[Any]) -> list[str]:
    """The words before a command that shut it in."""
    hidden = [*_HIDDEN, str(Path.home()), tempfile.gettempdir()]
    hidden = sorted({os.path.realpath(each) for each in hidden if Path(each).is_dir()})
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--hostname", _HOST, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    for place in (place for name in _DEVICES for place in Path("/dev").glob(name)):
        words += ["--dev-bind", str(place), str(place)]
    for folder in hidden:
        words += ["--size", str(_SCRATCH), "--tmpfs", folder]
    settings = config.settings_file(str(cwd))[0]
    python = [sys.prefix, sys.base_prefix, *_path(), *_linked(), config.templates(), settings]
    for place in (*_DRIVERS, *python, *readable):
        words += _bound("--ro-bind", place, hidden)
    for place in writable:
        words += _bound("--bind", place, None)
    return [*words, "--dir", str(cwd), "--chdir", str(cwd), "--"]


def _path() -> list[str]:
    """The import path without the working directory, which `python -m` put there.

    It stays if netcl itself lies there.
    """
    here, own = (
        os.path.realpath(os.curdir),
        [str(Path(folder).parent) for folder in netcl_core.__path__],
    )
    return [folder for folder in sys.path if os.path.realpath(folder) != here or folder in own]


def _linked() -> Iterator[str]:
    """What the links in the folders of the import path lead to: some installers make such."""
    for folder in _path():
        with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as entries:
            yield from (os.path.realpath(entry.path) for entry in entries if entry.is_symlink())


def _bound(option: str, place: str | Path, hidden: Sequence[str] | None) -> Iterator[str]:
    """The words that show a file or a folder, by its own name and by that of what it leads to.

    A folder around a hidden one would show that, and what is not hidden is there already.
    """
    real = os.path.realpath(place)
    if not place or not Path(real).exists():
        return
    if hidden is not None and not any(real.startswith(f"{folder}/") for folder in hidden):
        return
    for name in dict.fromkeys([real, str(Path(place).absolute())]):
        yield from (option, real, name)
