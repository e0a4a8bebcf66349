"""Holds what is installed against the lock file, and lets its choices decide."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_core import config
from netcl_core.errors import PluginError
from netcl_core.plugins.protocol import (
    LOCK_FILE,
    Plugin,
    canonical,
    lock_file,
    lock_is_strict,
    registry,
    switched_off,
    tell,
)
from netcl_market.failures import FAILURES, plugin_error
from netcl_market.finding import InstalledDistribution
from netcl_market.lock import Lock, counted
from netcl_market.lock_verification import NOTES, Difference, verify
from netcl_market.sealed import Sealed, seal, unseal

#: The states of a plugin that works, or of which nothing else is known yet.
_ABLE: Final = frozenset({"found", "loading", "active"})
#: For each block without a lock, whether what it does not know may be loaded, too.
_unlocked: Final[list[bool]] = []


@final
@dataclass(frozen=True, slots=True)
class LockFit:
    """How what is installed fits the lock file.

    Attributes:
        lock: None if the file cannot be read.
        differences: One text for each.
        fits: Whether none of them is more than a note.
        sealed: What reads the files as they were compared.
    """

    path: Path
    lock: Lock | None
    differences: tuple[str, ...]
    fits: bool
    sealed: Sealed | None = None


@contextlib.contextmanager
def unlocked(*, strangers: bool) -> Iterator[None]:
    """See `netcl_core.plugins.unlocked`."""
    choices, demand = registry.choices, registry.demand
    loader = None if demand.begun else demand.loader
    _unlocked.append(strangers)
    registry.hold_to(None)
    try:
        yield
    finally:
        _unlocked.pop()
        registry.hold_to(choices)
        if loader is not None:  # what was found meanwhile is verified on the next use
            demand.ask_again(loader)


def admits_strangers() -> bool:
    """Whether also what a strict lock does not know is loaded now."""
    return any(_unlocked)


def hold(installed: Iterable[InstalledDistribution]) -> None:
    """Verify what is installed, and let the lock file decide between candidates from now on.

    Warns of what does not fit, once. Raises PluginError NP509 instead if a setting says so;
    a plugin that the lock does not know is not loaded then, and a warning in any case.
    """
    if _unlocked or not config.get("plugins-autoload"):
        return
    fit = verdict(installed)
    unseal()
    if fit is not None:
        _complain(fit)
        if fit.sealed is not None and lock_is_strict():
            seal(fit.sealed)
    registry.hold_to(None if fit is None else fit.lock)


def insist(plugins: Collection[Plugin]) -> None:
    """Raise PluginError NP509 if the lock is strict and somebody whom it has chosen is missing."""
    lock = registry.choices
    if _unlocked or not lock_is_strict() or not isinstance(lock, Lock):
        return
    lines = lacking(lock, plugins)
    if lines:
        _complain(LockFit(lock_file() or Path(LOCK_FILE), lock, tuple(lines), False))


def lacking(lock: Lock, plugins: Collection[Plugin]) -> list[str]:
    """A text for each distribution that a lock has chosen and that cannot serve."""
    states = {canonical(plugin.distribution): plugin for plugin in plugins}
    able = {canonical(plugin.distribution) for plugin in plugins if plugin.state in _ABLE}
    return [
        str(
            Difference(
                "NP510",
                name,
                f"it is {_state(states.get(name))}, and serves {len(served)} names of the lock, "
                f"such as {served[0]}",
            )
        )
        for name, served in sorted(lock.providers().items())
        if name not in able and name in counted(lock.plugins)
    ]


def _state(plugin: Plugin | None) -> str:
    return "not there" if plugin is None else f"{plugin.state} ({plugin.reason})"


def verdict(installed: Iterable[InstalledDistribution]) -> LockFit | None:
    """How what is installed fits the lock file of the working directory; None if there is none."""
    path = lock_file()
    if path is None:
        signed = config.get("trust") == "signed"
        if not signed and (switched_off() or not config.get("lock-strict")):
            return None
        why = 'NETCL_TRUST is "signed"' if signed else "NETCL_LOCK_STRICT is set"
        text = f"NP501: {why}, and there is no {LOCK_FILE} in or above this folder"
        return LockFit(config.working_folder() / LOCK_FILE, None, (text,), False)
    try:
        lock, differences, sealed = verify(path, installed)
    except PluginError as error:
        return LockFit(path, None, (f"{error.code}: {error}",), False)
    fits = all(difference.code in NOTES for difference in differences)
    return LockFit(path, lock, tuple(map(str, differences)), fits, sealed)


def _complain(fit: LockFit) -> None:
    lines = [f"- {difference}" for difference in fit.differences]
    text = "\n".join([f"{fit.path} does not fit what is installed:", *lines])
    if not fit.fits and lock_is_strict():
        raise plugin_error("NP509", f"NP509: {text}\n{FAILURES['NP509'].remedy}")
    tell([text] if lines else ())
