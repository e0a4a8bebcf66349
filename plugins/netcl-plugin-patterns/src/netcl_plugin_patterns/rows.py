"""Where a compiled function takes training patterns from: the registry, or a list of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, final

from netcl_core import Device, PatternRegistrar
from netcl_core.autograd import TraceNode, TracingContext
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.inspect.programs import Rewritten
from netcl_core.plugins.protocol import KINDS, USER, USER_PRIORITY, Row, decide, registry
from netcl_plugin_patterns.records import TrainingPattern
from netcl_plugin_patterns.rewriting import rewritten

_KIND: Final = "pattern"


class PatternRows(Protocol):
    """Training patterns with their providers."""

    @property
    def version(self) -> int:
        """Grows with every change that the registry's version does not count."""

    def all(self) -> Sequence[Row]:
        """All of them, in the order in which they came."""

    def serving(self, device: Device | None) -> Sequence[Row]:
        """Those that may apply on a device; of one name several only where nothing decides."""

    def rewritten(
        self, context: TracingContext, results: Sequence[TraceNode], device: Device | None
    ) -> Rewritten:
        """A trace with the groups replaced that they take on a device."""

    def add(self, pattern: TrainingPattern, override: bool) -> None:
        """Add one; raises RegistrationError for a name that is taken."""

    def remove(self, name: str) -> None:
        """Remove one that was added here; raises RegistrationError if there is none."""


@final
class RegisteredRows:
    """All that are registered: those of plugins, and the user's."""

    version: Final = 0

    def __reduce__(self) -> str:
        return "REGISTERED_ROWS"

    def all(self) -> Sequence[Row]:
        registry.load((_KIND,))
        return registry.rows(_KIND)

    def serving(self, device: Device | None) -> Sequence[Row]:
        names = dict.fromkeys(row.record.name for row in registry.rows(_KIND))
        return [row for name in names for row in _winners(name, device)]

    def rewritten(
        self, context: TracingContext, results: Sequence[TraceNode], device: Device | None
    ) -> Rewritten:
        return rewritten(context, results, self.serving(device))

    def add(self, pattern: TrainingPattern, override: bool) -> None:
        registry.load((_KIND,))
        taken = registry.rows(_KIND, pattern.name)
        if taken and not override:
            raise _taken(pattern.name, taken[0].provider)
        transaction = registry.transaction(USER, override=override)
        PatternRegistrar(KINDS[_KIND].hook, transaction, USER).add(pattern, USER_PRIORITY)
        transaction.commit()

    def remove(self, name: str) -> None:
        if not any(row.provider == USER for row in registry.rows(_KIND, name)):
            raise _unknown(name)
        registry.remove(_KIND, name, USER)


REGISTERED_ROWS: Final = RegisteredRows()


def _winners(name: str, device: Device | None) -> Sequence[Row]:
    """The row that serves a name on a device; all that are tied where there is a tie."""
    offers = [row.offer for row in registry.rows(_KIND, name)]
    decision = decide(
        name,
        offers,
        unfit=lambda offer: registry.limit(offer.owner, device),
        locked=registry.locked(KINDS[_KIND].lock_key(name), device),
    )
    winners = decision.tied if decision.winner is None else (decision.winner,)
    return [offer.item for offer in winners]


@final
class OwnRows:
    """Patterns of one compiler alone, which the registry does not know."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = list(rows)
        self.version = 0

    def all(self) -> Sequence[Row]:
        return tuple(self._rows)

    def serving(self, device: Device | None) -> Sequence[Row]:
        return tuple(self._rows)

    def rewritten(
        self, context: TracingContext, results: Sequence[TraceNode], device: Device | None
    ) -> Rewritten:
        return rewritten(context, results, self.serving(device))

    def add(self, pattern: TrainingPattern, override: bool) -> None:
        kept = [row for row in self._rows if row.record.name != pattern.name]
        if len(kept) < len(self._rows) and not override:
            raise _taken(pattern.name, USER)
        self._rows = [*kept, Row(_KIND, pattern, USER)]
        self.version += 1

    def remove(self, name: str) -> None:
        kept = [row for row in self._rows if row.record.name != name]
        if len(kept) == len(self._rows):
            raise _unknown(name)
        self._rows = kept
        self.version += 1


def _taken(name: str, provider: str) -> RegistrationError:
    given, remedy = f"{name!r} is provided by {provider} already", "Pass override=True"
    text = message("TrainingGraphCompiler.register", given, "a new name", f"{remedy} to replace it")
    return coded("NP307", RegistrationError(text))


def _unknown(name: str) -> RegistrationError:
    given = f"{name!r} was not registered by hand"
    return RegistrationError(
        message("TrainingGraphCompiler.unregister", given, "a name that `register` was given")
    )
