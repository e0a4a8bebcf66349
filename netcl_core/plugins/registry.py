"""The registry: passive tables of what plugins have brought, and nothing that loads them.

A `Row` says which record, who provides it and with which priority. A name may
have rows of several providers; `resolution` decides between them, and a tie is an
error that names both, so that the order of installation never decides.

Rows enter through a `Transaction` that belongs to one provider: either all of
a provider's rows appear or none does.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, final

from netcl_core.errors import AmbiguousOpError, RegistrationError, coded, message
from netcl_core.plugins.kinds import KINDS, OP_KINDS, REGISTERED
from netcl_core.plugins.names import check_name
from netcl_core.plugins.resolution import Choice, Decision, Offer, decide

#: The table of the records that exist for other ops, whatever their kind.
_PARTS: Final = "part"


class NamedRecord(Protocol):
    """What every record has: the name under which it is looked up."""

    @property
    def name(self) -> str: ...


class Choices(Protocol):
    """What a lock file says of ops that several offer."""

    def knows(self, op: str) -> bool: ...

    def order(self, op: str, device: Any, dtype: str = "") -> Sequence[str]: ...


@final
@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace such as `nn`: its name and the module that the face hands out for it."""

    name: str
    module: str


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One record in a table, with its provider (a distribution's name) and its priority.

    A distribution may have several plugins: `owner` is the key of the one that brings the
    record, and the provider's name for what is entered without a plugin. `part_of` names the op
    that the record exists for; "": it is an op of its own.
    """

    kind: str
    record: Any
    provider: str
    priority: int = 0
    owner: str = ""
    part_of: str = ""

    @property
    def id(self) -> str:
        """`<distribution>:<op>`, the name that is never ambiguous."""
        return f"{self.provider}:{self.record.name}"

    @property
    def offer(self) -> Offer:
        """This row as one of several offers for its name."""
        return Offer(self.provider, self.record.name, self.kind, self.priority, self, self.owner)


def winner_of(op: str, decision: Decision) -> Any:
    """What a decision picked; raises AmbiguousOpError that names all who are tied."""
    if decision.winner is None:
        raise coded("NP401", _ambiguous(op, decision.tied))
    return decision.winner.item


def _winning(
    name: str, rows: Sequence[Row], chosen: Sequence[Choice] = (), locked: Sequence[str] = ()
) -> Row | None:
    """The row that serves a name; None if there is none."""
    if not rows:
        return None
    offers = [row.offer for row in rows]
    found: Row = winner_of(name, decide(name, offers, chosen, locked=locked))
    return found


#: Fills the tables, once somebody asks for what no manifest of a loaded plugin brings.
_LOADER: Final = "netcl_core.plugins.loading"


def _load_installed() -> None:
    importlib.import_module(_LOADER).load_installed()


def _ambiguous(name: str, tied: Sequence[Offer]) -> AmbiguousOpError:
    of_ops = not isinstance(tied[0].item, Row) or KINDS[tied[0].item.kind].is_op
    choice = f"nc.prefer({tied[0].id!r}) or NETCL_RANK" if of_ops else "NETCL_RANK"
    return AmbiguousOpError(
        message(
            name,
            f"{' and '.join(offer.id for offer in tied)} offer it with the same priority "
            f"{tied[0].priority}",
            "one winner",
            f"Choose with {choice}. "
            "Uninstall one of the two, or give one of them a higher priority",
        )
    )


@final
class Registry:
    """All tables of one process.

    `version` grows with every change; whoever caches something that was derived
    from the tables keeps the version with it. `loader` is called once, before the
    first look-up that misses.
    """

    def __init__(self) -> None:
        self.version = 0
        self.loader: Callable[[], None] | None = _load_installed
        self._tables: dict[str, dict[str, tuple[Row, ...]]] = {
            table: {} for table in (*REGISTERED, _PARTS)
        }
        #: The import packages of the active plugins.
        self.packages: set[str] = set()
        #: The state and the reason of a distribution's plugin that is not active, for messages, by
        #: the distribution's canonical name.
        self.inactive: dict[str, str] = {}
        #: What such a plugin would bring, by its manifest: kind and name -> the distribution.
        self.withheld: dict[tuple[str, str], str] = {}
        #: Why a device is too little for a plugin, by its manifest, or None; by the rows' owner.
        self.limits: dict[str, Callable[[Any], str | None]] = {}
        #: The choices of the lock file that holds, if there is one; see `hold_to`.
        self.choices: Choices | None = None
        #: Held by whoever fills or empties tables; the one lock of the registry and its plugins,
        #: so that loading on first use and `nc.plugins.register` never wait for each other.
        self.lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        self._loading = False

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change of the tables (to drop derived caches)."""
        self._listeners.append(listener)

    def rows(self, kind: str, name: str | None = None) -> tuple[Row, ...]:
        """The rows of one kind, all or those of one name, without loading anything.

        Those of records that exist for other ops are not among them.
        """
        table = self._tables[kind]
        if name is not None:
            return table.get(name, ())
        return tuple(row for rows in tuple(table.values()) for row in rows)

    def rows_of(self, provider: str, *, parts: bool = False) -> list[Row]:
        """The rows of all ops of a distribution; `parts` as of `op_rows`."""
        tables = (*OP_KINDS, _PARTS) if parts else OP_KINDS
        rows = [row for table in tables for row in self.rows(table)]
        return [row for row in rows if row.provider == provider]

    def op_rows(self, name: str, *, parts: bool = False) -> tuple[Row, ...]:
        """The rows that could serve an op of this name, primitives and operators alike.

        With `parts` also those of records that exist for other ops.
        """
        tables = (*OP_KINDS, _PARTS) if parts else OP_KINDS
        return tuple(row for table in tables for row in self._tables[table].get(name, ()))

    def op_names(self) -> list[str]:
        """The names of all public ops, sorted."""
        return sorted({name for kind in OP_KINDS for name in tuple(self._tables[kind])})

    def load(self) -> None:
        """Let the plugin manager fill the tables, if it has not done so yet.

        Other threads wait until they are full; a plugin that looks something up while
        it is loaded sees what is there so far.
        """
        if self.loader is None:
            return
        with self.lock:
            if self.loader is None or self._loading:
                return
            self._loading = True
            try:
                self.loader()
                self.loader = None
            finally:
                self._loading = False

    def find_op(self, name: str, chosen: Sequence[Choice] = ()) -> Row | None:
        """The row that serves an op, loading the plugins if need be; None if there is none.

        Raises AmbiguousOpError if two providers offer it with equal priority.
        """
        self.load()
        return _winning(name, self.op_rows(name), chosen, self.locked(name))

    def find(self, kind: str, name: str) -> Row | None:
        """The row of one kind and name, loading the plugins if need be; None if there is none."""
        self.load()
        return _winning(name, self.rows(kind, name))

    def unused(self, row: Row) -> str:
        """Why nothing can ever use a record, such as an implementation of nobody's operator.

        Empty if something can.
        """
        served, name = KINDS[row.kind].serves, row.record.name
        if not served or self._tables[served].get(name):
            return ""
        others = self.op_rows(name)
        if not others:
            return f"nobody provides the {served} {name!r}"
        providers = " and ".join(sorted(each.provider for each in others))
        return f"{name!r} of {providers} is a {others[0].kind}, which takes no {row.kind}"

    def hold_to(self, choices: Choices | None) -> None:
        """Let a lock file's choices decide from now on; None: there is none."""
        with self.lock:
            self.choices = choices
            self._changed()

    def locked(self, op: str, device: Any = None, dtype: str = "") -> Sequence[str]:
        """The lock's order of the providers of an op or, for a dtype, of its implementations.

        Without a device: what all devices of the lock agree on.
        """
        return () if self.choices is None else self.choices.order(op, device, dtype)

    def limit(self, owner: str, device: Any) -> str | None:
        """Why a device is too little for what a plugin's manifest requires, or None."""
        check = self.limits.get(owner)
        return None if check is None else check(device)

    def transaction(self, provider: str, *, owner: str = "", override: bool = False) -> Transaction:
        """Begin to enter rows for one provider; nothing is visible before `commit`."""
        return Transaction(self, provider, owner or provider, override)

    def add_package(self, package: str) -> None:
        """Note that an import package belongs to an active plugin, and not to the user."""
        with self.lock:
            self.packages.add(package)
            self._changed()

    def remove_provider(self, provider: str, owner: str = "") -> None:
        """Take the rows of a provider out of the tables, all or those of one of its plugins."""
        with self.lock:
            self.limits.pop(owner or provider, None)
            for table in self._tables.values():
                for name, rows in list(table.items()):
                    table[name] = tuple(
                        row for row in rows
                        if row.provider != provider or (owner and row.owner != owner)
                    )  # fmt: skip
                    if not table[name]:
                        del table[name]
            self._changed()

    def _enter(self, rows: list[Row], provider: str, override: bool) -> None:
        with self.lock:
            for row in rows:
                name = row.record.name
                table = self._tables[_PARTS if row.part_of else row.kind]
                kept = table.get(name, ())
                if override:  # what takes the place of a plugin's record belongs to the plugin
                    owners = [old.owner for old in kept if old.provider == provider]
                    row = replace(row, owner=(*owners, row.owner)[0])
                    kept = tuple(old for old in kept if old.provider != provider)
                table[name] = (*kept, row)
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        for listener in self._listeners:
            listener()


@final
@dataclass(slots=True)
class Transaction:
    """The rows that one provider wants to enter, checked as they come, entered all at once."""

    registry: Registry
    provider: str
    owner: str
    override: bool = False
    rows: list[Row] = field(default_factory=list)

    def add(self, kind: str, record: NamedRecord, priority: int = 0, part_of: str = "") -> None:
        """Note a record, which may exist for another op alone.

        Raises RegistrationError for a name that is no identifier or that the core has itself,
        and for a second record of the same kind and name from the same provider.
        """
        name = record.name
        check_name(self.provider, kind, name, public=not part_of)
        taken = self._own_kinds(name).intersection(KINDS[kind].rivals)
        if taken and not KINDS[kind].repeats and not self.override:
            text = message(
                self.provider,
                f"the {kind} {name!r} is registered already",
                "each name once",
                "Choose another name, or pass override=True to replace it",
            )
            raise coded("NP307", RegistrationError(text))
        self.rows.append(Row(kind, record, self.provider, priority, self.owner, part_of))

    def _own_kinds(self, name: str) -> set[str]:
        """The kinds of which the provider has a record of this name, entered or noted."""
        rows = [row for row in self.rows if row.record.name == name]
        rows += [row for kind in REGISTERED for row in self.registry.rows(kind, name)]
        rows += self.registry.op_rows(name, parts=True)
        return {row.kind for row in rows if row.provider == self.provider}

    def commit(self) -> None:
        """Make all rows visible in one step.

        Raises RegistrationError for an implementation of the provider's own primitive.
        """
        for row in self.rows:
            served, name = KINDS[row.kind].serves, row.record.name
            own = self._own_kinds(name).intersection(OP_KINDS)
            if served and own and served not in own:
                given = f"an {row.kind} of {name!r}, which is a {min(own)}"
                remedy = f"Only a {served} has {row.kind}s: make it one, or leave this out"
                text = message(self.provider, given, f"one of a {served}", remedy)
                raise coded("NP313", RegistrationError(text))
        self.registry._enter(self.rows, self.provider, self.override)


registry: Final = Registry()
