"""Collects the cases and scenarios of an installed plugin: from its hook, and derived ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from netcl_plugin_patterns import TrainingPattern

from netcl_core import Device, plugins
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import PluginError, message
from netcl_core.inspect.choices import unfit
from netcl_core.plugins.protocol import (
    OP_KINDS,
    Plugin,
    Row,
    canonical,
    implementing,
    known,
    registry,
)
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.derived import derived_cases
from netcl_plugin_kit.testing.scenarios import Scenario
from netcl_plugin_kit.testing.vocabulary import CHECKS

HOOK: Final = "netcl_conformance_cases"
#: Of an implementation whose operator is not loaded: what was found, expected, and the remedy.
_NO_OPERATOR: Final = (
    "no loaded plugin provides the operator that it implements",
    "the operator's plugin, whose package the project requires, if only for its tests",
    "Name it among the dependencies of the extra dev",
)
#: How many cases of an op are tried where every installed op is: a policy has a rule per op.
_OF_EACH_OP: Final = 1
#: Of a pattern with the name of an op of its plugin.
_TWO_KINDS: Final = (
    "an op and a training pattern have this name",
    "one of them: a case says by name what it is of",
    "Rename the pattern",
)

if TYPE_CHECKING:
    from netcl_core.autograd import AmpPolicy
T = TypeVar("T", Case, Scenario)


@final
@dataclass(frozen=True)
class Table:
    """The cases of one plugin.

    >>> table = Table("mine", [Case("sin", [normal()], reference=np.sin)])
    >>> table.ops
    ['sin']

    Attributes:
        provider: The plugin's distribution.
        internal: Ops that need no case, with the reason.
        problems: Ops whose cases could not be had, with what went wrong; namespaces likewise.
        scenarios: What is done with its namespaces.
        policies: Its amp policies.
    """

    provider: str
    cases: Sequence[Case]
    internal: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    scenarios: Sequence[Scenario] = ()
    policies: Sequence[AmpPolicy] = ()

    @property
    def ops(self) -> list[str]:
        """The ops of the cases, each once, in their order."""
        return list(dict.fromkeys(case.op for case in self.cases))

    def cases_of(self, op: str) -> list[Case]:
        """The cases of one op."""
        return [case for case in self.cases if case.op == op]

    def missing(self) -> list[str]:
        """The plugin's ops and patterns that have neither a case nor a reason."""
        known = {*self.ops, *self.internal, *self.problems}
        return sorted({record.name for record in records_of(self.provider)} - known)

    def twins(self) -> dict[str, str]:
        """Ops with two cases of one name, by which reports and mutants tell cases apart."""
        twins: dict[str, str] = {}
        for case in self.cases:
            if any(str(case) == str(other) for other in self.cases if other is not case):
                remedy = "Tell them apart with note="
                twins[case.op] = message(case.op, f"two cases named {case}", "one", remedy)
        return twins

    def unfit(self, op: str, device: Device) -> str | None:
        """Why a device cannot run anything that the plugin brings for an op, or None."""
        rows = [row for row in registry.op_rows(op) if row.provider == self.provider]
        if not rows and (own := _patterns(self.provider, op)):
            return registry.limit(own[0].owner, device) or own[0].record.unmet(device) or None
        if rows or not device.has_kernels:
            return unfit(rows[0].offer, device) if rows else None
        reasons = [
            registry.limit(row.owner, device) or row.record.requires.unmet_everywhere(device)
            for row in _implementations(self.provider, op)
        ]
        return "; ".join(filter(None, reasons)) if reasons and all(reasons) else None

    def primitives(self) -> list[AutogradPrimitive]:
        """The plugin's elementwise ops, also those without a case and those that are parts."""
        rows = registry.rows_of(self.provider, parts=True)
        return [row.record for row in rows if isinstance(row.record, AutogradPrimitive)]


def records_of(provider: str) -> list[Any]:
    """The records of all ops and patterns of a distribution, in the order of registration."""
    registry.load()
    return [row.record for row in (*registry.rows_of(provider), *_patterns(provider))]


def _patterns(provider: str, name: str | None = None) -> list[Row]:
    return [row for row in registry.rows("pattern", name) if row.provider == provider]


def table_of(distribution: str) -> Table:
    """The table of an installed plugin, by the name of its distribution or its own.

    >>> from netcl_plugin_kit.testing import table_of
    >>> table = table_of("netcl-plugin-detection")
    >>> sorted({case.op for case in table.cases})[:2]
    ['fused_weighted_bce_smooth_l1_loss', 'weighted_bce']

    What it implements of another plugin's operator is checked with that one's cases, unless it
    has cases of its own. A hook that raises, or returns something else than cases, does so for
    one op: it becomes one of the table's `problems`, and the other ops keep their cases.

    Raises:
        PluginError: it is not installed, or does not work.
    """
    provider = plugins_of(distribution)[0].distribution
    records: dict[str, Any] = {}
    twins: list[str] = []
    for record in records_of(provider):
        twins += [record.name] if record.name in records else []
        records.setdefault(record.name, record)
    implemented = [row.record for row in _implementations(provider)]
    cases: list[Case] = []
    internal: dict[str, str] = {}
    problems = {name: message(name, *_TWO_KINDS) for name in twins}
    for op in dict.fromkeys(
        [*records, *(implementation.operator for implementation in implemented)]
    ):
        try:
            given, reason = _ask(provider, op, Case)
            if given and not (registry.op_rows(op) or op in records):
                raise PluginError(message(op, *_NO_OPERATOR))
            if op not in records:
                given = [_of_an_implementation(case) for case in given]
            if not given and not reason and op not in records:
                given = _borrowed(provider, op)
        except PluginError as error:
            problems[op] = str(error)
            continue
        record = records.get(op)
        if wrong := _misfits(given, record):
            problems[op], given = wrong, []
        elif not given and reason:
            internal[op] = reason
        elif not given and isinstance(record, (AutogradPrimitive, TrainingPattern)):
            try:
                given = derived_cases(record, provider)
            except Exception as error:  # a plugin's callable may raise anything
                problems[record.name] = f"no case can be derived: {type(error).__name__}: {error}"
        cases += [replace(case, provider=provider) for case in given]
    scenarios: list[Scenario] = []
    for row in registry.rows("namespace"):
        if row.provider == provider:
            try:
                scenarios += _ask(provider, row.record.name, Scenario)[0]
            except PluginError as error:
                problems[row.record.name] = str(error)
    policies = [row.record for row in registry.rows("amp_policy") if row.provider == provider]
    return Table(provider, cases, internal, problems, scenarios, policies)


def all_cases() -> list[Case]:
    """The cases of every active plugin that brings ops, of each op the first."""
    registry.load()
    owners = {row.provider for kind in OP_KINDS for row in registry.rows(kind)}
    cases: list[Case] = []
    for owner in sorted(owners.intersection(plugin.distribution for plugin in plugins.list())):
        table = table_of(owner)
        cases += [case for op in table.ops for case in table.cases_of(op)[:_OF_EACH_OP]]
    return cases


def _misfits(cases: Sequence[Case], record: Any) -> str:
    """Which case calls an elementwise op with what it does not take; empty if none does.

    Said once, since every check of such a case would fail.
    """
    if not isinstance(record, AutogradPrimitive):
        return ""
    for case in cases:
        unknown = [] if case.call else [name for name in case.attrs if name not in record.attrs]
        if unknown:
            known = f"attributes of {record.name}: {', '.join(record.attrs) or 'it has none'}"
            given = f"attrs= has {', '.join(unknown)}"
            return message(f"case {case}", given, known, "Correct the case, or the op")
    return ""


def table_with(
    distribution: str, cases: Sequence[Case], internal: Mapping[str, str] | None = None
) -> Table:
    """A table of an installed plugin with these cases in place of its hook's.

    Raises:
        PluginError: it is not installed, or does not work.
    """
    provider = plugins_of(distribution)[0].distribution
    return Table(provider, [replace(case, provider=provider) for case in cases], internal or {})


def _implementations(provider: str, op: str | None = None) -> list[Row]:
    rows = registry.rows("implementation", op)
    return [row for row in rows if row.provider == provider]


def _borrowed(provider: str, op: str) -> list[Case]:
    """The cases that another one's operator comes with, in the dtypes that are implemented."""
    owners = [row.provider for row in registry.op_rows(op)]
    cases = [case for owner in owners for case in _ask(owner, op, Case)[0]]
    if not cases:
        given = f"{' and '.join([provider, *owners])} give no case of it"
        raise PluginError(message(op, given, "one", CHECKS["cases"].remedy))
    offered = [row.record.requires.dtypes for row in _implementations(provider, op)]
    if not all(offered):  # one of them computes any
        return cases
    dtypes = {dtype for implementation in offered for dtype in implementation}
    return [
        replace(
            _of_an_implementation(case), dtypes=[dtype for dtype in case.takes if dtype in dtypes]
        )
        for case in cases
        if dtypes.intersection(case.takes)
    ]


def _of_an_implementation(case: Case) -> Case:
    """A case as it is for who brings an implementation alone: it refuses nothing for the op."""
    why = "the operator takes more dtypes than it implements"
    return replace(case, skip={**case.skip, "refusal": why})


def plugins_of(name: str, *, loaded: bool = True) -> list[Plugin]:
    """The plugins of a distribution, by its name or theirs; each of them works.

    Unless they have to be `loaded`, what a manifest says of them is enough.

    Raises PluginError if there are none, or one does not work.
    """
    registry.load(None if loaded else ())
    installed = [*known.values()]
    named = {each.distribution for each in installed if each.name == name}
    wanted = {canonical(each) for each in named} or {canonical(name)}
    plugins = [each for each in installed if canonical(each.distribution) in wanted]
    if not plugins:
        names = {text for each in installed for text in (each.distribution, each.name)}
        close = get_close_matches(name, sorted(names), n=1)
        remedy = f"Did you mean {close[0]}?" if close else "`netcl plugins list` shows them"
        raise PluginError(message("conformance", f"{name!r}", "an installed plugin", remedy))
    for plugin in plugins:
        if plugin.state not in ("active", "found"):
            given = f"it is {plugin.state}: {plugin.reason}"
            raise PluginError(
                message(f"plugin {plugin.name!r} of {name}", given, "one that works", plugin.remedy)
            )
    return plugins


def _ask(provider: str, name: str, kind: type[T]) -> tuple[list[T], str]:
    """What a distribution's hooks give for an op or a namespace, and a reason if it is nothing.

    Raises PluginError for a hook that does neither.
    """
    answers: list[T] = []
    reason = ""
    for plugin, hook in implementing(HOOK):
        if plugin.distribution == provider:
            answer = _answer(plugin, hook, name, kind)
            if isinstance(answer, str):
                reason = reason or answer
            else:
                answers += answer
    return answers, reason


def _answer(plugin: Plugin, hook: Callable[..., Any], name: str, kind: type[T]) -> list[T] | str:
    """What a plugin's hook says of one name: its cases or scenarios, or why it needs none."""
    who = f"{HOOK}({name!r}) of plugin {plugin.name!r} of {plugin.distribution}"
    try:
        answer = hook(op=name)
        given = answer if isinstance(answer, str) else _listed(answer)
    except (Exception, SystemExit) as error:  # a plugin may raise anything
        text = message(who, f"{type(error).__name__}: {error}", "cases", "Correct the hook")
        raise PluginError(text) from error
    a = f"a list of netcl_plugin_kit.testing.{kind.__name__}"
    expected = f"{a}, a text that says why none is needed, or None"
    remedy = CHECKS["cases"].remedy
    if isinstance(given, str):
        if not given.strip():
            raise PluginError(message(who, "an empty reason", expected, remedy))
        return given
    for operand in given:
        if not isinstance(operand, kind):
            text = f"{operand!r} among the cases" if isinstance(answer, Iterable) else f"{answer!r}"
            raise PluginError(message(who, text, expected, remedy))
        of = operand.op if isinstance(operand, Case) else operand.namespace
        if of != name:
            raise PluginError(message(who, f"one of {of!r}", f"those of {name!r}", remedy))
    return given


def _listed(answer: Any) -> list[Any]:
    if answer is None:
        return []
    return list(answer) if isinstance(answer, Iterable) else [answer]
