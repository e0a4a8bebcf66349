"""Run the tests in several processes, each of which collects only the files that it runs.

    pytest --jobs 2 [--shard I/N] [what pytest takes]

The first process lists the files of tests without importing any, and shows what its workers
report. A worker takes the next file when it is done with its last one. (With pytest-xdist each
worker collects every file.) `--shard 1/4` runs every fourth file.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import pytest

#: The pipes of a worker: where it reads which file is next, and where it writes its reports.
_PIPES: Final = "NETCL_TEST_PIPES"
#: The bytes of a file's number in the pipe, which holds 65,536 bytes.
_NUMBER: Final = 8
#: A worker's exit codes that say nothing new: all passed, some failed, it had no tests.
_USUAL: Final = (0, 1, 5)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("parallel", "tests in several processes")
    group.addoption("--jobs", type=int, default=0, help="How many; 0: in this process alone.")
    group.addoption("--shard", default="1/1", metavar="I/N", help="Which part of the files.")


def pytest_configure(config: pytest.Config) -> None:
    """Make this process a worker, or the one that has workers."""
    if _PIPES in os.environ:
        queue, reports = map(int, os.environ.pop(_PIPES).split())
        config.pluginmanager.register(Worker(config, queue, reports), "worker")
    elif config.getoption("jobs") and not config.getoption("collectonly"):
        config.pluginmanager.register(Workers(config), "workers")


class Files:
    """The files of a run, each with what was asked of it; every process finds the same."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.files: dict[Path, list[Any]] | None = None

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Find the files, and collect none of them."""
        session.perform_collect(genitems=False)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Take them from pytest, whose other plugins expect tests."""
        if self.files is None:
            self.files = {}
            for node in self._in_folders(items):
                self.files.setdefault(node.path, []).append(node)
            items.clear()

    def _in_folders(self, nodes: Iterable[Any]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, pytest.Directory):
                report = node.ihook.pytest_make_collect_report(collector=node)
                yield from self._in_folders(report.result or ())
            else:
                yield node


# -- the process that has workers ------------------------------------------------------------


class Workers(Files):
    """Starts processes in the place of running tests, and tells this one what they report."""

    def _order(self) -> list[int]:
        """The numbers of the files: as given, or first those that are likely to take long."""
        assert self.files is not None  # they have been collected
        first = 1 << 20  # a file of two lines has all the cases of a plugin
        weights = [
            path.stat().st_size + first * (path.stem == "test_conformance") for path in self.files
        ]
        part, parts = map(int, self.config.getoption("shard").split("/"))
        if not 1 <= part <= parts:
            expected = f"1/{parts} to {parts}/{parts}"
            raise pytest.UsageError(f"--shard {part}/{parts}; expected {expected}")
        order = sorted(range(len(weights)), key=lambda number: -weights[number])
        if all(Path(place).is_file() for place in self.config.args):  # somebody has chosen
            order = list(range(len(weights)))
        return order[part - 1 :: parts]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the workers to their end."""
        numbers = self._order()
        queue, entry = os.pipe()
        os.write(entry, b"".join(b"%*d" % (_NUMBER, number) for number in numbers))
        os.close(entry)
        jobs = min(self.config.getoption("jobs"), len(numbers))
        with selectors.DefaultSelector() as selector:
            try:
                for _ in range(jobs):
                    self._start(queue, selector)
                while selector.get_map():
                    for key, _ in selector.select():
                        process: Process = key.data
                        for message in process.messages():
                            self._tell(session, process, message)
                        if process.silent:
                            selector.unregister(process.reports)
                            if self._ended(session, process):
                                self._start(queue, selector)
                    if session.shouldfail:
                        raise session.Failed(session.shouldfail)
            finally:
                for key in list(selector.get_map().values()):
                    key.data.process.terminate()
                    key.data.end()
                os.close(queue)
        return True

    def _start(self, queue: int, selector: selectors.BaseSelector) -> None:
        process = Process(queue, self.config)
        selector.register(process.reports, selectors.EVENT_READ, process)

    def _tell(self, session: pytest.Session, process: Process, message: dict[str, Any]) -> None:
        hook = self.config.hook
        kind, content = message["kind"], message["content"]
        if kind == "start":
            process.running = content
            hook.pytest_runtest_logstart(**content)
        elif kind == "finish":
            process.running = None
            hook.pytest_runtest_logfinish(**content)
        elif kind == "collected":
            session.testscollected += content
        else:
            report = hook.pytest_report_from_serializable(config=self.config, data=content)
            if isinstance(report.longrepr, list):  # a tuple, before it was JSON
                report.longrepr = tuple(report.longrepr)
            of_a_test = isinstance(report, pytest.TestReport)
            send = hook.pytest_runtest_logreport if of_a_test else hook.pytest_collectreport
            send(report=report)

    def _ended(self, session: pytest.Session, process: Process) -> bool:
        """Report a worker that did not end as it should; whether another has to take its place."""
        code, output = process.end()
        if code in _USUAL:
            return False
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        where = process.running or {"nodeid": "a test process", "location": ("", None, "")}
        text = f"The process of this test ended: {how}\n{output}"
        report = pytest.TestReport(
            where["nodeid"], tuple(where["location"]), {}, "failed", text, "call"
        )
        self.config.hook.pytest_runtest_logreport(report=report)
        return process.running is not None and not session.shouldfail


class Process:
    """A worker, as its parent sees it."""

    def __init__(self, queue: int, config: pytest.Config) -> None:
        there, here = os.pipe()
        self._output: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *config.invocation_params.args],
            cwd=config.invocation_params.dir,
            env={**os.environ, _PIPES: f"{queue} {here}"},
            pass_fds=[queue, here],
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        os.close(here)
        self.reports = os.fdopen(there, "rb", buffering=0)
        self.silent = False
        self.running: dict[str, Any] | None = None
        self._begun = b""

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it has reported since the last time; at its end it is `silent`."""
        received = self.reports.read(1 << 16)
        self.silent = not received
        *lines, self._begun = (self._begun + received).split(b"\n")
        yield from map(json.loads, lines)

    def end(self) -> tuple[int, str]:
        """Wait for its end; returns the exit code, and the last lines that it printed."""
        code = self.process.wait()
        with self.reports, self._output:
            self._output.seek(0)
            return code, "".join(self._output.readlines()[-40:])


# -- a worker ------------------------------------------------------------------------------


class Worker(Files):
    """Runs the tests of one file after the other, and reports as JSON, one line each."""

    def __init__(self, config: pytest.Config, queue: int, reports: int) -> None:
        super().__init__(config)
        self._queue = queue
        self._reports = os.fdopen(reports, "w")
        os.set_inheritable(queue, False)
        os.set_inheritable(reports, False)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run each file's tests; the next file is collected before the last test of one."""
        before: pytest.Item | None = None
        for item in itertools.chain(self._items(session), [None]):
            if before is not None:
                before.config.hook.pytest_runtest_protocol(item=before, nextitem=item)
            if session.shouldfail or session.shouldstop:
                break
            before = item
        return True

    def _items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        assert self.files is not None  # they have been collected
        files, count, hook = list(self.files.values()), 0, self.config.hook
        while number := os.read(self._queue, _NUMBER):
            items = [item for node in files[int(number)] for item in session.genitems(node)]
            hook.pytest_collection_modifyitems(session=session, config=self.config, items=items)
            hook.pytest_collection_finish(session=session)
            self._send("collected", len(items))
            count += len(items)
            yield from items
        session.testscollected = count

    def _send(self, kind: str, content: Any) -> None:
        self._reports.write(json.dumps({"kind": kind, "content": content}) + "\n")
        self._reports.flush()

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        """Tell which test begins."""
        self._send("start", {"nodeid": nodeid, "location": location})

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        """Tell that it is over."""
        self._send("finish", {"nodeid": nodeid, "location": location})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell how it went."""
        self._report(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell of a file that cannot be collected, or has nothing."""
        if not report.passed:
            self._report(report)

    def _report(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        content = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        self._send("report", content)
