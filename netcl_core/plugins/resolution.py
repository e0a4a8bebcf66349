"""Who serves a name that several plugins offer: one list of rules, the same for everything.

Primitives, operators and implementations are decided by the same rules, in this
order; the first that picks somebody decides. Nothing in them depends on the order
in which plugins were installed or loaded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from netcl_core import config
from netcl_core.plugins.lock_file import lock_is_strict

_EXPLICIT: Final = "the explicit choice"
_RANKED: Final = "the setting resolve (NETCL_RANK)"
#: (distribution, op), both as they stand in `distribution:op`
Choice: TypeAlias = tuple[str, str]


@functools.lru_cache(maxsize=16384)
def canonical(name: str) -> str:
    """A distribution's name in the one spelling that all its spellings have in common."""
    return re.sub(r"[-_.]+", "-", name).lower()


@final
@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Something that could serve an op: the record, who brings it, and its priority.

    `owner` is the key of the provider's plugin that brings it, see `registry.Row`.
    """

    provider: str
    op: str
    label: str
    priority: int
    item: Any
    owner: str = ""

    @property
    def id(self) -> str:
        """`<distribution>:<op>`, the name that is never ambiguous."""
        return f"{self.provider}:{self.op}"


@final
@dataclass(frozen=True, slots=True)
class Decision:
    """Who serves the op and by which rule, and what is said of each offer.

    Attributes:
        winner: None if nobody can, or if a tie prevents it.
        rule: The rule that decided, for readers.
        verdicts: One text per offer, in the offers' order.
        tied: The offers that nothing tells apart, sorted; empty without a tie.
        unused: The offers that would do, but were not picked.
    """

    winner: Offer | None
    rule: str
    verdicts: tuple[str, ...]
    tied: tuple[Offer, ...] = ()
    unused: tuple[Offer, ...] = ()


def decide(
    op: str,
    offers: Sequence[Offer],
    chosen: Sequence[Choice] = (),
    unfit: Callable[[Offer], str | None] = lambda offer: None,
    locked: Sequence[str] = (),
) -> Decision:
    """Pick one of the offers for an op.

    Args:
        op: The op's name.
        offers: All that is there, in any order.
        chosen: The explicit choices in force, the innermost first.
        unfit: Why the device cannot run an offer, or None.
        locked: The order of the lock file: `<distribution>` or `<distribution>:<label>` each.
    """
    reasons = {id(offer): unfit(offer) for offer in offers}
    fitting = [offer for offer in offers if reasons[id(offer)] is None]
    by_choice = _chosen(op, offers, chosen)
    picked, rule = fitting, ""
    tied: tuple[Offer, ...] = ()
    if by_choice is not None:
        rule = f"{_EXPLICIT} {by_choice[0].id}"
        picked = [offer for offer in by_choice if reasons[id(offer)] is None]
    # Each a function from the op and the offers that fit to those that it leaves and the text
    # that names it, or None.
    by_lock = functools.partial(_locked, locked)
    rules: tuple[Any, ...] = ()
    if len(picked) > 1:
        rules = (by_lock, _ranked) if lock_is_strict() else (_ranked, by_lock)
        rules += (_highest,)
    for narrow in rules:
        narrowed = narrow(op, picked) if len(picked) > 1 else None
        if narrowed is not None:
            picked, reason = narrowed
            rule = rule or reason
    winner = picked[0] if len(picked) == 1 else None
    if len(picked) > 1:
        tied = tuple(sorted(picked, key=lambda offer: (offer.id, offer.label)))
        rule = f"none: a tie at priority {picked[0].priority}"
    if not rule:
        rule = _only(offers) if winner else "none: no candidate fits"
    if locked and not rule.startswith((_EXPLICIT, _RANKED)):
        rule += _fallen(locked[0], offers, fitting)
    verdicts = tuple(
        _verdict(candidate, reasons[id(candidate)], winner, tied, rule) for candidate in offers
    )
    unused = tuple(offer for offer in fitting if offer not in (winner, *tied))
    return Decision(winner, rule, verdicts, tied, unused)


def _only(offers: Sequence[Offer]) -> str:
    """The rule for an offer that had no rival, or whose rivals all are out."""
    providers = {offer.provider for offer in offers}
    noun = "provider" if len(providers) == len(offers) else "candidate"
    return f"the only {noun}" + (" that fits" if len(offers) > 1 else "")


def _chosen(op: str, offers: Sequence[Offer], chosen: Sequence[Choice]) -> list[Offer] | None:
    """The offers of the innermost choice that names one of them."""
    for distribution, wanted in chosen:
        if wanted == op:
            meant = [offer for offer in offers if canonical(offer.provider) == distribution]
            if meant:
                return meant
    return None


def _ranked(op: str, offers: Sequence[Offer]) -> tuple[list[Offer], str] | None:
    ranking = config.get("resolve")
    for key in (op, "*"):
        for entry in ranking.get(key, ()):
            meant = list(_meant(entry, offers))
            if meant:
                return meant, f"{_RANKED}: {entry} for {key}"
    return None


def _locked(
    order: Sequence[str], op: str, offers: Sequence[Offer]
) -> tuple[list[Offer], str] | None:
    for entry in order:
        meant = list(_meant(entry, offers))
        if meant:
            return meant, "the lock file"
    return None


def _meant(entry: str, offers: Sequence[Offer]) -> Iterator[Offer]:
    """The offers that `<distribution>` or `<distribution>:<label>` means."""
    distribution, _, label = entry.partition(":")
    for offer in offers:
        if canonical(offer.provider) == canonical(distribution) and label in {"", offer.label}:
            yield offer


def _fallen(entry: str, offers: Sequence[Offer], fitting: Sequence[Offer]) -> str:
    """What became of the locked choice, if it is out."""
    if not any(_meant(entry, offers)):
        return f"; the lock file's choice {entry} is not installed"
    return "" if any(_meant(entry, fitting)) else f"; the lock file's choice {entry} does not fit"


def _highest(op: str, offers: Sequence[Offer]) -> tuple[list[Offer], str] | None:
    best = max(offer.priority for offer in offers)
    return [offer for offer in offers if offer.priority == best], f"the highest priority, {best}"


def _verdict(
    offer: Offer, reason: str | None, winner: Offer | None, tied: Sequence[Offer], rule: str
) -> str:
    if offer is winner:
        return f"used: {rule}"
    if reason is not None:
        return f"dropped: {reason}"
    if any(offer is candidate for candidate in tied):
        return f"tied at priority {offer.priority}"
    return "not used: another takes precedence" if winner or tied else f"not used: {rule}"
