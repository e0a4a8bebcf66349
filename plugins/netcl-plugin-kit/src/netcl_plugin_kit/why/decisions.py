"""Why: which provider and implementation of an op is used on a device, and why not the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from netcl_core import Device, Spec, default_device, get_device
from netcl_core.autograd import Operator, Request
from netcl_core.inspect.choices import DECOMPOSITION, missing, resolve
from netcl_core.inspect.recorded import OperatorCall, thread
from netcl_core.plugins.protocol import (
    KINDS,
    REGISTERED,
    Decision,
    Offer,
    Row,
    decide,
    registry,
)
from netcl_plugin_kit.kernels.dry_calls import call_for


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute the op: who brings it, and what was decided about it.

    Attributes:
        implementation: Of the operator that is used, and not the op's record itself.
        unused: It would do, but was not picked.
    """

    provider: str
    label: str
    priority: int
    chosen: bool
    reason: str
    implementation: bool = False
    unused: bool = False


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """The candidates for a name; `str` makes a readable text.

    >>> why = nc.plugins.why("gelu")
    >>> why.op, why.candidates[0].provider, why.rules
    ('gelu', 'netcl-plugin-elementwise', ('the only provider',))

    Attributes:
        op: The name, of an op or of something else that plugins bring.
        device: For an op, where it is to be computed; else empty.
        candidates: The records of that name, and the implementations of the operator that is used.
        rules: What decided: between the records of an op, the implementations of an operator,
            and the records of each other kind of that name.
        settings: Of an implementation with a space, which settings the shapes get and what decided,
            then why records were ignored.
    """

    op: str
    device: str
    dtype: str
    candidates: tuple[Candidate, ...]
    rules: tuple[str, ...]
    settings: tuple[str, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether each rule has picked somebody."""
        return sum(candidate.chosen for candidate in self.candidates) == len(self.rules)

    @property
    def title(self) -> str:
        """What is explained."""
        return f"{self.op} in {self.dtype} on {self.device}" if self.device else self.op

    def __str__(self) -> str:
        lines = [self.title]
        for candidate in self.candidates:
            mark = "->" if candidate.chosen else "  "
            rank = f"({candidate.provider}, priority {candidate.priority})"
            lines.append(f"{mark} {candidate.label} {rank}: {candidate.reason}")
        rules = (f"rule: {rule}" for rule in dict.fromkeys(self.rules))
        return "\n".join([*lines, *rules, *self.settings])


def why(
    op: str,
    *shapes: Spec | Sequence[int],
    device: Any = None,
    dtype: str = "float32",
    attrs: Mapping[str, Any] | None = None,
) -> Explanation:
    """Which provider and implementation of an op is used on a device, and why (print it).

    >>> print(nc.plugins.why("gelu", device="numpy"))
    gelu in float32 on <Device numpy: NumPy>
    -> primitive gelu (...): used: the only provider
    rule: the only provider

    Also who offers a training pattern, an amp policy or a namespace of that name.

    Args:
        op: The name.
        shapes: Of a structured op the shape of each input, or its Spec: then they count too, and
            shown is which settings they get, from the default or a record of `netcl tune`.
        device: As for `nc.get_device`; None: the default device.
        dtype: Of inputs without one of their own.
        attrs: The op's attributes by name, with shapes.

    Raises MissingOpError for a name that nobody offers, and with shapes what the op raises.
    """
    row = registry.find_op(op, thread.chosen) if shapes else None
    if row is None or not isinstance(row.record, Operator):
        return explain(op, device, dtype)
    target = default_device() if device is None else get_device(device)
    specs = [x if isinstance(x, Spec) else Spec(tuple(x), dtype) for x in shapes]
    call = call_for(row.record, target, specs, attrs or {})
    return explain(op, target, dtype) if call is None else explain_call(call)


def explain_call(call: OperatorCall) -> Explanation:
    """See `why`, for the shapes of a call and with its settings."""
    explanation = explain(call.name, call.device, call.results[0].dtype, call.request)
    return (
        dataclasses.replace(explanation, settings=tuple(_settings(call)))
        if call.launches
        else explanation
    )


def _settings(call: OperatorCall) -> Iterator[str]:
    own = call.implementation  # chosen now, with its settings
    if own.space is not None:
        yield f"settings: {call.decided}"
        yield from (f"ignored: {reason}" for reason in call.decided.ignored)


def explain(
    op: str, device: str | Device | None, dtype: str, request: Request | None = None
) -> Explanation:
    """See `why`; with a request, its shapes count too."""
    registry.load(REGISTERED, op)
    candidates: list[Candidate] = []
    rules: list[str] = []
    place = ""
    if registry.op_rows(op):
        target = default_device() if device is None else get_device(device)
        candidates, rules = _of_op(op, target, dtype, request)
        place = repr(target)
    for others, rule in _of_other_kinds(op):
        candidates += others
        rules += [rule] if rule else []
    if not candidates:
        raise missing(op)
    return Explanation(op, place, dtype if place else "", tuple(candidates), tuple(rules))


def of_offers(name: str, offers: Sequence[Offer], decision: Decision) -> Explanation:
    """The explanation of what is decided about something else than records, such as commands."""
    return Explanation(name, "", "", tuple(_candidates(offers, decision)), (decision.rule,))


def _of_op(
    op: str, target: Device, dtype: str, request: Request | None
) -> tuple[list[Candidate], list[str]]:
    """The records of an op, the implementations of the one that is used, and what decided."""
    offers = [row.offer for row in sorted(registry.op_rows(op), key=lambda row: row.id)]
    decision = resolve(op, offers, target, thread.chosen)
    candidates = _candidates(offers, decision, f" {op}")
    rules = [decision.rule]
    row = decision.winner.item if decision.winner is not None else None
    if row is not None and isinstance(row.record, Operator) and row.record.view is None:
        own, rule = _implementations(row.record, row.provider, target, dtype, request)
        candidates += [dataclasses.replace(candidate, implementation=True) for candidate in own]
        rules.append(rule)
    return candidates, rules


def _of_other_kinds(name: str) -> Iterator[tuple[list[Candidate], str]]:
    """Per kind that is no op, the records of a name and what decided, if there was a choice."""
    for kind in REGISTERED:
        rows = sorted(registry.rows(kind, name), key=lambda row: row.id)
        if not rows or KINDS[kind].is_op:
            continue
        if KINDS[kind].serves:
            reason = registry.unused(rows[0])
            if reason:
                rule = "" if registry.op_rows(name) else f"none: {reason}"
                yield [_unused(row, reason) for row in rows], rule
            continue
        offers = [row.offer for row in rows]
        decision = decide(name, offers, locked=registry.locked(KINDS[kind].lock_key(name)))
        candidates = _candidates(offers, decision, f" {name}")
        yield (
            [
                dataclasses.replace(candidate, label=f"{candidate.label}: {_shown(row)}")
                for candidate, row in zip(candidates, rows, strict=True)
            ],
            decision.rule,
        )


def _shown(row: Row) -> str:
    return str(getattr(row.record, KINDS[row.kind].shows))


def _unused(row: Row, reason: str) -> Candidate:
    label = f"{row.kind} {_shown(row)}"
    priority = getattr(row.record, "priority", row.priority)
    return Candidate(row.provider, label, priority, False, f"not used: {reason}")


def _candidates(offers: Sequence[Offer], decision: Decision, after: str = "") -> list[Candidate]:
    return [
        Candidate(
            offer.provider,
            offer.label + after,
            offer.priority,
            offer is decision.winner,
            text,
            unused=offer in decision.unused,
        )
        for offer, text in zip(offers, decision.verdicts, strict=True)
    ]


def _implementations(
    operator: Operator, provider: str, device: Device, dtype: str, exact: Request | None
) -> tuple[list[Candidate], str]:
    """The verdict on each implementation, and the rule; without a request as far as it follows."""
    if not device.has_kernels:
        rule = "the NumPy path, which computes every operator by its reference"
        label = "reference in NumPy"
        if operator.function is not None:
            rule, label = "the NumPy path, where it is what it is made of", DECOMPOSITION
        return [Candidate(provider, label, 0, True, f"used: {rule}")], rule
    request = exact or Request(operator.name, device, (), (Spec((), dtype),), {})

    def unfit(offer: Offer) -> str | None:
        if offer.item is None:  # the operator's own function of other ops
            return None
        needs = offer.item.requires
        unmet = needs.unmet(request) if exact else needs.unmet_by_device(request)
        return registry.limit(offer.owner, device) or unmet

    offers = operator.offers()
    locked = registry.locked(operator.name, device, dtype)
    decision = decide(operator.name, offers, thread.chosen, unfit, locked)
    candidates = _candidates(offers, decision)
    if exact is None and any(_by_shape(each.item) for each in offers):
        return candidates, f"{decision.rule}, where the shapes suit it"
    return candidates, decision.rule


def _by_shape(implementation: Any) -> bool:
    return implementation is not None and implementation.requires.reject is not None
