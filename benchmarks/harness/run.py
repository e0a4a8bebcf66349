"""`python benchmarks`: from its options to the table, the files and the exit code."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

from netcl_plugin_kit.timing import Clock
from netcl_plugin_kit.writing import write_text

from harness import finding, peers
from harness.cases import RaceCase
from harness.comparing import fallen
from harness.plot import svg
from harness.records import RaceRecord, RaceResult, latest, save
from harness.running import run_case
from harness.table import header, heading, libraries, notes, rows, slower
from netcl_core import Device, default_device, use_device
from netcl_core.cli import print_table
from netcl_core.errors import ArgumentError, message

#: PyTorch's threads spin when they have nothing to do, at the cost of whose turn is next.
_WAITING: Final = "OMP_WAIT_POLICY"


@final
@dataclass(frozen=True)
class RaceOptions:
    """What the command takes."""

    items: tuple[str, ...]
    folders: tuple[Path, ...]
    device: str | None
    peers: str
    budget: float
    json: Path | None
    svg: Path | None
    against: Path | None
    tolerance: float


def run(options: RaceOptions, clock: Clock = time.perf_counter) -> int:
    """Measure, print, write; 1 if ours failed, was wrong or fell behind, else 0."""
    os.environ.setdefault(_WAITING, "PASSIVE")
    wanted = _wanted(options.peers)
    with use_device(options.device or default_device()) as device:
        _check(options, device)
        kind = "gpu" if device.kind == "gpu" else "cpu"
        cases = deque(finding.chosen(finding.items_in(options.folders), options.items, kind))
        absent = peers.absences(device, {name: peers.PEERS[name] for name in wanted})
        date = datetime.now(UTC).isoformat(timespec="seconds")
        facts = _described(device), peers.versions(absent), _settings(options)
        record = RaceRecord(date, *facts, ())
        then = None if options.against is None else latest(options.against, device.name)
        for result in _results(cases, device, absent, options, then, clock):
            record = replace(record, results=(*record.results, result))
            _write(record, options)
    _show(record)
    return _told(record, options)


def _wanted(names: str) -> list[str]:
    """The peers that were asked for, in their order; ours are among them without being named."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in given if name not in peers.PEERS]:
        expected = f"some of {','.join(peers.PEERS)}"
        raise ArgumentError(message("bench", f"--peers {unknown[0]}", expected))
    return [
        name
        for name, peer in peers.PEERS.items()
        if not given or name in given or (peer.ours and not any(map(_is_ours, given)))
    ]


def _is_ours(name: str) -> bool:
    return peers.PEERS[name].ours


def _check(options: RaceOptions, device: Device) -> None:
    """What would otherwise fail after minutes."""
    if options.against is not None:
        latest(options.against, device.name)
    for path in (options.json, options.svg):
        if path is not None and not path.parent.is_dir():
            raise ArgumentError(message("bench", f"there is no folder {path.parent}"))


def _results(
    cases: deque[tuple[str, RaceCase]],
    device: Device,
    absent: Mapping[str, str],
    options: RaceOptions,
    then: RaceRecord | None,
    clock: Clock,
) -> Iterator[RaceResult]:
    """One per case; none is kept, since a case holds its data.

    What seems to have fallen behind an earlier record is timed once more: others share the host.
    """
    count = len(cases)
    while cases:
        item, case = cases.popleft()
        print(f"{count - len(cases)}/{count} {item}/{case.name}", file=sys.stderr, flush=True)
        result = run_case(item, case, device, absent, options.budget, clock=clock)
        if then is not None and fallen([result], then, options.tolerance):
            print(f"once more: {item}/{case.name}", file=sys.stderr, flush=True)
            again = run_case(item, case, device, absent, options.budget, clock=clock)
            result = result.or_faster(again)
        yield result


def _described(device: Device) -> dict[str, str]:
    return {
        "name": device.name,
        "platform": device.platform,
        "kind": device.kind,
        "driver": device.driver_version,
        "units": str(device.compute_units),
    }


def _settings(options: RaceOptions) -> dict[str, str]:
    return {
        "budget": f"{options.budget:g}",
        "python": platform.python_version(),
        _WAITING: os.environ[_WAITING],
        **({"load": f"{os.getloadavg()[0]:.1f}"} if hasattr(os, "getloadavg") else {}),
    }


def _show(record: RaceRecord) -> None:
    print(heading(record), libraries(record), sep="\n")
    print_table(header(record), list(rows(record)))
    for line in (*notes(record), *slower(record)):
        print(line)


def _write(record: RaceRecord, options: RaceOptions) -> None:
    """After each case, so that an interrupted run leaves what it has."""
    if options.json is not None:
        save(record, options.json)
    if options.svg is not None:
        write_text("bench", options.svg, svg(record))


def _told(record: RaceRecord, options: RaceOptions) -> int:
    """The exit code; what fell behind is named."""
    behind: list[str] = []
    if options.against is not None:
        then = latest(options.against, record.device["name"])
        behind = fallen(record.results, then, options.tolerance)
        for line in behind:
            print(f"fell behind: {line}")
        if not behind:
            print(f"nothing fell behind {options.against} of {then.date[:10]}")
    return 1 if behind or any(result.troubles() for result in record.results) else 0
