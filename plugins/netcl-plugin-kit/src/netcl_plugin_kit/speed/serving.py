"""Serving: for a while one candidate computes an operator, whatever the rules would choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from netcl_core.autograd import Operator, Request
from netcl_core.errors import UnfitError, message
from netcl_core.plugins.protocol import Choice, Offer, Row
from netcl_plugin_kit.faults.substitution import substituted


@contextmanager
def serving(row: Row, offer: Offer) -> Iterator[None]:
    """Let an operator be computed by one of its offers alone, with plans of its own.

    What asks for something that it refuses raises UnfitError.
    """
    record: Operator = replace(row.record)

    def select(request: Request, chosen: Sequence[Choice] = ()) -> Any:
        reason = None if offer.item is None else offer.item.requires.unmet(request)
        if reason is None:
            return offer.item
        error = UnfitError(message(row.record.name, f"{offer.label} refuses it: {reason}", ""))
        error.refusals = [(offer.provider, offer.label, reason)]
        raise error

    object.__setattr__(record, "select", select)
    with substituted(row, record):
        yield


def served_by_the_rules(row: Row, run: Callable[[], Any]) -> list[Any]:
    """The implementations that the rules choose for a call, None for an op's own function."""
    record: Operator = replace(row.record)
    selections: list[Any] = []

    def select(request: Request, chosen: Sequence[Choice] = ()) -> Any:
        selections.append(Operator.select(record, request, chosen))
        return selections[-1]

    object.__setattr__(record, "select", select)
    with substituted(row, record):
        run()
    return selections


def others_of(row: Row, provider: str) -> list[Offer]:
    """The offers of everybody else, as they would be chosen."""
    offers = [offer for offer in row.record.offers() if offer.provider != provider]
    return sorted(offers, key=lambda offer: -offer.priority)
