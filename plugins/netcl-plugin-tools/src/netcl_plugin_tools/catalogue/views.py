"""What the pages show of the market: tables of states, in the order of their columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from netcl_plugin_tools.catalogue.findings import Finding, Findings, FoundKernel, Where, verdict
from netcl_plugin_tools.catalogue.model import MarketContent, Op, Project
from netcl_plugin_tools.matrix.records import CellRecord
from netcl_plugin_tools.matrix.runtimes import RUNTIMES
from netcl_plugin_tools.matrix.signs import SIGNS as CELL_SIGNS
from netcl_plugin_tools.matrix.signs import Sign

#: Every state of a check and of a cell: a sign beside the colour, since not everybody sees the
#: colour. What did not run is grey, never green.
SIGNS: Final[Mapping[str, Sign]] = {
    "passed": Sign("✓", "good", "passed", "green"),
    "failed": Sign("✗", "bad", "failed", "red"),
    "xfailed": Sign("≈", "off", "fails as expected", "dim"),
    "skipped": Sign("○", "off", "skipped", "dim"),
    "static": Sign("□", "off", "not run", "dim"),
    "none": Sign("·", "off", "no record", "dim"),
    **CELL_SIGNS,
}
#: Of the frame of the front page's kernel.
_LINES, _COLUMNS = 25, 66
_SHORT: Final = {"float": "f", "uint": "u", "int": "i", "bool": "b"}


def short(dtype: str) -> str:
    """`f32` for `float32`."""
    for name, letter in _SHORT.items():
        if dtype.startswith(name):
            return letter + dtype.removeprefix(name)
    return dtype


@final
@dataclass(frozen=True, slots=True)
class RecordGroup:
    """The dtypes that share a state; empty where a check has none."""

    state: str
    dtypes: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class PackageRow:
    """One line of a table of states: one list of groups per device."""

    name: str
    groups: tuple[tuple[RecordGroup, ...], ...]
    slug: str = ""


@final
@dataclass(frozen=True, slots=True)
class Reason:
    """Why something failed or did not run, once for all that it is true of."""

    state: str
    check: str
    reason: str
    remedy: str
    where: tuple[str, ...]


def by_check(findings: Findings) -> list[PackageRow]:
    """Check x device of one op."""
    checks = sorted({one.outcome.check for one in findings.outcomes})
    return [
        _row(check, [one for one in findings.outcomes if one.outcome.check == check], findings)
        for check in checks
    ]


def by_op(project: Project, scenarios: bool = False) -> list[PackageRow]:
    """Op, or scenario of a namespace, x device of a project's latest release."""
    findings = project.latest.findings
    slugs = {op.row.name: op.slug for op in project.pages}
    by_name: dict[str, list[Finding]] = defaultdict(list)
    for one in findings.outcomes:
        if one.outcome.op and bool(_namespace(project, one.outcome.op)) == scenarios:
            by_name[one.outcome.op].append(one)
    return [_row(name, by_name[name], findings, slugs.get(name, "")) for name in sorted(by_name)]


def by_namespace(project: Project) -> dict[str, str]:
    """Namespace -> the one word for its scenarios, of all that have some."""
    by_space: dict[str, list[str]] = defaultdict(list)
    for one in project.latest.findings.outcomes:
        by_space[_namespace(project, one.outcome.op)].append(one.outcome.state)
    return {name: verdict(states) for name, states in by_space.items() if name}


def _namespace(project: Project, name: str) -> str:
    """The namespace that an outcome's name is a scenario of; empty for an op."""
    if any(op.row.name == name for op in project.pages):
        return ""
    spaces = [op.row.name for op in project.ops if op.row.kind == "namespace"]
    return next((space for space in spaces if name.startswith(f"{space}-")), "")


def _row(
    name: str, rows_of_op: Sequence[Finding], findings: Findings, slug: str = ""
) -> PackageRow:
    places: list[Where | None] = [*findings.devices]
    if any(one.where is None for one in rows_of_op):
        places.append(None)
    return PackageRow(name, tuple(_groups(rows_of_op, place) for place in places), slug)


def _groups(findings: Iterable[Finding], where: Where | None) -> tuple[RecordGroup, ...]:
    """The states in one place, each with its dtypes."""
    states: dict[str, list[str]] = defaultdict(list)
    for one in findings:
        if one.where == where:
            states[one.outcome.dtype].append(one.outcome.state)
    dtypes: dict[str, list[str]] = defaultdict(list)
    for dtype, given in states.items():
        dtypes[verdict(given)].append(dtype)
    return tuple(
        RecordGroup(state, tuple(sorted(filter(None, dtypes[state]))))
        for state in SIGNS
        if dtypes[state]
    )


def reasons(findings: Iterable[Finding]) -> list[Reason]:
    """Everything that did not pass, equal reasons together; failures first."""
    groups: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for one in findings:
        out = one.outcome
        if out.state != "passed":
            place = [out.op, out.dtype, f"on {one.where.title}" if one.where else ""]
            key = (out.state, out.check, out.reason, out.remedy)
            groups[key].append(" ".join(filter(None, place)))
    order = list(SIGNS)
    keys = sorted(groups, key=lambda key: (order.index(key[0]), key))
    return [Reason(*key, where=tuple(sorted(set(groups[key])))) for key in keys]


@final
@dataclass(frozen=True, slots=True)
class Matrix:
    """Core and Python x runtime; each place has the numbers of its cells, none: it did not run."""

    runtimes: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[tuple[int, ...], ...]], ...]
    cells: tuple[CellRecord, ...]


def matrix(cells: Sequence[CellRecord]) -> Matrix:
    """The cells as a table; the newest core and Python on top."""
    there = {cell.runtime["name"] for cell in cells}
    runtimes = (*RUNTIMES, *sorted(there - set(RUNTIMES))) if cells else ()
    lines = sorted({_line(cell) for cell in cells}, key=_versions, reverse=True)
    rows = tuple(
        (
            core,
            python,
            tuple(
                tuple(
                    number
                    for number, cell in enumerate(cells)
                    if (*_line(cell), cell.runtime["name"]) == (core, python, runtime)
                )
                for runtime in runtimes
            ),
        )
        for core, python in lines
    )
    return Matrix(runtimes, rows, tuple(cells))


def _line(cell: CellRecord) -> tuple[str, str]:
    return cell.cell.line, cell.python


def _versions(line: tuple[str, str]) -> list[tuple[int, int, str]]:
    """Numbers are compared as numbers, so that 3.9 comes before 3.10."""
    return [
        (part.isdigit(), int(part) if part.isdigit() else 0, part)
        for text in line
        for part in (*text.split("."), "")
    ]


@final
@dataclass(frozen=True, slots=True)
class Numbers:
    """The figures of the front page."""

    plugins: int
    ops: int
    kernels: int
    devices: int


def numbers(market: MarketContent) -> Numbers:
    """Kernels: different sources of ops whose checks passed; devices: where something ran."""
    kernels, devices = 0, set()
    for plugin in market.plugins:
        latest = plugin.latest
        passed = {row.name for row in plugin.pages if op_verdict(plugin, row) == "passed"}
        kernels += sum(kernel.op in passed for kernel in latest.findings.kernels)
        devices |= {(one.platform, one.name, one.driver) for one in latest.findings.devices}
        places = (cell.runtime for cell in latest.cells if cell.runtime["device"])
        devices |= {(one["platform"], one["device"], one["driver"]) for one in places}
    pages = sum(len(plugin.pages) for plugin in market.plugins)
    return Numbers(len(market.plugins), pages, kernels, len(devices))


def op_verdict(plugin: Project, op: Op) -> str:
    """The one word for an op's checks in the latest release.

    Green is for ops that ran: what was only looked at, in its template or its registration, is
    `static`.
    """
    own = plugin.latest.findings.of(op.row.name)
    ran = any(one.where and one.outcome.state == "passed" for one in own.outcomes)
    return "static" if own.verdict == "passed" and not ran else own.verdict


def specimen(market: MarketContent) -> tuple[Project, Op, FoundKernel] | None:
    """A kernel for the front page: the gradient of an op that passed, neither trivial nor long."""
    candidates = [
        (_unease(kernel.source), kernel.op, kernel.dtype, plugin.name, number)
        for plugin in market.plugins
        for number, kernel in enumerate(plugin.latest.findings.kernels)
        if (kernel.direction, kernel.language, kernel.dtype) == ("backward", "opencl", "float32")
    ]
    for _, name, _, project, number in sorted(candidates):
        plugin = next(each for each in market.plugins if each.name == project)
        op = next((page for page in plugin.pages if page.row.name == name), None)
        if op is not None and op_verdict(plugin, op) == "passed":
            return plugin, op, plugin.latest.findings.kernels[number]
    return None


def _unease(source: str) -> int:
    """How far a source is from filling the front page's frame, too small or too large."""
    lines = source.strip().splitlines()
    return abs(len(lines) - _LINES) + sum(max(0, len(line) - _COLUMNS) for line in lines)
