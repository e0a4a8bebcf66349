"""The static level: what is known of a plugin without running any of its ops.

Files and metadata are read before the plugin is imported (`read_level`), registrations and
templates after it (`static_level`). Both yield outcomes as they come, so that a plugin that
ends the interpreter takes none of them with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from netcl_core import plugins
from netcl_core.autograd import AutogradPrimitive, Operator
from netcl_core.plugins.protocol import KINDS, PRIMITIVES, REGISTERED, Row, registry
from netcl_plugin_kit.check import contents, declared, lint, registration
from netcl_plugin_kit.check.findings import CheckFinding, judged, not_loading
from netcl_plugin_kit.check.subject import Subject
from netcl_plugin_kit.testing import verification
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.records import Outcome

#: (what, done, total)
Progress = Callable[[str, int, int], None]
#: The checks that need the plugin loaded.
LOADED: Final = ("registration", "templates", "derivative")
_READ: Final[Mapping[str, Callable[[Subject], Iterable[CheckFinding]]]] = {
    "wheel": contents.check_contents,
    "metadata": declared.check_metadata,
    "licence": declared.check_licence,
    "manifest": declared.check_manifest,
}


# -- before the import -----------------------------------------------------------------


def read_level(subject: Subject, only: Collection[str] = ()) -> Iterator[Outcome]:
    """What files and metadata tell; `only` names the checks that are wanted, all by default.

    Raises MissingExtraError if a tool of the extra `check` is missing.
    """
    for name, check in _READ.items():
        if only and name not in only:
            continue
        if name == "wheel" and subject.editable:
            reason = "it is installed in editable mode; check its project folder"
            yield Outcome(name, "skipped", reason=reason)
        elif name == "manifest" and not subject.plugins:
            yield Outcome(name, "skipped", reason="it has no plugin")
        else:
            yield from judged(name, check(subject))


# -- after the import ------------------------------------------------------------------


def load_level(subject: Subject) -> list[Outcome]:
    """Whether each of the distribution's plugins loads; loads all that the settings let."""
    registry.load()
    ours = [plugin for plugin in plugins.list() if plugin.distribution == subject.name]
    failed = [
        not_loading(f"the plugin {plugin.name!r}", plugin.code, plugin.reason)
        for plugin in ours
        if plugin.failed
    ]
    active = [plugin for plugin in ours if plugin.state == "active"]
    return failed + [Outcome("load", "passed")] * len(active)


def static_level(
    subject: Subject,
    cases: Sequence[Case],
    only: Collection[str] = (),
    progress: Progress = lambda what, done, total: None,
) -> Iterator[Outcome]:
    """What the registrations of a loaded distribution tell.

    Args:
        subject: The distribution.
        cases: The conformance cases of its ops, as far as there are any.
        only: The names of the checks that are wanted, all by default.
        progress: Told what is checked.
    """

    def wanted(check: str) -> bool:
        return not only or check in only

    if wanted("registration"):
        progress("registration", 0, 1)
        yield from check_registration(subject, cases)
    rows = _rows(subject, "templates")
    wrong: set[str] = set()
    for outcome in _templates(subject, rows, cases, progress) if wanted("templates") else ():
        yield outcome
        wrong |= {outcome.op} if outcome.state == "failed" else set()
    if wanted("derivative"):
        rows = registry.rows_of(subject.name, parts=True)
        records = [row.record for row in rows if "derivative" in KINDS[row.kind].checks]
        for done, record in enumerate(records):
            progress(f"derivative of {record.name}", done, len(records))
            if record.name in wrong:
                reason = "its expressions are wrong"
                yield Outcome("derivative", "skipped", record.name, reason=reason)
            elif record.backward is not None:
                yield from _derivative(record, [case for case in cases if case.op == record.name])


def _rows(subject: Subject, check: str) -> list[Row]:
    """What the distribution registers of the kinds that a check looks at."""
    kinds = [kind for kind in REGISTERED if check in KINDS[kind].checks]
    rows = [row for kind in kinds for row in registry.rows(kind)]
    return [row for row in rows if row.provider == subject.name]


def check_registration(subject: Subject, cases: Sequence[Case]) -> list[Outcome]:
    """The manifests' rows against the registrations, in both directions."""
    promised = promised_rows(subject)
    silent = _silent(subject)
    rows = [row for row in registration.provided(subject.name, cases) if row["name"] not in silent]
    others = [*registration.too_old(subject.name), *registration.unused(subject.name)]
    if not (promised or rows or others):
        return [Outcome("registration", "skipped", reason="there is nothing that a manifest lists")]
    mismatches = registration.differences(rows, promised) + others
    wrong = {mismatch.op for mismatch in mismatches}
    fine = [Outcome("registration", "passed", row["name"]) for row in rows]
    return [mismatch.outcome() for mismatch in mismatches] + [
        one for one in fine if one.op not in wrong
    ]


def promised_rows(subject: Subject) -> list[Mapping[str, Any]]:
    """All rows of `[[provides]]` of the distribution's manifests."""
    tables = [declared.read(path).get("provides") for _, path in declared.manifests(subject)]
    rows = [row for table in tables if isinstance(table, list) for row in table]
    return [row for row in rows if isinstance(row, dict)]


def _silent(subject: Subject) -> set[str]:
    """What comes from single primitives without a manifest, which need none."""
    told = {name for name, _ in declared.manifests(subject)}
    return {
        op
        for plugin in plugins.list()
        if plugin.distribution == subject.name and plugin.group == PRIMITIVES
        for op in (plugin.provides if plugin.name not in told else ())
    }


# -- templates and gradients -----------------------------------------------------------


def _templates(
    subject: Subject, rows: Sequence[Row], cases: Sequence[Case], progress: Progress
) -> Iterator[Outcome]:
    promised = {row.get("name"): row.get("dtypes") or () for row in promised_rows(subject)}
    for _, prefix in subject.plugins:
        for template in lint.templates(prefix):
            yield from judged("templates", lint.check_file(template))
    for done, row in enumerate(rows):
        name = row.record.name
        progress(f"templates of {name}", done, len(rows))
        own = [case for case in cases if case.op == name]
        dtypes = lint.dtypes_of(promised.get(name, ()))
        if isinstance(row.record, AutogradPrimitive):
            taken = registration.taken(own) or dtypes
            yield from _of_primitive(row.record, [dtype for dtype in dtypes if dtype in taken])
        elif isinstance(row.record, Operator) and not row.record.view:
            yield from _of_operator(row.record, own, dtypes)


def _of_primitive(record: AutogradPrimitive, dtypes: Sequence[str]) -> Iterator[Outcome]:
    outcomes = judged("templates", lint.check_primitive(record), record.name)
    yield from outcomes
    if outcomes[0].state == "passed":
        for dtype in dtypes:
            yield from judged("templates", lint.check_rendering(record, dtype), record.name, dtype)


def _of_operator(
    record: Operator, cases: Sequence[Case], dtypes: Sequence[str]
) -> Iterator[Outcome]:
    if not lint.plannable(cases):
        reason = "no case tells the shapes to plan its kernels for"
        yield Outcome("templates", "skipped", record.name, reason=reason)
        return
    for dtype in dtypes:
        if any(dtype in case.takes for case in cases):
            findings = lint.check_kernels(record, cases, dtype)
            yield from judged("templates", findings, record.name, dtype)


def _derivative(record: AutogradPrimitive, cases: Sequence[Case]) -> list[Outcome]:
    """The gradient check of a primitive, which a case may excuse or expect to fail."""
    name = record.name
    for case in cases:
        reason = case.excuse("derivative")
        if reason is not None:
            return [Outcome("derivative", "skipped", name, reason=f"its case says: {reason}")]
    outcomes = judged("derivative", _gradient_findings(record), name)
    expected = [why for case in cases if (why := case.expected_failure("derivative", None, ""))]
    if not expected:
        return outcomes
    if outcomes[0].state == "failed":
        return [Outcome("derivative", "xfailed", name, reason=expected[0])]
    return [CheckFinding("NC503", f"its case says: {expected[0]}", name).outcome()]


def _gradient_findings(record: AutogradPrimitive) -> Iterator[CheckFinding]:
    try:
        findings = verification.check_gradient(record)
    except Exception as error:  # a plugin's callable may raise anything
        yield CheckFinding("NC502", f"{type(error).__name__}: {error}", record.name)
        return
    for finding in findings:
        yield CheckFinding(
            "NC501" if finding.point is not None else "NC502", str(finding), record.name
        )
