"""Children that run a stranger's code: what they try against who started them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from netcl_market import child_processes
from netcl_market.child_processes import BUBBLEWRAP, held

shut_in = pytest.mark.skipif(held() != BUBBLEWRAP, reason="bubblewrap cannot be used here")

#: What a stranger's Python tries; each line raises, or prints, and must not print `done`.
_HOSTILE = {
    "what is installed": "open(os.path.dirname(netcl_market.__file__) + '/x.py', 'w')",
    "the program": "os.chmod(sys.executable, 0o777)",
    "a secret file": "print(open({place!r} + '/secret').read())",
    "a secret variable": "print(os.environ['DEPLOY_TOKEN'])",
    "a program that listens": "socket.create_connection(('127.0.0.1', {port}), 5)",
    "the machine outside": "socket.create_connection(('192.0.2.1', 80), 5)",
    "a service's socket": "socket.socket(socket.AF_UNIX).connect({place!r} + '/service')",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + 'netcl-{port}')",
    "the parent's end": "os.kill({parent}, 0)",
    "the parent's memory": "open('/proc/{parent}/mem', 'rb')",
    "a mount": "subprocess.check_call(['mount', '-o', 'remount,rw', '/'], stderr=-3)",
    "a disk": "[open('/dev/' + each, 'rb') for each in os.listdir('/sys/block')][:1] or 1 / 0",
    "an owner": "os.chown('/proc/self/fd/1', 1, 1) or os.setuid(12345)",
    "more memory": "resource.setrlimit(resource.RLIMIT_DATA, (-1, -1))",
    "all memory": "bytearray(1 << 50)",
    "a large file": "os.truncate(open('{own}/big', 'w').name, 1 << 40)",
    "all files": "[open('/dev/null') for i in range(1 << 20)]",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "the machine's name": "socket.sethostname('netcl')",
}
_START = "import netcl_market, os, resource, socket, subprocess, sys, time\n"


@shut_in
@pytest.mark.parametrize("what", _HOSTILE)
def test_what_a_stranger_tries_is_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_TOKEN", "a secret")
    (tmp_path / "secret").write_text("a secret")
    own = tmp_path / "own"
    own.mkdir()
    with socket.socket() as open_port, socket.socket(socket.AF_UNIX) as service:
        open_port.bind(("127.0.0.1", 0))
        open_port.listen()
        service.bind(str(tmp_path / "service"))
        service.listen()
        line = _HOSTILE[what].format(
            place=str(tmp_path), own=own, port=open_port.getsockname()[1], parent=os.getpid(),
        )  # fmt: skip
        code = f"{_START}{line}\nprint('done')"
        done = _run(code, own)
    assert "a secret" not in done.stdout and "done" not in done.stdout, done.stdout
    assert not (tmp_path / "marker").exists()
    assert sorted(path.name for path in own.iterdir()) in ([], ["big"])


@shut_in
def test_what_it_writes_elsewhere_is_gone(tmp_path: Path) -> None:
    places = [tmp_path / "marker", Path.home() / ".netcl-marker", Path("/var/tmp/netcl-marker")]
    lines = [f"open({str(place)!r}, 'w').write('x')" for place in places]
    (tmp_path / "own").mkdir()
    assert _run("\n".join([*lines, "print('written')"]), tmp_path / "own").stdout == "written\n"
    assert not any(place.exists() for place in places)


@pytest.mark.parametrize("bounds", [pytest.param("bwrap", marks=shut_in), "limits"])
def test_nothing_outlives_who_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: str
) -> None:
    """Not even a process that left its session, where bubblewrap holds; nor after a kill."""
    if bounds == "limits":
        monkeypatch.setattr(child_processes, "_usable", lambda: False)
    ticks = tmp_path / "ticks"
    leaving = "os.fork() and os._exit(0) or os.setsid()" if bounds == "bwrap" else "pass"
    code = f"""
import os, time
if os.fork():
    time.sleep(600)
{leaving}
while True:
    open({str(ticks)!r}, "a").write("x")
    time.sleep(0.02)
"""
    child = child_processes.start([sys.executable, "-c", code], writable=[tmp_path])
    while not ticks.exists():
        time.sleep(0.02)
    child_processes.end(child)
    time.sleep(0.1)
    size = ticks.stat().st_size
    time.sleep(0.3)
    assert ticks.stat().st_size == size


@pytest.mark.parametrize("line", ["bytearray(1 << 50)", "open('big', 'wb').truncate(1 << 40)"])
def test_limits_hold_without_bubblewrap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(child_processes, "_usable", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert held() == child_processes.LIMITS
    said = _run(line, tmp_path).stdout
    assert "MemoryError" in said or "File too large" in said


@shut_in
def test_the_callers_folder_is_not_seen(tmp_path: Path) -> None:
    """Though `python -m` has put it on the import path."""
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "own").mkdir()
    code = (
        "import os, sys, netcl_market.child_processes as c\n"
        "words = [sys.executable, '-c', 'import os; print(os.listdir(%r))' % os.getcwd()]\n"
        "own = os.path.abspath('own')\n"
        "print(c.run(words, 60, cwd=own, writable=[own], stdout=-1, text=True).stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['own']\n\n", done


@shut_in
def test_packages_that_are_links_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of what lies beside them nothing."""
    own, site, far = (tmp_path / name for name in ("own", "site", "far"))
    for folder in (own, site, far / "linked"):
        folder.mkdir(parents=True)
    (far / "linked" / "__init__.py").write_text("")
    (far / "secret.py").write_text("")
    (site / "linked").symlink_to(far / "linked")
    monkeypatch.syspath_prepend(str(site))
    code = f"import os, sys; sys.path.insert(0, {str(site)!r}); import linked"
    assert _run(f"{code}; print(os.listdir({str(far)!r}))", own).stdout == "['linked']\n"


def test_how_a_child_ends_is_told_apart(tmp_path: Path) -> None:
    ends = {"raise SystemExit(3)": 3, "import os; os.kill(os.getpid(), 11)": -11}
    assert {code: _run(code, tmp_path).returncode for code in ends} == ends
    with pytest.raises(FileNotFoundError, match="netcl-nowhere"):
        child_processes.start(["netcl-nowhere"])
    with pytest.raises(subprocess.TimeoutExpired):
        child_processes.run(["sleep", "60"], 0.2)


def _run(code: str, own: Path) -> subprocess.CompletedProcess[str]:
    return child_processes.run(
        [sys.executable, "-c", code],
        60,
        writable=[own],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
