"""Runs a check in a child process, which may crash or hang without taking the command along.

The last thing that the child said names what it was doing. The child sees the plugin that
is checked and what it requires, and no other plugin: a check finds out what it forgot to
require, and nobody else's op or setting decides.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any, Final, final

from netcl_market import child_processes
from netcl_market.child_processes import ended, last_words
from netcl_market.patience import Patience

from netcl_core import config, errors
from netcl_core.errors import NetclError
from netcl_core.plugins.protocol import canonical
from netcl_plugin_kit.check.child import CHECKING, DONE, ERROR, FOUND, LOADING
from netcl_plugin_kit.check.findings import CheckFinding, not_loading
from netcl_plugin_kit.check.subject import needed
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import merged

_POLL: Final = 0.05
#: Seconds in which a child that is done may end by itself: a plugin's thread may keep it.
_PARTING: Final = 5.0
#: What a child does before it says anything.
_START: Final = "its own start"
#: The parts of what a child says that are outcomes; the parent merges those of the steps.
_OUTCOMES: Final = ("outcomes", "steps")
_CHILD: Final = """
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    given = json.load(file)
sys.path[:] = given["path"]
from netcl_plugin_kit.check import child
child.main(given)
"""
#: Ops are checked in compiled functions too, with all that the compiler does with them.
_COMPILER: Final = "netcl-plugin-fusion"


#: For how many seconds nothing may be heard of a child, those not counted in which it waits for a
#: processor, and how long it may take in all.
PATIENCE: Final = 120.0
_SECONDS: Final = 4 * 3600.0


@final
@dataclass(frozen=True, slots=True)
class CheckJob:
    """What a child is to check.

    Attributes:
        name: The distribution.
        path: Folders that go before all others on its `sys.path`.
        packed: The members of the wheel that was unpacked there; None if it is installed.
        project: The folder that the wheel was built from; empty if there is none.
        timed: Whether it may measure times. Else the part `left` of what it says names what it
            would have measured.
    """

    name: str
    path: tuple[str, ...] = ()
    packed: tuple[str, ...] | None = None
    project: str = ""
    level: str = "static"
    devices: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    against: str | None = None
    timed: bool = True


@final
class Conversation:
    """What a child has said so far: the parts of the record, and what it was doing last."""

    def __init__(
        self, progress: Callable[[str, int, int], None], failed: Callable[[Outcome], None]
    ) -> None:
        self._failed = failed
        self.parts: dict[str, list[Any]] = {}
        self.error: tuple[str, str] | None = None
        self.done = False
        self._progress = progress
        self._last: tuple[str, ...] = (CHECKING, _START)

    @property
    def loading(self) -> bool:
        """Whether it was loading a plugin."""
        return self._last[0] == LOADING

    @property
    def over(self) -> bool:
        """Whether it has said its last word."""
        return self.done or self.error is not None

    @property
    def silent(self) -> bool:
        """Whether it has said nothing yet."""
        return self._last == (CHECKING, _START)

    def take(self, lines: Iterator[str]) -> bool:
        """Note new lines; whether there were any."""
        heard = False
        for line in lines:
            kind, *data = json.loads(line)
            heard = True
            if kind == FOUND:
                self._note(*data)
            elif kind == ERROR:
                self.error = (data[0], data[1])
            elif kind == DONE:
                self.done = True
            else:
                self._last = (kind, *map(str, data))
                done, total = data[1:] if kind == CHECKING else (0, 1)
                self._progress(data[0] if kind == CHECKING else f"loading {data[0]}", done, total)
        return heard

    def _note(self, part: str, row: Any) -> None:
        self.parts.setdefault(part, []).append(row)
        if part in _OUTCOMES and row["state"] == "failed":
            self._failed(Outcome(**row))

    def death(self, hung: bool, how: str) -> Outcome:
        """The outcome of a child that ended, or had to be ended, before it was done."""
        if self.loading:
            _, plugin, distribution = self._last
            who = f"the plugin {plugin!r} of {distribution}"
            return not_loading(who, "NP209" if hung else "NP208", how)
        text = f"while checking {self._last[1]}: {how}"
        return CheckFinding("NC602" if hung else "NC601", text).outcome()

    def fault(self, traceback: str) -> Outcome:
        """The outcome of an exception that nobody has caught."""
        what = traceback.strip().splitlines()[-1]
        return CheckFinding(
            "NC603", f"while checking {self._last[1]}: {what}\n{traceback}"
        ).outcome()


def run(
    job: CheckJob,
    folder: Path,
    progress: Callable[[str, int, int], None],
    failed: Callable[[Outcome], None],
    patience: float = PATIENCE,
) -> dict[str, list[Any]]:
    """The parts of the record by name, each a list of JSON data.

    The child gets a new folder in `folder`; `failed` is told each failure when it is found.
    Raises the NetclError that the child raised, such as MissingExtraError.
    """
    own = Path(mkdtemp(dir=folder))
    lines, order, errors = (own / name for name in ("lines", "order", "errors"))
    lines.touch()
    path = [*job.path, *sys.path]
    given = {**asdict(job), "path": path, "lines": str(lines)}
    order.write_text(json.dumps(given), encoding="utf-8")
    said = Conversation(progress, failed)
    with errors.open("wb") as file:
        child = _start(job, path, own, file)
    death = _converse(child, lines, said, patience, errors)
    if said.error is not None:
        death = _fault(said, *said.error)
    outcomes = said.parts.setdefault("outcomes", [])
    steps = merged([Outcome(**step) for step in said.parts.pop("steps", ())])
    outcomes += [asdict(step) for step in (*steps, *([death] if death else []))]
    return said.parts


def _start(
    job: CheckJob, path: Sequence[str], folder: Path, errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    cache = config.cache_root().absolute() / "checks" / canonical(job.name)
    cache.mkdir(parents=True, exist_ok=True)
    settings = config.environment(
        plugins=",".join([*(needed(job.name, path) or [job.name]), _COMPILER]),
        plugins_disable="",
        plugins_autoload="1",
        plugins_strict="0",
        lock="0",
        trust="all",
        cache_dir=str(cache),  # what it builds there, only its own checks will run
        resolve=job.name,  # of two plugins that offer an op, the one that is checked serves it
    )
    return child_processes.start(
        [sys.executable, "-I", "-c", _CHILD, str(folder / "order")],
        variables=settings,
        readable=[*job.path, *([job.project] if job.project else [])],
        writable=[folder, cache],
        stdout=subprocess.DEVNULL,  # no pipe, which a grandchild could keep open
        stderr=errors,
    )


def _converse(
    child: subprocess.Popen[bytes], lines: Path, said: Conversation, patience: float, errors: Path
) -> Outcome | None:
    """Listen until the child is done, ends or falls silent; the outcome of its death, if it died.

    Nothing that it started outlives it.
    """
    begun = time.monotonic()
    left = Patience(child.pid, patience)
    with lines.open(encoding="utf-8") as file:
        try:
            while child.poll() is None:
                if said.take(_whole(file)):
                    left.renew()
                if said.over:
                    break
                if time.monotonic() - begun > _SECONDS:
                    return said.death(True, f"it took more than {_SECONDS:g} s")
                if left.over():
                    return said.death(True, f"nothing was heard of it for {patience:g} s")
                time.sleep(_POLL)
            said.take(_whole(file))
        finally:
            _end(child, _PARTING if said.over else 0.0)
    if said.over:
        return None
    words = f": {last_words(errors)}" if said.silent else ""
    return said.death(
        False, f"it ended the interpreter ({ended(child_processes.code_of(child))}){words}"
    )


def _end(child: subprocess.Popen[bytes], patience: float) -> None:
    """End a child, after some patience, and all that it started."""
    with suppress(subprocess.TimeoutExpired):
        child.wait(patience)
    child_processes.end(child)


def _whole(file: Any) -> Iterator[str]:
    """The lines that are complete; a half one is read again with its rest."""
    while True:
        place = file.tell()
        line = file.readline()
        if not line.endswith("\n"):
            file.seek(place)
            return
        yield line


def _fault(said: Conversation, name: str, text: str) -> Outcome:
    """The outcome of a fault of the check itself; raises what is the user's, and a fault at once.

    What was found before it is worth more than a clean end.
    """
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, NetclError):
        raise kind(text)
    if not said.parts:
        raise RuntimeError(f"the check itself failed in its child process:\n{text}")
    return said.fault(text)
