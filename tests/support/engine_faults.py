"""Faults of the engine, one line each, and the command that shows that a daily test notices them.

    python tests/support/engine_faults.py [NAME ...] [--seconds 600] [--jobs 1] [--write]

Each fault is seeded in a copy of the checkout, so that every test and every process that a test
starts meets it. The tests run until the first fails: the one that docs/mutants.md names, then all
by their distance from the fault. `--write` writes the page. Exits with 1 if one is not noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import nearest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "mutants.md"
_PART: Final = re.compile(r"(<!-- faults: from a run -->\n).*?(<!-- end -->)", re.DOTALL)
_NOTICED: Final = re.compile(r"^\| `(\S+)` \| \w+ \| `\S+` \| `(.+)` \| (\d+) s \|$", re.MULTILINE)
#: Test files that one process runs. All at once would be collected before the first test.
_FILES: Final = 12
#: A test that takes longer than this many seconds hangs.
_HANGS: Final = 90
#: It compares the table with the sources, and would fail for every fault.
_OWN: Final = "test_engine_faults.py"
_NOTES: Final = "ENGINE_FAULT_NOTES"
#: The packages that stand for the engine besides netcl_core, and where their modules lie.
_SOURCES: Final = {
    "netcl_market": "plugins/netcl-market/src",
    "netcl_plugin_amp": "plugins/netcl-plugin-amp/src",
    "netcl_plugin_capture": "plugins/netcl-plugin-capture/src",
    "netcl_plugin_patterns": "plugins/netcl-plugin-patterns/src",
}


class Fault(NamedTuple):
    """A change of one line, which is given without its indentation.

    `file` lies in netcl_core, or in a distribution of `_SOURCES` if it begins with its package.
    """

    name: str
    part: str
    file: str
    before: str
    after: str


def path_of(fault: Fault) -> str:
    """The file of a fault as seen from the root."""
    return f"{_SOURCES.get(fault.file.partition('/')[0], 'netcl_core')}/{fault.file}"


class Verdict(NamedTuple):
    """The test that noticed a fault, none if `test` is empty, and the seconds that it took."""

    fault: Fault
    test: str
    seconds: float


_TABLE: Final = """
thread-mode apply tape/apply.py
- if not (process.grad if grad is None else grad):
+ if not process.grad or grad is False:
first-result apply tape/apply.py
- first = flows.index(True) if several else 0
+ first = 0
place-of-argument apply tape/function_call.py
- return tuple(i for i, place in enumerate(self.places) if place in self._saves)
+ return tuple(i for i, place in enumerate(self.places) if i in self._saves)
inputs-of-given-away apply ops/operator_call.py
- return tuple(range(len(inputs))) if again else self.reads(needs)
+ return self.reads(needs)
cast-without-mode apply netcl_plugin_amp/leaf_casts.py
- key = id(leaf), dtype, is_grad_enabled(), capture
+ key = id(leaf), dtype, capture
cast-of-old-version apply netcl_plugin_amp/leaf_casts.py
- if known is None or known[1] != leaf.version:
+ if known is None:
sum-in-shared reverse tape/gradients.py
- held, term, own = term, held, False
+ held, term = term, held
seed-in-leaf reverse tape/reverse.py
- self.taken.add(id(start.value.memory))
+ self.taken.add(id(start))
changed-input reverse tape/reverse.py
- if saved.version != version:
+ if saved.version < version:
policy-in-backward reverse tape/reverse.py
- policy, thread.amp = thread.amp, None  # gradients have the dtypes of the forward pass
+ policy = thread.amp
scope-entered-twice reverse tape/state.py
- return entries.pop() if entries else now
+ return entries[-1] if entries else now
hooked-in-place reverse ops/in_place.py
- leave_hooks(x, old)
+ leave_hooks(x, x)
gradients-of-failed capture netcl_plugin_capture/capture.py
- for leaf, gradient in [*recorder.leaves.values(), *self._dropped]:
+ for leaf, gradient in [*self._dropped, *recorder.leaves.values()]:
second-backward capture runtime/recording.py
- return leaf.grad is not None and not capture.made(leaf.grad.value.memory)
+ return leaf.grad is not None
host-data-shared capture netcl_plugin_capture/recording.py
- kept = np.array(array, dtype.numpy, copy=True, order="C")
+ kept = np.asarray(array, dtype.numpy, order="C")
bytes-of-fill capture netcl_plugin_capture/opencl_replay.py
- nbytes, fill = command.size * command.dtype.itemsize, opencl_module().enqueue_fill_buffer
+ nbytes, fill = command.size, opencl_module().enqueue_fill_buffer
output-as-input capture netcl_plugin_capture/graph_inputs.py
- elif self.uses is None or identity(buffer) in copied:
+ elif self.uses is None:
input-put-back capture netcl_plugin_capture/graph_inputs.py
- return self.current is not before
+ return self.current is not self.buffer
key-without-choice keys ops/public_function.py
- return (thread.chosen,) if tensors else (thread.chosen, default_device())
+ return () if tensors else (default_device(),)
key-without-device keys ops/public_function.py
- return (thread.chosen,) if tensors else (thread.chosen, default_device())
+ return (thread.chosen,)
key-without-length keys jit/arguments.py
- key += (kind, len(x))
+ key.append(kind)
facts-forgotten keys jit/entries.py
- indices = tuple(sorted(reads.union(known)))
+ indices = tuple(sorted(reads))
facts-by-value keys jit/entries.py
- return key, tuple([repr(facts[i]) for i in indices])
+ return key, tuple([facts[i] for i in indices])
sizes-among-numbers keys jit/jit.py
- reads = entry.reads | {len(facts) + i for i in entry.fixed}
+ reads = entry.reads | entry.fixed
grad-unwatched guards jit/guards.py
- _OF_OPERANDS: Final = frozenset({"grad", "requires_grad"})
+ _OF_OPERANDS: Final = frozenset({"requires_grad"})
names-found-late guards jit/guards.py
- while known < len(self.names):  # one found late may use names of earlier objects
+ if known < len(self.names):
attribute-that-hides guards jit/guards.py
- inherited = {name for name in names if hasattr(kind, name)}
+ inherited = {name for name in names if name in space}
array-made-writeable guards jit/guarded_values.py
- return not self._source.flags.writeable
+ return True
second-name guards netcl_plugin_patterns/pattern_nodes.py
- op, commutative = primitive.alias_of or op, primitive.commutative
+ commutative = primitive.commutative
editable-when-strict lock netcl_market/lock_verification.py
- if pin.editable and not strict:
+ if pin.editable:
time-of-inode lock netcl_market/file_digests.py
- return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino
+ return stat.st_size, stat.st_mtime_ns, stat.st_mtime_ns, stat.st_ino
devices-disagree lock netcl_market/lock.py
- return said.pop() if len(said) == 1 else ()
+ return said.pop() if said else ()
unlocked-for-good lock netcl_market/locking.py
- registry.hold_to(choices)
+ registry.hold_to(None)
setting-before-lock lock plugins/resolution.py
- rules = (by_lock, _ranked) if lock_is_strict() else (_ranked, by_lock)
+ rules = (_ranked, by_lock)
other-files-same-version loading netcl_market/states.py
- if (state.version, state.record) == (distribution.version, distribution.fingerprint()):
+ if state.version == distribution.version:
sibling-switched-off loading plugins/selection.py
- return own in {"", plugin.name} and canonical(plugin.distribution) in named(distribution)
+ return canonical(plugin.distribution) in named(distribution)
code-trusted-as-data loading plugins/selection.py
- if trust in ("all", "signed") or (trust == "data" and _without_code(plugin)):
+ if trust in ("all", "signed", "data"):
seen-while-loading loading plugins/registry.py
- if not promised or self.demand.peeked:
+ if not promised:
interrupted-load loading plugins/loading.py
- plugin.state = "found"
+ plugin.state = "quarantined"
limits-of-devices loading plugins/loading.py
- if manifest is not None and not manifest.requires.anything:
+ if manifest is not None and manifest.requires.anything:
"""
_ROW: Final = re.compile(r"^(\S+) (\S+) (\S+)\n- (.+)\n\+ (.+)$", re.MULTILINE)
FAULTS: Final = tuple(Fault(*row) for row in _ROW.findall(_TABLE))


def seeded(fault: Fault, text: str) -> str:
    """The text of a fault's file with the fault; raises LookupError if the code has moved on."""
    lines = text.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if line.strip() == fault.before]
    if len(places) != 1:
        raise LookupError(
            f"{fault.name}: {path_of(fault)} has {len(places)} times the line "
            f"`{fault.before}`, expected once; the code has moved on"
        )
    lines[places[0]] = lines[places[0]].replace(fault.before, fault.after)
    return "".join(lines)


def published() -> dict[str, Verdict]:
    """What the page says of each fault."""
    rows = _NOTICED.findall(PAGE.read_text(encoding="utf-8"))
    noticed = {name: (test, float(seconds)) for name, test, seconds in rows}
    return {fault.name: Verdict(fault, *noticed.get(fault.name, ("", 0.0))) for fault in FAULTS}


def lines(verdicts: Iterable[Verdict]) -> Iterator[str]:
    """The part of the page that comes from a run."""
    listed = list(verdicts)
    noticed = sum(bool(each.test) for each in listed)
    yield f"{noticed} of {len(listed)} faults were noticed on {date.today().isoformat()}."
    yield "\n| fault | part | file | noticed by | after |\n|---|---|---|---|---|"
    for fault, test, seconds in listed:
        told = f"`{test}` | {seconds:.0f} s" if test else "nobody |"
        yield f"| `{fault.name}` | {fault.part} | `{fault.file}` | {told} |"


@cache
def _uses() -> dict[Path, set[Path]]:
    return nearest.users()


def _groups(fault: Fault) -> Iterator[list[str]]:
    """What one process after the other runs; of the test on the page what the day leaves of it."""
    if before := published()[fault.name].test:
        yield [before.partition("[")[0]]
    near = nearest.nearest({ROOT / path_of(fault)}, _uses())
    files = [str(path.relative_to(ROOT)) for path in near if path.name != _OWN]
    yield from (files[i : i + _FILES] for i in range(0, len(files), _FILES))


def tried(fault: Fault, seconds: float) -> Verdict:
    """Which test notices a fault within so many seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="netcl-fault-") as folder:
        place = Path(folder) / "checkout"
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(".*", "build"))
        path = place / path_of(fault)
        right = path.read_text(encoding="utf-8")
        wrong = seeded(fault, right)
        past: list[str] = []  # tests that fail without the fault, too
        for group in _groups(fault):
            while (left := start + seconds - time.monotonic()) > 0:
                path.write_text(wrong, encoding="utf-8")
                test = _first_failure(place, group, past, left)
                path.write_text(right, encoding="utf-8")
                if not test:
                    break
                if not _first_failure(place, [test], [], 2 * _HANGS):
                    return Verdict(fault, test, time.monotonic() - start)
                past.append(test)
    return Verdict(fault, "", time.monotonic() - start)


def _first_failure(place: Path, what: Sequence[str], past: Sequence[str], seconds: float) -> str:
    """The first test that fails, hangs or ends the process; empty if there is none in time."""
    what = [word for word in what if word not in past]  # a file that cannot be imported
    if not what:
        return ""
    notes = place / "notes"
    notes.write_text("")
    sources = [place / each for each in _SOURCES.values()]
    folders = [place, place / "tests" / "support", *sources, os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(str(folder) for folder in folders if folder)
    hangs = [f"faulthandler_timeout={_HANGS}", "faulthandler_exit_on_timeout=true"]
    options = [*(f"--override-ini={hang}" for hang in hangs), *(f"--deselect={x}" for x in past)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-x", "-q", "-p", "engine_faults", *options, *what],
        cwd=place,
        env={**os.environ, "PYTHONPATH": path, _NOTES: str(notes)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        ended = process.wait(seconds)
    except subprocess.TimeoutExpired:
        ended = 0
    finally:
        with contextlib.suppress(ProcessLookupError):  # and what a test left running
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    told = [line.split(" ", 1) for line in notes.read_text().splitlines()]
    failed = [test for what, test in told if what == "failed"]
    begun = [test for what, test in told if what == "begun"]
    crashed = ended not in (0, 1, 5) or (ended == 1 and not failed)  # 5: all are left to the night
    return (failed or (begun[-1:] if crashed else []) or [""])[0]


def main() -> None:
    """Try the faults that are named, or all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=600, help="no fault takes longer")
    parser.add_argument("--jobs", type=int, default=1, help="so many faults at a time")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md")
    given = parser.parse_args()
    faults_of = published()
    if unknown := set(given.names) - faults_of.keys():
        parser.error(f"there is no fault {min(unknown)}")
    chosen = [fault for fault in FAULTS if not given.names or fault.name in given.names]
    for fault in chosen:
        try:
            seeded(fault, (ROOT / path_of(fault)).read_text(encoding="utf-8"))
        except LookupError as error:
            sys.exit(f"engine_faults: {error}")
    with ThreadPoolExecutor(given.jobs) as pool:
        for verdict in pool.map(lambda fault: tried(fault, given.seconds), chosen):
            fault, test, seconds = verdict
            faults_of[fault.name] = verdict
            what = f"killed by {test}" if test else "not killed"
            print(f"{fault.name} ({fault.part}): {what} after {seconds:.0f} s", flush=True)
    killed = sum(bool(faults_of[fault.name].test) for fault in chosen)
    print(f"{killed} of {len(chosen)} killed")
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        text = "\n".join(lines(faults_of[fault.name] for fault in FAULTS))
        PAGE.write_text(_PART.sub(lambda part: f"{part[1]}{text}\n{part[2]}", page), "utf-8")
    sys.exit(1 if killed < len(chosen) else 0)


# -- pytest's hooks, in the processes that run the tests ------------------------------------


def _note(what: str, test: str) -> None:
    with Path(os.environ[_NOTES]).open("a") as notes:
        notes.write(f"{what} {test}\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    _note("begun", nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """Note a test that fails."""
    if report.failed:
        _note("failed", report.nodeid)


def pytest_collectreport(report: Any) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _note("failed", report.nodeid)


if __name__ == "__main__":
    main()
