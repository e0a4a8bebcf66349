"""`netcl matrix run`: prepares runtimes and Pythons, runs the cells, says what came out."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_market.tables import print_text, waiting

from netcl_core.cli import print_json
from netcl_core.config import cache_root
from netcl_core.inspect.data import Scratch
from netcl_plugin_tools.matrix import pythons
from netcl_plugin_tools.matrix.environments import Environments
from netcl_plugin_tools.matrix.plan import part, shelves, tasks
from netcl_plugin_tools.matrix.processes import Processes
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.records import STATES, reasons
from netcl_plugin_tools.matrix.running import CellResult, Runner
from netcl_plugin_tools.matrix.runtimes import (
    RUNTIMES,
    Ask,
    CellRuntime,
    Presence,
    devices_here,
    locate,
)
from netcl_plugin_tools.matrix.supplies import Supplies
from netcl_plugin_tools.matrix.terminal import print_reasons, progress_of_cells
from netcl_plugin_tools.matrix.uv import Uv, find_uv

INTERRUPTED: Final = 130  # what a shell reports of a command that Ctrl-C ended


@final
@dataclass(frozen=True, slots=True)
class MatrixOptions:
    """The options of the command."""

    cores: Path
    plugins: Path
    only: Sequence[str]
    records: Path
    pythons: Sequence[str]
    runtimes: Sequence[str]
    level: str
    jobs: int
    timeout: float
    rerun: Sequence[str]
    shard: tuple[int, int]
    find_links: Sequence[Path]
    download: bool
    index_url: str
    as_json: bool


def run(options: MatrixOptions) -> int:
    """Run a matrix; 0: nothing failed, 1: a cell failed, 3: no cell could be run."""
    wheels = shelves(options.cores, options.plugins, options.only)
    processes = Processes()
    folder = cache_root().absolute() / "matrix"  # children work in folders of their own
    links = tuple(options.find_links)
    uv = Uv(find_uv(), folder / "uv", processes, links, options.download, options.index_url)
    supplies = Supplies(folder / "locks", uv)
    environments = Environments(folder / "environments", uv)
    # Asked to end, a run ends its children too, as after Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Scratch("matrix") as work:
            with waiting("looking for Pythons and runtimes ..."):
                interpreters = pythons.find_all(options.pythons, uv)
                ask = devices_here(processes, Path(work))
                here = [
                    _presence(runtime, interpreters, supplies, environments, Path(work), ask)
                    for runtime in map(RUNTIMES.__getitem__, dict.fromkeys(options.runtimes))
                ]
            planned = part(tasks(wheels, interpreters, here, options.level), *options.shard)
            with progress_of_cells(len(planned)) as watch:
                lasting = options.records, options.timeout, options.rerun
                runner = Runner(processes, supplies, environments, wheels.folder, *lasting, watch)
                results = runner.run(planned, options.jobs)
    except KeyboardInterrupt:
        _say("Interrupted: finished cells have their records, the same command goes on from there.")
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    _report(results, options)
    states = Counter(result.record.state for result in results)
    if states["fail"]:
        return 1
    return 0 if states["pass"] or not results else 3


def _presence(
    runtime: CellRuntime,
    interpreters: Sequence[Interpreter],
    supplies: Supplies,
    environments: Environments,
    work: Path,
    ask: Ask,
) -> Presence:
    """A runtime on this machine; the packages of one from pip are installed once for all."""
    folder = work / runtime.name
    if not runtime.packages:
        return locate(runtime, None, folder, ask)
    python = next((interpreter for interpreter in interpreters if not interpreter.problem), None)
    if python is None:
        return Presence(runtime, problem="there is no Python to install it with")
    supply = supplies.provide(python, runtime.packages)
    layer = None if supply.problem else environments.layer(python, supply)
    problem = supply.problem if layer is None else layer.problem
    if layer is None or problem:
        return Presence(runtime, problem=problem)
    return locate(runtime, layer.folder, folder, ask)


def _report(results: Sequence[CellResult], options: MatrixOptions) -> None:
    counts = Counter(result.record.state for result in results)
    if options.as_json:
        data = {
            "cells": [_data(result) for result in results],
            "counts": {state: counts[state] for state in STATES},
            "kept": sum(result.kept for result in results),
            "records": str(options.records),
        }
        print_json(data)
        return
    groups = reasons((result.record for result in results), STATES[1:])
    if groups:
        print_reasons(groups)
        print()
    kept = sum(result.kept for result in results)
    said = ", ".join(f"{counts[state]} {state}" for state in STATES)
    print_text(
        f"{said}; {len(results)} cells, {kept} of them from earlier records in {options.records}"
    )


def _data(result: CellResult) -> Mapping[str, Any]:
    record = result.record.as_json()
    names = ("plugin", "version", "core", "core_build", "python", "runtime", "level", "state",
             "reason", "date", "seconds", "dependency")  # fmt: skip
    return {**{name: record[name] for name in names}, "kept": result.kept}


def _say(text: str) -> None:
    print(text, file=sys.stderr)
