"""Who may be in the index: plugins, and others by name; of an owners file, what its keys signed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from netcl_market.owners import Owners
from netcl_plugin_kit.packages.wheel import Wheel

from netcl_core.errors import RecordError, message
from netcl_core.plugins.protocol import canonical
from netcl_plugin_tools.market.statements import signed_by


@final
class Admission:
    """Judges wheels, and remembers by whom each was signed.

    Attributes:
        owners: None where the market has no owners file: then nobody's name is told.
        signers: The name of a wheel's file -> who signed it.
    """

    def __init__(self, owners: Owners | None, others: Iterable[str]) -> None:
        self.owners = owners
        self.signers: dict[str, str] = {}
        self._others = {*map(canonical, others), *(owners.others if owners else ())}

    def admit(self, wheel: Wheel) -> None:
        """Raise RecordError for a wheel that does not belong into the index."""
        if not wheel.plugins and wheel.name not in self._others:
            given = "it is no plugin, and neither --other nor the owners file names it"
            raise RecordError(message(wheel.file, given, "a plugin"))
        if self.owners is not None and wheel.name not in self._others:
            self.signers[wheel.file] = self.owners.who(signed_by(wheel, self.owners))
