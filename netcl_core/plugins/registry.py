"""The registry: passive tables of what plugins have brought, and nothing that loads them.

A `Row` says which record, who provides it and with which priority. A name may
have rows of several providers; `resolution` decides between them, and a tie is an
error that names both, so that the order of installation never decides.

Rows enter through a `Transaction` that belongs to one provider: either all of
a provider's rows appear or none does.
"""

from __future__ import annotations

import functools
import importlib
import keyword
import pkgutil
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, final

from netcl_core.errors import AmbiguousOpError, RegistrationError, coded, message
from netcl_core.hardware import forks
from netcl_core.plugins.kinds import KINDS, OP_KINDS, REGISTERED, SERVING_OPS, fetch
from netcl_core.plugins.lazy_loading import Demand, Loader, load_needed
from netcl_core.plugins.resolution import Choice, Decision, Offer, decide

# -- the names that a record may have, and its priority ------------------------------------


@functools.cache
def reserved(face: str) -> frozenset[str]:
    """The names that a face has itself: nothing that a plugin brings can be called so."""
    module = importlib.import_module(face)
    submodules = (each.name for each in pkgutil.iter_modules(module.__path__))
    return frozenset({"OWN_NAMES", *module.OWN_NAMES, *module.__all__, *submodules})


def check_name(provider: str, kind: str, name: Any, *, public: bool) -> None:
    """Raise RegistrationError for a name that a record of a kind cannot have."""
    row = KINDS[kind]
    joined = not row.face and not row.serves  # it is looked up by text alone: `fp16-storage`
    plain = name.replace("-", "_") if joined and isinstance(name, str) else name
    if not isinstance(plain, str) or not plain.isidentifier() or keyword.iskeyword(plain):
        text = message(provider, f"the {kind} name {name!r} is no identifier", "a name")
        raise coded("NP306", RegistrationError(text))
    face = row.face if public else ""
    if face and (name.startswith("_") or name in reserved(face)):
        own = "begins with an underscore" if name.startswith("_") else "is the core's own"
        given = f"the {kind} name {name!r}: {face}.{name} {own}"
        text = message(provider, given, "a name that is free", "Choose another name")
        raise coded("NP312", RegistrationError(text))


def check_priority(provider: str, name: str, *given: Any) -> None:
    """Raise RegistrationError for a priority that cannot be compared with all others."""
    for priority in given:
        if type(priority) is not int:
            text = message(provider, f"{name!r} with the priority {priority!r:.60}", "an integer")
            raise coded("NP315", RegistrationError(text))


#: Who provides what was registered by hand; it wins over installed plugins.
USER: Final = "user"
USER_PRIORITY: Final = 1_000_000
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
        raise ambiguous(op, decision.tied)
    return decision.winner.item


def _winning(
    name: str, rows: Sequence[Row], chosen: Sequence[Choice] = (), locked: Sequence[str] = ()
) -> Row | None:
    """The row that serves a name; None if there is none."""
    if not rows:
        return None
    offers = [row.offer for row in rows]
    winner: Row = winner_of(name, decide(name, offers, chosen, locked=locked))
    return winner


def ambiguous(name: str, tied: Sequence[Offer]) -> AmbiguousOpError:
    """The error for offers that nothing tells apart: it names them, and how to choose."""
    of_ops = tied[0].label in OP_KINDS or tied[0].label not in KINDS  # of an implementation
    choice = f"nc.prefer({tied[0].id!r}) or " if of_ops else ""
    remedy = f"Choose with {choice}NETCL_RANK={tied[0].id}"
    names = [offer.id for offer in tied]
    if len(set(names)) == 1:  # two plugins of one distribution, which no choice tells apart
        names = [f"{offer.provider}:{offer.owner.rpartition(':')[2]}" for offer in tied]
        remedy = f"Choose with NETCL_PLUGINS_DISABLE={names[-1]}"
    text = message(
        name,
        f"{' and '.join(names)} offer it with the same priority {tied[0].priority}",
        "one winner",
        f"{remedy}. Uninstall one of the two, or give one of them a higher priority",
    )
    return coded("NP401", AmbiguousOpError(text))


@final
class Registry:
    """All tables of one process.

    `version` grows with every change, and with `renew`; whoever caches something that was
    derived from the tables keeps the version with it. It does not grow where a plugin is loaded
    that had promised what it brings: nobody has looked that up, since a look-up loads first
    whoever may bring what it looks for.
    """

    def __init__(self, loader: Loader = load_needed) -> None:
        self.version = 0
        self._tables: dict[str, dict[str, tuple[Row, ...]]] = {
            table: {} for table in (*REGISTERED, _PARTS)
        }
        #: The import packages of the plugins.
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
        #: What plugins were asked for, and what those that are not loaded yet will bring.
        self.demand = Demand(loader, self.lock)

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
        """The names of all public ops, sorted; also of those whose plugins are not loaded yet."""
        self.load(())
        there = {name for kind in OP_KINDS for name in tuple(self._tables[kind])}
        return sorted(there | self.demand.op_names())

    def load(self, kinds: tuple[str, ...] | None = None, name: str = "") -> None:
        """Let the plugin manager load, if it has not done so yet, what may be looked up now.

        Other threads wait until it is there. A plugin that looks something up while it is loaded
        gets what others bring, and of what is just coming that which is there so far.

        Args:
            kinds: Of which kinds; None: all that is installed is loaded; none: what does not
                say what it brings.
            name: What it is called; empty: all names.
        """
        self.demand.meet((kinds, name))

    def find_op(self, name: str, chosen: Sequence[Choice] = ()) -> Row | None:
        """The row that serves an op, loading the plugins if need be; None if there is none.

        Raises AmbiguousOpError if two providers offer it with equal priority.
        """
        self.load(SERVING_OPS, name)
        return _winning(name, self.op_rows(name), chosen, self.locked(name))

    def find(self, kind: str, name: str) -> Row | None:
        """The row of one kind and name, loading the plugins if need be; None if there is none."""
        self.load((kind,), name)
        locked = self.locked(KINDS[kind].lock_key(name))
        return _winning(name, self.rows(kind, name), locked=locked)

    def space(self, name: str) -> Any:
        """The module of a namespace, loading its plugin if need be; None if there is none."""
        row = self.find("namespace", name)
        return None if row is None else fetch(row.record.module)

    def unused(self, row: Row) -> str:
        """Why nothing can ever use a record, such as an implementation of nobody's operator.

        Empty if something can.
        """
        served, name = KINDS[row.kind].serves, row.record.name
        if not served or self._tables[served].get(name) or self._tables[_PARTS].get(name):
            return ""
        others = self.op_rows(name)
        if not others:
            return f"nobody provides the {served} {name!r}"
        providers = " and ".join(sorted(other.provider for other in others))
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

    def transaction(
        self, provider: str, *, owner: str = "", override: bool = False, promised: bool = False
    ) -> Transaction:
        """Begin to enter rows for one provider; nothing is visible before `commit`.

        `promised`: a look-up of any of them would have loaded the provider.
        """
        return Transaction(self, provider, owner or provider, override, promised)

    def add_packages(self, packages: Collection[str]) -> None:
        """Note that import packages belong to plugins, and not to the user."""
        with self.lock:
            self.packages.update(packages)
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

    def remove(self, kind: str, name: str, provider: str) -> None:
        """Take one record of a provider out of the tables, with its parts."""
        with self.lock:
            for table in (kind, _PARTS):
                for row_name, rows in list(self._tables[table].items()):
                    kept = tuple(
                        row for row in rows
                        if row.provider != provider or (row.part_of or row.record.name) != name
                    )  # fmt: skip
                    self._tables[table][row_name] = kept
                    if not kept:
                        del self._tables[table][row_name]
            self._changed()

    def _enter(self, rows: list[Row], provider: str, override: bool, promised: bool) -> None:
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
            if not promised or self.demand.peeked:
                self._changed()

    def renew(self) -> None:
        """Have all that was derived from the tables made anew: records of tuning have changed."""
        with self.lock:
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
    promised: bool = False
    rows: list[Row] = field(default_factory=list)

    def add(self, kind: str, record: NamedRecord, priority: int = 0, part_of: str = "") -> None:
        """Note a record, which may exist for another op alone.

        Raises RegistrationError for a name that is no identifier or that the core has itself,
        for a second record of the same kind and name from the same plugin, and for a priority
        that is no integer.
        """
        name = record.name
        check_name(self.provider, kind, name, public=not part_of)
        check_priority(self.provider, name, getattr(record, "priority", priority), priority)
        taken = {row.kind for row in self._own_rows(name) if row.owner == self.owner}
        taken &= {*KINDS[kind].rivals}
        if taken and not KINDS[kind].repeats and not self.override:
            text = message(
                self.provider,
                f"the {kind} {name!r} is registered already",
                "each name once",
                "Choose another name, or pass override=True to replace it",
            )
            raise coded("NP307", RegistrationError(text))
        self.rows.append(Row(kind, record, self.provider, priority, self.owner, part_of))

    def known(self, part: NamedRecord) -> Sequence[Row]:
        """The provider's rows of a part's name, noted or entered already."""
        rows = (*self.rows, *self.registry.op_rows(part.name, parts=True))
        return [row for row in rows if row.provider == self.provider]

    def _own_rows(self, name: str) -> list[Row]:
        """The provider's records of this name, entered or noted."""
        rows = [row for row in self.rows if row.record.name == name]
        rows += [row for kind in REGISTERED for row in self.registry.rows(kind, name)]
        rows += self.registry.op_rows(name, parts=True)
        return [row for row in rows if row.provider == self.provider]

    def commit(self) -> None:
        """Make all rows visible in one step.

        Raises RegistrationError for an implementation of the provider's own primitive.
        """
        for row in self.rows:
            served, name = KINDS[row.kind].serves, row.record.name
            own = {own_row.kind for own_row in self._own_rows(name)}.intersection(OP_KINDS)
            if served and own and served not in own:
                given = f"an {row.kind} of {name!r}, which is a {min(own)}"
                remedy = f"Only a {served} has {row.kind}s: make it one, or leave this out"
                text = message(self.provider, given, f"one of a {served}", remedy)
                raise coded("NP313", RegistrationError(text))
        self.registry._enter(self.rows, self.provider, self.override, self.promised)


registry: Final = Registry()
forks.wait_for("loading plugins", registry, registry.demand)
