"""One plugin of this process: where it comes from, what it says of itself, and its state.

found -> incompatible | disabled | loading -> active | quarantined
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, final

from netcl_core.errors import NetclError, plain, raised_at
from netcl_core.plugins.failures import STATES, remedy_of, said
from netcl_core.plugins.kinds import SHORT_ROAD
from netcl_core.plugins.resolution import canonical

#: The groups of entry points that name hooks, one primitive, or a manifest.
PLUGINS: Final = "netcl_core.plugins"
PRIMITIVES: Final = "netcl_core.primitives"
MANIFEST: Final = "netcl_core.manifest"


class PluginSource(Protocol):
    """The installed distribution of a plugin.

    Attributes:
        points: (group, name) of its entry points -> what they name, `module:attribute`.
        requires: Its `Requires-Dist`.
        location: The folder of its metadata.
    """

    @property
    def points(self) -> Mapping[tuple[str, str], str]: ...
    @property
    def requires(self) -> tuple[str, ...]: ...
    @property
    def location(self) -> str: ...


CORE_PREFIX: Final = "core"


@final
@dataclass(slots=True)
class Plugin:
    """One plugin and its state, with the reason for it.

    >>> _ = ag.relu([1.0])  # the first use of an op loads the plugin that brings it
    >>> plugin = next(each for each in nc.plugins.list() if each.name == "elementwise")
    >>> plugin.state, "relu" in plugin.provides
    ('active', True)

    Attributes:
        name: The name of its entry point. Plugins of several distributions may have the same.
        state: found, incompatible, disabled, loading, active or quarantined.
        code: The kind of its failure, a row of docs/plugin-errors.md; empty if it has none.
        provides: The names of its ops and namespaces, once it is active.
        group: The entry-point group that it was found in, empty for one given to `register`.
        manifest: What it says of itself, as a market reads it; None if it ships no manifest.
        source: Its distribution, a `PluginSource`; None for one given to `register`.
        prefix: What its templates' names begin with, see `give_prefixes`.
        own_prefix: Whether its template prefix came with it, and so goes with it.
        has_templates: Whether the templates of its package were added.
    """

    name: str
    distribution: str
    version: str
    state: str = "found"
    reason: str = ""
    traceback: str = ""
    provides: tuple[str, ...] = ()
    group: str = ""
    code: str = ""
    manifest: Any = None
    prefix: str = ""
    own_prefix: bool = field(default=False, repr=False)
    has_templates: bool = field(default=False, repr=False)
    implementations: Any = field(default=None, repr=False)
    source: Any = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """`data` if it is a manifest with templates, of which nothing is imported; else `code`."""
        return "data" if self.group == MANIFEST else "code"

    @property
    def id(self) -> str:
        """`<distribution>:<name>`, as settings name it, and always a prefix of its templates."""
        return f"{canonical(self.distribution)}:{self.name}"

    @property
    def key(self) -> str:
        """What tells it from every other plugin."""
        return f"{self.distribution}:{self.group}:{self.name}"

    @property
    def offers(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of what it brings, as far as it says: by the short road or a manifest."""
        own = ((SHORT_ROAD, self.name),) if self.group == PRIMITIVES else ()
        return own + (self.manifest.offers if self.manifest is not None else ())

    @property
    def remedy(self) -> str:
        """What to do about its state; empty if nothing has to be done."""
        return remedy_of(self.code) if self.code else ""

    @property
    def failed(self) -> bool:
        """Whether it does not work and nobody wanted that."""
        return self.state in {"incompatible", "quarantined"}

    def fail(self, error: BaseException, code: str, traceback: str = "") -> None:
        """Note why it does not work."""
        self.code, self.state = code, STATES[code]
        self.reason = said(error)
        with suppress(BaseException):  # it may even say that it is of another class
            if not isinstance(error, NetclError) and (place := raised_at(error)):
                self.reason += f" (at {place})"
        self.traceback = plain(traceback)
